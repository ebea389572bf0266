package query

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.Truef(t, err == nil && len(found) == 2, "%+v, %v", found, err)
	one, two := found[0], found[1]
	assert.Truef(t, one.MadeAt != nil && one.Named.skip == 0, "%+v", one)
	one.MadeAt = nil
	want := (embedding{named: named{"first", "second"}, Named: Named{ID: 1, Other: []string{"a", "b"}}})
	assert.Truef(t, reflect.DeepEqual(one, want), "%+v, want %+v", one, want)
	want = (embedding{named: named{"1", "2"}, Named: Named{ID: 2}})
	assert.Truef(t, reflect.DeepEqual(two, want), "%+v, want %+v", two, want)
}

// A row that is its only column is read as a whole, also if it is a struct.
func TestOneColumnIsReadAsAWhole(t *testing.T) {
	t.Parallel()
	db := testkit.NewPool(t, testkit.NewDatabase(t).DSN)
	n, err := Bare[int]("select 7").One(t.Context(), db, struct{}{})
	assert.Truef(t, err == nil && n == 7, "%d, %v", n, err)
	at := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	got, err := Single[time.Time, time.Time]("select $1::timestamptz").One(t.Context(), db, at)
	assert.Truef(t, err == nil && got.Equal(at), "%s, %v", got, err)
	_, err = Bare[int]("select 7 where false").One(t.Context(), db, struct{}{})
	assert.ErrorIsf(t, err, pgx.ErrNoRows, "without a row: %v", err)
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
	err := db.SendBatch(t.Context(), batch).Close()
	assert.Truef(t, err == nil && reflect.DeepEqual(read, []int{34}), "in a batch: %d, %v", read, err)
	n, err := q.One(t.Context(), db, added{1, 2})
	assert.Truef(t, err == nil && n == 12, "alone: %d, %v", n, err)
	made := Bare[struct{}]("create table counted as select generate_series(1, 5) as n")
	require.NoError(t, made.Run(t.Context(), db, struct{}{}))
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
	_, err := q.All(t.Context(), db, struct{}{})
	assert.Truef(t, failing(err), "alone: %v", err)
	batch := &pgx.Batch{}
	q.Read(batch, struct{}{}, func(added) { t.Error("a row was read") })
	Bare[added]("select 1 as one, 2 as two").Read(batch, struct{}{}, func(added) { t.Error("a row after it was read") })
	err = db.SendBatch(t.Context(), batch).Close()
	assert.Truef(t, failing(err), "in a batch: %v", err)
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
		require.NoError(t, err)
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
		assert.Truef(t, (err == nil) == (c.says == "") && (err == nil || strings.Contains(err.Error(), c.says)),
			"%s: %v, want %q", c.sql, err, c.says)
	}
	err := read(Bare[int](""), "select 1, 2")
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "one column, but there are 2"),
		"two columns for one: %v", err)
	_, err = Bare[added]("select 1 as one, 2 as tow").One(t.Context(), db, struct{}{})
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "for tow"), "a query that is run: %v", err)
}

// A migration may change what a statement returns while the program runs.
func TestColumnsThatChangeAreLookedUpAgain(t *testing.T) {
	t.Parallel()
	db := testkit.NewPool(t, testkit.NewDatabase(t).DSN)
	q := Bare[added]("select * from moving")
	for _, sql := range []string{"create table moving as select 1 as one, 2 as two", "create table moving as select 2 as two, 1 as one"} {
		_, err := db.Exec(t.Context(), "drop table if exists moving")
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), sql)
		require.NoError(t, err)
		db.Reset()
		found, err := q.One(t.Context(), db, struct{}{})
		assert.Truef(t, err == nil && found == (added{1, 2}), "%s: %+v, %v", sql, found, err)
	}
}
