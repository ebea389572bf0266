package dbsqlc

import (
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type described interface {
	Check(columns []pgconn.FieldDescription) error
}

// What Postgres sends for every query is what its rows are read into, by the names of the columns.
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
		if err := query.Check(statement.Fields); err != nil {
			t.Errorf("%v:\n%s", err, sql)
		}
	}
	if len(all) < 250 {
		t.Errorf("%d queries were checked, which cannot be all", len(all))
	}
}
