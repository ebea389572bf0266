package dbsqlc

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type described interface {
	Targets(columns []pgconn.FieldDescription) ([]any, error)
}

// What Postgres sends for every query is what its rows are read into, by the names and types of the columns.
func TestRowsHaveTheColumnsOfTheirQueries(t *testing.T) {
	t.Parallel()
	conn := testkit.Connect(t, testkit.NewDatabase(t).AdminDSN)
	for _, query := range all {
		sql := reflect.ValueOf(query).Elem().FieldByName("SQL").String()
		statement, err := conn.Prepare(t.Context(), "", sql)
		if err != nil {
			t.Errorf("%v:\n%s", err, sql)
			continue
		}
		targets, err := query.Targets(statement.Fields)
		if err != nil {
			t.Errorf("%v:\n%s", err, sql)
			continue
		}
		for n, target := range targets {
			if _, nothing := target.(*struct{}); !nothing && !readable(conn.TypeMap(), statement.Fields[n], target) {
				t.Errorf("%s cannot be read into %T:\n%s", statement.Fields[n].Name, target, sql)
			}
		}
	}
	assert.Truef(t, len(all) >= 230, "%d queries were checked, which cannot be all", len(all))
}

// readable reports whether pgx knows how to read a column. If not, its plan is one that fails.
func readable(types *pgtype.Map, column pgconn.FieldDescription, target any) bool {
	plan := types.PlanScan(column.DataTypeOID, types.FormatCodeForOID(column.DataTypeOID), target)
	return fmt.Sprintf("%T", plan) != "*pgtype.scanPlanFail"
}

func TestReadable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		oid    uint32
		target any
		want   bool
	}{
		{pgtype.TextOID, new(string), true}, {pgtype.TextOID, new(int), false}, {pgtype.Int8OID, new(*int64), true}, {pgtype.Int8OID, new(bool), false},
	} {
		assert.Equalf(t, c.want, readable(pgtype.NewMap(), pgconn.FieldDescription{DataTypeOID: c.oid}, c.target),
			"%d into %T", c.oid, c.target)
	}
}
