package postgres

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
)

// The sweep, the search for expired chats and the inspect view find exactly the chats that memory.Due calls
// due: the rule exists in Go and in SQL, and this test keeps them equal.
func TestDueChatsAgreesWithTheRule(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec(`insert into chats (id, user_id, created_at) select gen_random_uuid(), $1, now() - interval '2 hours' from generate_series(1, 300)`, b.user.UserID)
	random := rand.New(rand.NewPCG(4, 4))
	for range 20 {
		limits := memory.Limits{
			KRawTurns: 1 + random.IntN(5), MinTailTurns: 1 + random.IntN(5), SummaryTokenCap: 1 + random.IntN(500),
			PromptTokenBudget: 1 + random.IntN(3000), BridgeTokenBudget: random.IntN(3) * random.IntN(5000),
			ChunkThreshold: 1 + random.IntN(6000), FoldInputTokens: 8000,
		}
		b.exec(`update conversation_briefs set brief_tokens = floor(random() * $1), pending_tokens = floor(random() * 9000), pending_turns = floor(random() * 8),
			stale = random() < 0.1`, limits.SummaryTokenCap+1)
		b.exec(`update chats set memory_strategy = (array['simple', 'summary', 'hybrid'])[1 + floor(random() * 3)],
			max_turns = case when random() < 0.4 then 1 + floor(random() * 8) end, ttl_hours = case when random() < 0.3 then 1 + floor(random() * 3) end`)
		m := NewMaintenance(b.pool, limits)
		folds, rebuilds, err := m.DueChats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expired, err := m.ExpiredChats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.checkDue(limits, false, folds, rebuilds)
		b.checkDue(limits, true, append(folds, expired...), rebuilds)
		rows, err := b.pool.Query(t.Context(), "select chat_id from inspect.due_folds($1, $2, $3, $4, $5) where reason <> 'a covered message was edited or deleted'",
			limits.ChunkThreshold, limits.KRawTurns, limits.BridgeTokenBudget, limits.MinTailTurns, limits.PromptTokenBudget)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			t.Fatal(err)
		}
		b.checkDue(limits, true, shown, rebuilds)
	}
}

// dueRow is what decides whether a chat is due.
type dueRow struct {
	ID                   uuid.UUID
	Brief, Tokens, Turns int
	Stale                bool
	Strategy             string
	MaxTurns             *int
	Expired              bool
}

// checkDue compares the chats found with the rule, which ignores expiry unless withExpiry is set.
func (b *bed) checkDue(limits memory.Limits, withExpiry bool, folds, rebuilds []uuid.UUID) {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `select c.id, b.brief_tokens, b.pending_tokens, b.pending_turns, b.stale, c.memory_strategy, c.max_turns,
		coalesce(c.expires_at <= now(), false) from conversation_briefs b join chats c on c.id = b.chat_id`)
	if err != nil {
		b.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dueRow])
	if err != nil {
		b.t.Fatal(err)
	}
	for _, row := range all {
		chat := settings(row.Strategy, row.MaxTurns)
		chat.Expired = row.Expired && withExpiry
		due := !row.Stale && memory.Due(row.Brief, row.Tokens, row.Turns, limits.For(chat))
		if got := slices.Contains(folds, row.ID); got != due || slices.Contains(rebuilds, row.ID) != row.Stale {
			b.t.Fatalf("%+v, %+v with %+v: found for a fold %v, for a rebuild %v, due %v", row, chat, limits, got, slices.Contains(rebuilds, row.ID), due)
		}
	}
}

func TestBacklogTellsHowLateTheMemoryIs(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	limits.ChunkThreshold, limits.KRawTurns = 5, 1
	b := newBedWith(t, limits, 4)
	m := NewMaintenance(b.pool, limits)
	if got, err := m.Backlog(t.Context()); err != nil || got.OldestUnfoldedTurn != 0 || got.QueueDepth["memory"] != 0 {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	chatID := b.newChat(3)
	b.exec("update messages set created_at = now() - interval '1 hour' where chat_id = $1 and seq = 1", chatID)
	b.exec(`insert into river.river_job (kind, queue, max_attempts, args, state) values ('fold_brief', 'memory', 1, '{}', 'available'), ('fold_brief', 'memory', 1, '{}', 'retryable')`)
	limited := b.newChat(2)
	b.exec("update chats set max_turns = 1 where id = $1", limited)
	b.exec("update messages set created_at = now() - interval '3 hours', token_count = 0 where chat_id = $1", limited)
	if got, err := m.Backlog(t.Context()); err != nil || got.OldestUnfoldedTurn < 10_800 {
		t.Errorf("over the turn limit: %+v, %v", got, err)
	}
	b.exec("update chats set memory_strategy = 'simple' where id = $1", limited)
	got, err := m.Backlog(t.Context())
	if err != nil || got.OldestUnfoldedTurn < 3600 || got.OldestUnfoldedTurn > 3700 || got.QueueDepth["memory"] != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
