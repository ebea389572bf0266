package query

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

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

// fieldsOf returns the fields of a struct and of those that it embeds, by their plain names. Other types have none, and
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

// fit reports whether columns are those that were looked up.
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
