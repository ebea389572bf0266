package postgres

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// A statement that fails, or whose connection breaks, has no columns to describe. Every way to read rows returns its error.
func TestRowsOfAStatementThatFails(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	type row struct{ N int }
	for name, read := range map[string]func(pgx.Rows) error{
		"messages": messages(new([]memory.Message)), "one": one(new(row)), "all": all(new([]row)),
		"a generated query": func(rows pgx.Rows) error {
			_, err := dbsqlc.New(received{rows: rows}).FindRunningReply(t.Context(), uuid.New())
			return err
		},
	} {
		batch := &pgx.Batch{}
		batch.Queue("select 1 / 0").Query(read)
		if err := b.pool.SendBatch(t.Context(), batch).Close(); sqlState(err) != "22012" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
