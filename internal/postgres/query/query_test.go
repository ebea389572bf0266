package query

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type named struct{ First, SecondName string }

type embedding struct {
	named
	Named
	MadeAt *time.Time
	Left   string `db:"-"`
}

// Named is embedded, as types of other packages are.
type Named struct {
	ID    int
	Other []string `db:"all_of_them"`
	skip  int
}

// Columns are read into the fields that have their names, wherever they are, and null leaves nothing of the row before.
func TestRowsAreReadByName(t *testing.T) {
	t.Parallel()
	db := testkit.NewPool(t, testkit.NewDatabase(t).DSN)
	q := Single[string, embedding](`
		select 'second' as second_name, $1::text as first, '{a,b}'::text[] as all_of_them, now() as made_at, 1 as id
		 union all select '2', '1', null, null, 2`)
	found, err := q.All(t.Context(), db, "first")
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	one, two := found[0], found[1]
	if one.MadeAt == nil || one.Named.skip != 0 {
		t.Errorf("%+v", one)
	}
	one.MadeAt = nil
	if want := (embedding{named: named{"first", "second"}, Named: Named{ID: 1, Other: []string{"a", "b"}}}); !reflect.DeepEqual(one, want) {
		t.Errorf("%+v, want %+v", one, want)
	}
	if want := (embedding{named: named{"1", "2"}, Named: Named{ID: 2}}); !reflect.DeepEqual(two, want) {
		t.Errorf("%+v, want %+v", two, want)
	}
}

// A row that is its only column is read as a whole, also if it is a struct.
func TestOneColumnIsReadAsAWhole(t *testing.T) {
	t.Parallel()
	db := testkit.NewPool(t, testkit.NewDatabase(t).DSN)
	if n, err := Bare[int]("select 7").One(t.Context(), db, struct{}{}); err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
	at := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	if got, err := Single[time.Time, time.Time]("select $1::timestamptz").One(t.Context(), db, at); err != nil || !got.Equal(at) {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Bare[int]("select 7 where false").One(t.Context(), db, struct{}{}); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("without a row: %v", err)
	}
}

type added struct{ One, Two int }

// Parameters are the fields of a struct in their order; alone, in a batch, and where rows are counted.
func TestParametersAreFieldsInTheirOrder(t *testing.T) {
	t.Parallel()
	db := testkit.NewPool(t, testkit.NewDatabase(t).DSN)
	q := Fields[added, int]("select $1::int * 10 + $2::int")
	var read []int
	batch := &pgx.Batch{}
	q.Read(batch, added{3, 4}, func(n int) { read = append(read, n) })
	if err := db.SendBatch(t.Context(), batch).Close(); err != nil || !reflect.DeepEqual(read, []int{34}) {
		t.Errorf("in a batch: %d, %v", read, err)
	}
	if n, err := q.One(t.Context(), db, added{1, 2}); err != nil || n != 12 {
		t.Errorf("alone: %d, %v", n, err)
	}
	made := Bare[struct{}]("create table counted as select generate_series(1, 5) as n")
	if err := made.Run(t.Context(), db, struct{}{}); err != nil {
		t.Fatal(err)
	}
	if n, err := Fields[added, struct{}]("delete from counted where n in ($1, $2)").Exec(t.Context(), db, added{2, 9}); err != nil || n != 1 {
		t.Errorf("deleted %d, %v", n, err)
	}
}

// A statement that fails, or whose connection breaks, has no columns to describe. Every way to read rows returns its error.
func TestRowsOfAStatementThatFails(t *testing.T) {
	t.Parallel()
	db := testkit.NewPool(t, testkit.NewDatabase(t).DSN)
	failing := func(err error) bool {
		var sent *pgconn.PgError
		return errors.As(err, &sent) && sent.Code == "22012"
	}
	q := Bare[added]("select 1 / 0 as one, 2 as two")
	if _, err := q.All(t.Context(), db, struct{}{}); !failing(err) {
		t.Errorf("alone: %v", err)
	}
	batch := &pgx.Batch{}
	q.Read(batch, struct{}{}, func(added) { t.Error("a row was read") })
	Bare[added]("select 1 as one, 2 as two").Read(batch, struct{}{}, func(added) { t.Error("a row after it was read") })
	if err := db.SendBatch(t.Context(), batch).Close(); !failing(err) {
		t.Errorf("in a batch: %v", err)
	}
}

// Columns that a row has no place for, and fields that no column fills, are told before anything is read.
func TestRowsThatDoNotFit(t *testing.T) {
	t.Parallel()
	db := testkit.NewPool(t, testkit.NewDatabase(t).DSN)
	read := func(q interface {
		Targets(columns []pgconn.FieldDescription) ([]any, error)
	}, sql string,
	) error {
		rows, err := db.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		_, err = q.Targets(rows.FieldDescriptions())
		return err
	}
	for _, c := range []struct {
		sql, says string
	}{
		{"select 1 as one, 2 as two", ""},
		{"select 2 as two, 1 as one", ""},
		{"select 1 as one, 2 as tow", "has no field, or two columns, for tow"},
		{"select 1 as one, 2 as two, 3 as three", "has no field, or two columns, for three"},
		{"select 1 as one, 2 as two, 3 as two", "has no field, or two columns, for two"},
		{"select 1 as one", "no column is named as the field two"},
		{"select", "no column is named as the field"},
	} {
		err := read(Bare[added](""), c.sql)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.sql, err, c.says)
		}
	}
	if err := read(Bare[int](""), "select 1, 2"); err == nil || !strings.Contains(err.Error(), "one column, but there are 2") {
		t.Errorf("two columns for one: %v", err)
	}
	if _, err := Bare[added]("select 1 as one, 2 as tow").One(t.Context(), db, struct{}{}); err == nil || !strings.Contains(err.Error(), "for tow") {
		t.Errorf("a query that is run: %v", err)
	}
}

// A migration may change what a statement returns while the program runs.
func TestColumnsThatChangeAreLookedUpAgain(t *testing.T) {
	t.Parallel()
	db := testkit.NewPool(t, testkit.NewDatabase(t).DSN)
	q := Bare[added]("select * from moving")
	for _, sql := range []string{"create table moving as select 1 as one, 2 as two", "create table moving as select 2 as two, 1 as one"} {
		if _, err := db.Exec(t.Context(), "drop table if exists moving"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		db.Reset()
		if found, err := q.One(t.Context(), db, struct{}{}); err != nil || found != (added{1, 2}) {
			t.Errorf("%s: %+v, %v", sql, found, err)
		}
	}
}
