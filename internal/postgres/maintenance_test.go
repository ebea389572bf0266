package postgres

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// The sweep and the inspect view find exactly the chats that memory.Due calls
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
			ChunkThreshold: 1 + random.IntN(6000), FoldInputTokens: 8000, HistoryTokens: random.IntN(2) * random.IntN(12_000),
		}
		b.exec(`update conversation_briefs set brief_tokens = floor(random() * $1), pending_tokens = floor(random() * 9000), pending_turns = floor(random() * 8),
			stale = random() < 0.1`, limits.SummaryTokenCap+1)
		b.exec(`update chats set tool_name = case when random() < 0.5 then 'debug' end,
			memory_strategy = (array['simple', 'summary', 'hybrid'])[1 + floor(random() * 3)],
			max_turns = case when random() < 0.4 then 1 + floor(random() * 8) end, ttl_hours = case when random() < 0.3 then 1 + floor(random() * 3) end`)
		m := NewMaintenance(b.pool, limits)
		folds, rebuilds, err := m.DueChats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.checkDue(limits, folds, rebuilds)
		b.checkDue(limits, ask[[]uuid.UUID](b, `select array_agg(chat_id) from inspect.due_folds($1, $2, $3, $4, $5, $6)
			where reason <> 'a covered message was edited or deleted'`, limits.ChunkThreshold, limits.KRawTurns,
			limits.BridgeTokenBudget, limits.MinTailTurns, limits.PromptTokenBudget, limits.HistoryTokens), rebuilds)
	}
}

// dueRow is what decides whether a chat is due.
type dueRow struct {
	ID                   uuid.UUID
	Brief, Tokens, Turns int
	Stale                bool
	Strategy             string
	MaxTurns             *int
	Tool                 bool
}

// checkDue compares the chats found with the rule.
func (b *bed) checkDue(limits memory.Limits, folds, rebuilds []uuid.UUID) {
	b.t.Helper()
	all := rowsOf[dueRow](b, `select c.id, b.brief_tokens, b.pending_tokens, b.pending_turns, b.stale, c.memory_strategy, c.max_turns, c.tool_name is not null
		from conversation_briefs b join chats c on c.id = b.chat_id`)
	for _, row := range all {
		chat := settings(row.Strategy, row.MaxTurns, row.Tool)
		due := !row.Stale && memory.Due(row.Brief, row.Tokens, row.Turns, limits.For(chat))
		got := slices.Contains(folds, row.ID)
		mustBe(b.t, tuple(got, slices.Contains(rebuilds, row.ID)), tuple(due, row.Stale), "for a fold and a rebuild: %+v with %+v", row, limits)
	}
}

// Chats that wait in the queue, such as those of a large import, do not hide the others from the sweep.
func TestWaitingChatsDoNotHideOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec("insert into chats (user_id) select $1 from generate_series(1, 1100)", b.user.UserID)
	b.exec("update conversation_briefs set pending_tokens = 99999, pending_turns = 9")
	b.exec(`insert into river.river_job (kind, queue, max_attempts, args, state)
		select 'fold_brief', 'memory', 10, jsonb_build_object('chat_id', id), (array['available', 'scheduled', 'retryable',
		  'running']::river.river_job_state[])[1 + row_number() over () % 4] from chats`)
	due, stale, both := b.newChat(1), b.newChat(1), b.newChat(1)
	b.exec("update conversation_briefs set pending_tokens = 9999, pending_turns = 9 where chat_id = any($1)", []uuid.UUID{due, both})
	b.exec("update conversation_briefs set stale = true where chat_id = any($1)", []uuid.UUID{stale, both})
	b.exec("insert into river.river_job (kind, queue, max_attempts, args) select 'fold_brief', 'memory', 10, jsonb_build_object('chat_id', $1::uuid)", both)
	folds, rebuilds, err := NewMaintenance(b.pool, memory.DefaultLimits()).DueChats(t.Context())
	if err != nil || len(folds) != 1 || folds[0] != due || len(rebuilds) != 2 || !slices.Contains(rebuilds, stale) || !slices.Contains(rebuilds, both) {
		t.Errorf("%d folds, %v, %v", len(folds), rebuilds, err)
	}
	b.exec("update river.river_job set state = 'completed', finalized_at = now()")
	if folds, _, err = NewMaintenance(b.pool, memory.DefaultLimits()).DueChats(t.Context()); err != nil || len(folds) != 1000 {
		t.Errorf("%d folds, %v", len(folds), err)
	}
}

// How late the memory is counts from when a chat became due, not from when its turns were said: a chat that rested for a
// month, or was imported with messages of years ago, and is due since a moment ago is no reason for an alarm.
func TestBacklogCountsFromWhenAChatBecameDue(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	limits.ChunkThreshold, limits.KRawTurns = 5, 1
	b := newBedWith(t, limits, 4)
	m := NewMaintenance(b.pool, limits)
	late := func() (float64, int) {
		t.Helper()
		got := must(m.Backlog(t.Context()))(t)
		return got.OldestUnfoldedTurn, got.PutOffChats
	}
	if seconds, putOff := late(); seconds != 0 || putOff != 0 {
		t.Errorf("of nothing: %v, %d", seconds, putOff)
	}
	chatID := b.newChat(3)
	b.exec("insert into river.river_job (kind, queue, max_attempts, args) values ('fold_brief', 'memory', 1, jsonb_build_object('chat_id', $1::uuid))", chatID)
	b.exec("update messages set created_at = now() - interval '1 month', updated_at = now() - interval '1 month' where chat_id = $1", chatID)
	shown := func() float64 {
		return ask[float64](b, "select extract(epoch from late_by)::float8 from inspect.due_folds(5, 1)")
	}
	if seconds, _ := late(); seconds <= 0 || seconds > 600 || shown() > 600 {
		t.Errorf("due since a moment ago, but late by %v and %v", seconds, shown())
	}
	b.exec("update river.river_job set created_at = now() - interval '2 hours', state = 'scheduled'")
	if seconds, _ := late(); seconds < 7200 || seconds > 7800 || shown() < 7200 || shown() > 7800 {
		t.Errorf("its job waits for two hours: %v and %v", seconds, shown())
	}
	// Without a job, because its folds fail, it has waited since the first that failed.
	b.exec("update river.river_job set state = 'cancelled', finalized_at = now()")
	if seconds, _ := late(); seconds != 0 || shown() > 600 {
		t.Errorf("after its job: %v and %v", seconds, shown())
	}
	b.exec(`insert into throughline.work (kind, key, user_id, failures, failure, failing_since, retry_at)
		values ('fold', $1, $2, 3, 'refused: none', now() - interval '3 hours', now() + interval '1 hour')`, chatID, b.user.UserID)
	if seconds, putOff := late(); seconds < 10_800 || seconds > 11_400 || putOff != 1 || shown() < 10_800 {
		t.Errorf("its folds have failed for three hours: %v and %v, %d", seconds, shown(), putOff)
	}
	is(t, ask[string](b, "select fold_failures || fold_failure || (retry_at > now())::text from inspect.due_folds(5, 1)"), "3refused: nonetrue", "the view says")
	b.exec("insert into river.river_job (kind, queue, max_attempts, args, state) values ('fold_brief', 'memory', 1, '{}', 'retryable')")
	if got, err := m.Backlog(t.Context()); err != nil || got.QueueDepth["memory"] != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A fold that found nothing to do is not asked for again until the buffer changes, also not if that happened while it looked.
func TestAFoldIsSettledOnlyForTheBufferThatItSaw(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(2)
	settled := func() bool {
		return ask[bool](b, "select (settled_tokens, settled_turns) is not distinct from (pending_tokens, pending_turns) from conversation_briefs")
	}
	settle := func(meanwhile func()) {
		t.Helper()
		change := b.claim(chatID, brief.KindFold)
		meanwhile()
		noError(t, b.briefs.Settle(t.Context(), chatID, change.Planned.Counters))
		noError(t, b.work.Release(t.Context(), change.Lease, false))
	}
	turn := turnIn(chatID, "One more.")
	b.start(turn)
	settle(func() { b.reply(turn, "Of course.") })
	is(t, settled(), false, "settled although the reply ended meanwhile")
	settle(func() {})
	is(t, settled(), true, "settled")
	b.exec("update conversation_briefs set pending_tokens = pending_tokens + 1000")
	settle(func() {})
	is(t, settled(), true, "settled where the counters were wrong")
	b.checkCounters()
}

// A chat over the threshold in which nothing is due leaves the sweep's index once it has rested for an hour. What is said or
// set later brings it back.
func TestRestedChatsAreSettledUntilTheyChange(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	maintenance := NewMaintenance(b.pool, b.limits)
	due := func() []uuid.UUID {
		folds, rebuilds, err := maintenance.DueChats(t.Context())
		if err != nil || len(rebuilds) != 0 {
			t.Fatal(rebuilds, err)
		}
		return folds
	}
	chatID := b.newChat(3)
	watched := func() bool {
		return ask[bool](b, "select thousands_to_fold is not null from conversation_briefs where chat_id = '"+chatID.String()+"'")
	}
	b.exec("update conversation_briefs set pending_tokens = 6500 where chat_id = $1", chatID)
	if folds := due(); len(folds) != 0 || !watched() {
		t.Errorf("a moment after the last turn %d are due, watched: %v", len(folds), watched())
	}
	b.exec("alter table conversation_briefs disable trigger conversation_briefs_keep")
	b.exec("update conversation_briefs set updated_at = now() - interval '2 hours'")
	b.exec("alter table conversation_briefs enable always trigger conversation_briefs_keep")
	if folds := due(); len(folds) != 0 || watched() {
		t.Errorf("after two hours %d are due, watched: %v", len(folds), watched())
	}
	b.exec("update chats set max_turns = 1 where id = $1", chatID)
	is(t, len(due()), 1, "with fewer turns allowed … are due")
	b.exec("update chats set max_turns = null where id = $1", chatID)
	b.exec("update conversation_briefs set settled_tokens = pending_tokens, settled_turns = pending_turns")
	b.start(turnIn(chatID, "One more."))
	if !watched() {
		t.Error("not watched after another turn")
	}
}
