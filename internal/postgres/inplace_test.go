package postgres

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A turn updates its chat and its brief in place, without writing to their indexes. A new index over a column
// that each turn changes would end that without notice.
func TestTurnsChangeRowsInPlace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := ask[uuid.UUID](b, "insert into chats (user_id, title) values ($1, 'a chat') returning id", b.user.UserID)
	type changes struct {
		Table        string
		All, InPlace int
	}
	var seen []changes
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"insert into messages (chat_id, user_id, role, content, status) select id, user_id, 'user', 'Hello', 'complete' from chats where id = $1",
			"insert into messages (chat_id, user_id, role, content, status) select id, user_id, 'assistant', '', 'streaming' from chats where id = $1",
			"update messages set content = 'Hello to you', status = 'complete', token_count = 3 where chat_id = $1 and status = 'streaming'",
		} {
			if _, err := tx.Exec(t.Context(), sql, chatID); err != nil {
				return err
			}
		}
		rows, err := tx.Query(t.Context(), `select relname::text, n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables
			where relname in ('chats', 'conversation_briefs') order by relname`)
		if err != nil {
			return err
		}
		seen, err = pgx.CollectRows(rows, pgx.RowToStructByPos[changes])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 {
		t.Fatalf("changed were %+v", seen)
	}
	for _, table := range seen {
		if table.All < 2 || table.InPlace != table.All {
			t.Errorf("%+v", table)
		}
	}
}
