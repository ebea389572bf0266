package postgres_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Ids come back as they went, whichever protocol the server speaks with Postgres.
func TestIDsGoThereAndBack(t *testing.T) {
	t.Parallel()
	pool, _, err := postgres.Open(t.Context(), testkit.NewDatabase(t).DSN, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	id, other := uuid.New(), uuid.New()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe} {
		var one, none uuid.UUID
		var maybe, nobody *uuid.UUID
		var nullable uuid.NullUUID
		var text string
		var all []uuid.UUID
		err := pool.QueryRow(t.Context(), "select $1::uuid, null::uuid, $2::uuid, null::uuid, $1::uuid, $1::uuid::text, $3::uuid[]", mode, id, &other, []uuid.UUID{id, other}).
			Scan(&one, &none, &maybe, &nobody, &nullable, &text, &all)
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		if one != id || none != uuid.Nil || *maybe != other || nobody != nil || nullable.UUID != id || text != id.String() || !slices.Equal(all, []uuid.UUID{id, other}) {
			t.Errorf("%s: %v %v %v %v %v %v %v", mode, one, none, maybe, nobody, nullable, text, all)
		}
	}
	var short uuid.UUID
	if err := pool.QueryRow(t.Context(), "select 'four'::bytea").Scan(&short); err == nil {
		t.Errorf("four bytes are %s", short)
	}
}

// An id costs no text on its way.
func BenchmarkIDs(b *testing.B) {
	pool, _, err := postgres.Open(b.Context(), testkit.NewDatabase(b).DSN, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	sent := make([]uuid.UUID, 100)
	var got []uuid.UUID
	b.ReportAllocs()
	for b.Loop() {
		if err := pool.QueryRow(b.Context(), "select $1::uuid[]", sent).Scan(&got); err != nil {
			b.Fatal(err)
		}
	}
}
