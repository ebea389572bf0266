package postgres

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// A query without a row leaves the zero value, and the error of a query is returned by send.
func TestQueuedQueriesPassOnWhatComes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	read := func(chatID uuid.UUID) (one dbsqlc.ReadBriefRow, many uuid.UUID, err error) {
		err = send(t.Context(), b.pool, func(batch *pgx.Batch) {
			queueOne(batch, queries.ReadBrief, chatID, set(&one))
			queueMany(batch, queries.FindImported, dbsqlc.FindImportedParams{ID: chatID}, set(&many))
		})
		return one, many, err
	}
	if one, many, err := read(chatID); err != nil || one.PendingTurns != 1 || many != chatID {
		t.Errorf("a chat that is there: %+v, %s, %v", one, many, err)
	}
	if one, many, err := read(uuid.New()); err != nil || one != (dbsqlc.ReadBriefRow{}) || many != uuid.Nil {
		t.Errorf("a chat that is not there: %+v, %s, %v", one, many, err)
	}
	b.exec("alter table conversation_briefs rename to missing")
	if _, _, err := read(chatID); sqlState(err) != "42P01" {
		t.Errorf("a table that is not there: %v", err)
	}
}

// The cost of queuing the statement with the most parameters. Each turn queues about ten statements.
func BenchmarkQueue(b *testing.B) {
	b.ReportAllocs()
	params := dbsqlc.WriteBriefParams{GlobalSummary: "x", ChatID: uuid.New()}
	for b.Loop() {
		queue(&pgx.Batch{}, queries.WriteBrief, params)
	}
}
