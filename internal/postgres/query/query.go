// Package query runs statements: the generated ones of dbsqlc, each with the type of its parameters and of its rows. Rows are
// read by the names of their columns. It begins no transactions and tries nothing again: that is the business of postgres.
package query

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is a pool, a connection or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Query is a statement. Params are its parameters, struct{} without any. Row is what a row is read into: a struct whose
// fields are the columns, or the only column itself, or struct{} if rows are not read.
type Query[Params, Row any] struct {
	SQL    string
	args   func(Params) []any
	places atomic.Pointer[places]
}

// Bare returns a query without parameters.
func Bare[Row any](sql string) *Query[struct{}, Row] {
	return &Query[struct{}, Row]{SQL: sql, args: func(struct{}) []any { return nil }}
}

// Single returns a query with one parameter.
func Single[Params, Row any](sql string) *Query[Params, Row] {
	return &Query[Params, Row]{SQL: sql, args: func(params Params) []any { return []any{params} }}
}

// Fields returns a query whose parameters are the fields of a struct, in their order.
func Fields[Params, Row any](sql string) *Query[Params, Row] {
	return &Query[Params, Row]{SQL: sql, args: func(params Params) []any {
		value := reflect.ValueOf(params) // one copy of them all: its fields are not copied again
		args := make([]any, value.NumField())
		for n := range args {
			args[n] = value.Field(n).Interface()
		}
		return args
	}}
}

// Queue adds the statement to a batch. How its answer is read is up to the caller.
func (q *Query[Params, Row]) Queue(batch *pgx.Batch, params Params) *pgx.QueuedQuery {
	return batch.Queue(q.SQL, q.args(params)...)
}

// Read adds the statement to a batch, and passes each row to take.
func (q *Query[Params, Row]) Read(batch *pgx.Batch, params Params, take func(Row)) {
	q.Queue(batch, params).Query(func(rows pgx.Rows) error { return q.each(rows, take) })
}

// Exec runs the statement, and returns how many rows it changed.
func (q *Query[Params, Row]) Exec(ctx context.Context, db DB, params Params) (int64, error) {
	tag, err := db.Exec(ctx, q.SQL, q.args(params)...)
	return tag.RowsAffected(), err
}

// Run is Exec for who does not count.
func (q *Query[Params, Row]) Run(ctx context.Context, db DB, params Params) error {
	_, err := q.Exec(ctx, db, params)
	return err
}

// All runs the statement and returns its rows.
func (q *Query[Params, Row]) All(ctx context.Context, db DB, params Params) (found []Row, err error) {
	rows, err := db.Query(ctx, q.SQL, q.args(params)...)
	if err != nil {
		return nil, err
	}
	err = q.each(rows, func(row Row) { found = append(found, row) })
	return found, err
}

// One runs the statement and returns its row. Without one the error is pgx.ErrNoRows.
func (q *Query[Params, Row]) One(ctx context.Context, db DB, params Params) (row Row, err error) {
	found, err := q.All(ctx, db, params)
	if err != nil {
		return row, err
	}
	if len(found) == 0 {
		return row, pgx.ErrNoRows
	}
	return found[0], nil
}

// each reads all rows into the same variable, and passes a copy of it on.
func (q *Query[Params, Row]) each(rows pgx.Rows, take func(Row)) error {
	defer rows.Close()
	var row Row
	var targets []any
	var err error
	for rows.Next() {
		if targets == nil {
			if targets, err = q.targets(&row, rows.FieldDescriptions()); err != nil {
				return err
			}
		}
		row = *new(Row)
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		take(row)
	}
	return rows.Err()
}

// placesOf looks the columns up once: a statement has the same ones each time, unless a migration changed a table.
func (q *Query[Params, Row]) placesOf(columns []pgconn.FieldDescription) (*places, error) {
	if known := q.places.Load(); known != nil && known.fit(columns) {
		return known, nil
	}
	found, err := newPlaces(reflect.TypeFor[Row](), columns)
	if err == nil {
		q.places.Store(found)
	}
	return found, err
}

// Targets returns pointers to what the columns of a row would be read into.
func (q *Query[Params, Row]) Targets(columns []pgconn.FieldDescription) ([]any, error) {
	return q.targets(new(Row), columns)
}

func (q *Query[Params, Row]) targets(row *Row, columns []pgconn.FieldDescription) ([]any, error) {
	places, err := q.placesOf(columns)
	if err != nil {
		return nil, err
	}
	return places.in(reflect.ValueOf(row).Elem()), nil
}

// places says which field of a row each column is read into.
type places struct {
	columns []string
	fields  [][]int // as reflect has them; nil if a row is its only column
}

// newPlaces finds the fields of a row. Every column must have one, and every field a column, except fields with the tag
// db:"-". Names are equal without regard to case and underscores; a tag gives a field another one.
func newPlaces(row reflect.Type, columns []pgconn.FieldDescription) (*places, error) {
	p := &places{}
	for _, column := range columns {
		p.columns = append(p.columns, column.Name)
	}
	free := fieldsOf(row)
	if len(free) == 0 {
		if len(columns) != 1 && row != reflect.TypeFor[struct{}]() {
			return nil, fmt.Errorf("a row of type %s is one column, but there are %d", row, len(columns))
		}
		return p, nil
	}
	for _, name := range p.columns {
		field, known := free[plain(name)]
		if !known {
			return nil, fmt.Errorf("a row of type %s has no field, or two columns, for %s", row, name)
		}
		delete(free, plain(name))
		p.fields = append(p.fields, field)
	}
	for name := range free {
		return nil, fmt.Errorf("no column is named as the field %s of %s", name, row)
	}
	return p, nil
}

// fieldsOf returns the fields of a struct and of the structs that it embeds, by their plain names. Other types have none, and
// neither have structs like time.Time, which are one value.
func fieldsOf(row reflect.Type) map[string][]int {
	fields := map[string][]int{}
	if row.Kind() != reflect.Struct {
		return fields
	}
	for _, field := range reflect.VisibleFields(row) {
		name := field.Tag.Get("db")
		if name == "-" || !field.IsExported() || field.Anonymous && field.Type.Kind() == reflect.Struct {
			continue
		}
		if name == "" {
			name = field.Name
		}
		fields[plain(name)] = field.Index
	}
	return fields
}

func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// fit reports whether columns are the ones looked up.
func (p *places) fit(columns []pgconn.FieldDescription) bool {
	if len(columns) != len(p.columns) {
		return false
	}
	for n, name := range p.columns {
		if columns[n].Name != name {
			return false
		}
	}
	return true
}

// in returns pointers to the fields of a row.
func (p *places) in(row reflect.Value) []any {
	if p.fields == nil {
		return []any{row.Addr().Interface()}
	}
	targets := make([]any, len(p.fields))
	for n, field := range p.fields {
		targets[n] = row.FieldByIndex(field).Addr().Interface()
	}
	return targets
}
