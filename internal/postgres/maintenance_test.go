package postgres

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
)

// The sweep and the view for people find exactly the chats that memory.Due calls due: the rule is written
// in Go and in SQL, and this holds them together.
func TestDueChatsAgreesWithTheRule(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec(`insert into chats (id, user_id) select gen_random_uuid(), $1 from generate_series(1, 300)`, b.user.UserID)
	random := rand.New(rand.NewPCG(4, 4))
	for range 20 {
		limits := memory.Limits{
			KRawTurns: 1 + random.IntN(5), MinTailTurns: 1 + random.IntN(5), SummaryTokenCap: 1 + random.IntN(500),
			PromptTokenBudget: 1 + random.IntN(3000), BridgeTokenBudget: random.IntN(3) * random.IntN(5000),
			ChunkThreshold: 1 + random.IntN(6000), FoldInputTokens: 8000,
		}
		b.exec(`update conversation_briefs set brief_tokens = floor(random() * $1), pending_tokens = floor(random() * 9000), pending_turns = floor(random() * 8),
			stale = random() < 0.1`, limits.SummaryTokenCap+1)
		folds, rebuilds, err := NewMaintenance(b.pool, limits).DueChats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.checkDue(limits, folds, rebuilds)
		rows, err := b.pool.Query(t.Context(), "select chat_id from inspect.due_folds($1, $2, $3, $4) where reason = 'the buffer is over the threshold'",
			limits.ChunkThreshold, limits.KRawTurns, limits.BridgeTokenBudget, limits.MinTailTurns)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			t.Fatal(err)
		}
		b.checkDue(limits, shown, rebuilds)
	}
}

func (b *bed) checkDue(limits memory.Limits, folds, rebuilds []uuid.UUID) {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), "select chat_id, brief_tokens, pending_tokens, pending_turns, stale from conversation_briefs")
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		var brief, tokens, turns int
		var stale bool
		if err := rows.Scan(&id, &brief, &tokens, &turns, &stale); err != nil {
			b.t.Fatal(err)
		}
		due := !stale && memory.Due(brief, tokens, turns, limits)
		if got := slices.Contains(folds, id); got != due || slices.Contains(rebuilds, id) != stale {
			b.t.Fatalf("%d + %d tokens, %d turns, stale %v with %+v: found for a fold %v, for a rebuild %v, due %v",
				brief, tokens, turns, stale, limits, got, slices.Contains(rebuilds, id), due)
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
	got, err := m.Backlog(t.Context())
	if err != nil || got.OldestUnfoldedTurn < 3600 || got.OldestUnfoldedTurn > 3700 || got.QueueDepth["memory"] != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
