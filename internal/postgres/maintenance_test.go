package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
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
		b.exec(`update conversation_briefs set brief_tokens = floor(random() * $1), pending_tokens = floor(random() * 9000), pending_turns = floor(random() * 8)`,
			limits.SummaryTokenCap+1)
		b.exec(`update chats set tool_name = case when random() < 0.5 then 'debug' end,
			memory_strategy = (array['simple', 'summary', 'hybrid'])[1 + floor(random() * 3)],
			max_turns = case when random() < 0.4 then 1 + floor(random() * 8) end, ttl_hours = case when random() < 0.3 then 1 + floor(random() * 3) end`)
		m := NewMaintenance(b.pool, limits)
		b.checkDue(limits, must(m.DueChats(t.Context()))(t))
		b.checkDue(limits, ask[[]uuid.UUID](b, "select array_agg(chat_id) from inspect.due_folds($1, $2, $3, $4, $5, $6)", limits.ChunkThreshold,
			limits.KRawTurns, limits.BridgeTokenBudget, limits.MinTailTurns, limits.PromptTokenBudget, limits.HistoryTokens))
	}
}

// dueRow is what decides whether a chat is due.
type dueRow struct {
	ID                   uuid.UUID
	Brief, Tokens, Turns int
	Strategy             string
	MaxTurns             *int
	Tool                 bool
}

// checkDue compares the chats found with the rule.
func (b *bed) checkDue(limits memory.Limits, folds []uuid.UUID) {
	b.t.Helper()
	all := rowsOf[dueRow](b, `select c.id, b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, c.tool_name is not null
		from conversation_briefs b join chats c on c.id = b.chat_id`)
	for _, row := range all {
		chat := settings(row.Strategy, row.MaxTurns, row.Tool)
		due := memory.Due(row.Brief, row.Tokens, row.Turns, limits.For(chat))
		mustBe(b.t, slices.Contains(folds, row.ID), due, "due for a fold: %+v with %+v", row, limits)
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
	due := b.newChat(1)
	b.exec("update conversation_briefs set pending_tokens = 9999, pending_turns = 9 where chat_id = $1", due)
	is(t, must(NewMaintenance(b.pool, memory.DefaultLimits()).DueChats(t.Context()))(t), []uuid.UUID{due}, "due")
	b.exec("update river.river_job set state = 'completed', finalized_at = now()")
	is(t, len(must(NewMaintenance(b.pool, memory.DefaultLimits()).DueChats(t.Context()))(t)), 1000, "due without jobs")
}

// How late the memory is counts from when a chat became due, not from when its turns were said: a chat that rested for a
// month, or was imported with messages of years ago, and is due since a moment ago is no reason for an alarm.
func TestBacklogCountsFromWhenAChatBecameDue(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	limits.ChunkThreshold, limits.KRawTurns = 5, 1
	b := newBedWith(t, limits, 4)
	m := NewMaintenance(b.pool, limits)
	// wantLate compares hours, of the metric and of what people see.
	wantLate := func(hours, shown int, what string) {
		t.Helper()
		late := must(m.Backlog(t.Context()))(t).OldestUnfoldedTurn
		seen := ask[float64](b, "select coalesce(max(extract(epoch from late_by)), 0)::float8 from inspect.due_folds(5, 1)")
		is(t, tuple(int(late/3600), int(seen/3600)), tuple(hours, shown), "%s: late by %v and %v", what, late, seen)
	}
	is(t, must(m.Backlog(t.Context()))(t).OldestUnfoldedTurn, 0, "of nothing")
	chatID := b.newChat(3)
	b.exec("insert into river.river_job (kind, queue, max_attempts, args) values ('fold_brief', 'memory', 1, jsonb_build_object('chat_id', $1::uuid))", chatID)
	b.exec("update messages set created_at = now() - interval '1 month', updated_at = now() - interval '1 month' where chat_id = $1", chatID)
	is(t, must(m.Backlog(t.Context()))(t).OldestUnfoldedTurn > 0, true, "it is late")
	wantLate(0, 0, "due since a moment ago")
	b.exec("update river.river_job set created_at = now() - interval '2 hours', state = 'scheduled'")
	wantLate(2, 2, "its job waits for two hours")
	// Without a job, because its folds fail, it has waited since the first that failed.
	b.exec("update river.river_job set state = 'cancelled', finalized_at = now()")
	is(t, must(m.Backlog(t.Context()))(t).OldestUnfoldedTurn, 0, "after its job")
	wantLate(0, 0, "after its job")
	b.exec(`insert into throughline.work (kind, key, user_id, failures, failure, failing_since, retry_at)
		values ('fold', $1, $2, 3, 'refused: none', now() - interval '3 hours', now() + interval '1 hour')`, chatID, b.user.UserID)
	wantLate(3, 3, "its folds have failed for three hours")
	is(t, ask[string](b, "select fold_failures || fold_failure || (retry_at > now())::text from inspect.due_folds(5, 1)"), "3refused: nonetrue", "the view says")
	b.exec("insert into river.river_job (kind, queue, max_attempts, args, state) values ('fold_brief', 'memory', 1, '{}', 'retryable')")
	got := must(m.Backlog(t.Context()))(t)
	is(t, tuple(got.QueueDepth["memory"], got.PutOffChats), tuple(1, 1), "%+v", got)
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
		change := b.claim(chatID)
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

// A chat over the threshold in which nothing is due leaves the sweep's index once it has rested for an hour. A message or
// setting after that brings it back.
func TestRestedChatsAreSettledUntilTheyChange(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	chatID := b.newChat(3)
	watched := func() bool { return b.count("conversation_briefs where thousands_to_fold is not null") == 1 }
	want := func(due int, watch bool, what string) {
		t.Helper()
		folds := must(NewMaintenance(b.pool, b.limits).DueChats(t.Context()))(t)
		is(t, tuple(len(folds), watched()), tuple(due, watch), "%s: … are due, watched", what)
	}
	b.exec("update conversation_briefs set pending_tokens = 6500 where chat_id = $1", chatID)
	want(0, true, "a moment after the last turn")
	b.exec("alter table conversation_briefs disable trigger conversation_briefs_keep")
	b.exec("update conversation_briefs set updated_at = now() - interval '2 hours'")
	b.exec("alter table conversation_briefs enable always trigger conversation_briefs_keep")
	want(0, false, "after two hours")
	b.exec("update chats set max_turns = 1 where id = $1", chatID)
	want(1, true, "with fewer turns allowed")
	b.exec("update chats set max_turns = null where id = $1", chatID)
	b.exec("update conversation_briefs set settled_tokens = pending_tokens, settled_turns = pending_turns")
	b.start(turnIn(chatID, "One more."))
	is(t, watched(), true, "watched after another turn")
}

// reading gives the bed's turns long-term memory. It returns the jobs asked for: whether one is to run at once.
func (b *bed) reading() (enqueue Enqueue, asked map[uuid.UUID][]bool) {
	asked = map[uuid.UUID][]bool{}
	enqueue = b.turns.enqueue
	enqueue.ExtractDelay = 2 * time.Minute
	enqueue.Extract = func(_ context.Context, _ pgx.Tx, chatID uuid.UUID, at time.Time) error {
		wait := time.Until(at)
		assert.Truef(b.t, at.IsZero() || (wait >= time.Minute && wait <= 3*time.Minute), "the job is to run in %v", wait)
		asked[chatID] = append(asked[chatID], at.IsZero())
		return nil
	}
	b.turns = NewTurns(b.server, b.limits, enqueue)
	return enqueue, asked
}

// The first reply that was not read makes a chat due, the sixth at once, and no other costs anything. A message stored without a
// reply is read as well, whoever stored it: apps, and tools by MCP.
func TestRepliesMakeAChatDueToBeRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, asked := b.reading()
	first := firstTurn("Turn 0.")
	b.exchange(first, "I see.")
	for n := 1; n < 8; n++ {
		b.exchange(turnIn(first.ChatID, fmt.Sprintf("Turn %d.", n)), "I see.")
	}
	is(t, fmt.Sprint(asked[first.ChatID]), "[false true]", "asked at once")
	// A turn that was read makes nothing due, and neither does a chat that is not to be remembered.
	b.exec("update conversation_briefs set extracted_seq = 16, extract_due_at = null where chat_id = $1", first.ChatID)
	b.exchange(turnIn(first.ChatID, "Turn 9."), "I see.")
	forgotten := firstTurn("Turn 0.")
	b.start(forgotten)
	b.exec("update chats set remember = false where id = $1", forgotten.ChatID)
	b.reply(forgotten, "I see.")
	is(t, fmt.Sprint(asked[first.ChatID], asked[forgotten.ChatID]), "[false true false] []", "asked at once")
	store, stored := NewHistory(b.server, b.limits, enqueue), b.emptyChat()
	say := func(role, content string) {
		noError(t, errOf(store.StoreMessages(t.Context(), b.user, stored, api.NewMessages{Messages: []api.NewMessage{{Role: role, Content: content}}})))
	}
	say("assistant", "Welcome.")
	is(t, len(asked[stored]), 0, "a greeting alone makes a chat due")
	for n := range 7 {
		say("user", fmt.Sprintf("I own %d violoncellos.", n))
	}
	is(t, fmt.Sprint(asked[stored]), "[false true]", "asked at once")
}

// The other chats of a user are read at once. Without long-term memory a turn makes no row and no job.
func TestEnqueueSoonReadsTheOtherChatsOfTheUser(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chat, off := b.newChat(7), NewExtracts(b.server, Enqueue{})
	is(t, ask[int](b, "select (select count(*) from conversation_briefs where extract_due_at is not null) + (select count(*) from memory_users)"), 0, "rows")
	fine(t, off.EnqueueSoon(t.Context(), b.user, uuid.New()), "an error")
	wantFault(t, errOf(off.Extract(t.Context(), b.user, chat)), fault.MemoryOff, "refused")
	enqueue, asked := b.reading()
	one, two := b.newChat(1), b.newChat(1)
	user := b.user
	b.user = b.newUser()
	stranger := b.newChat(1)
	noError(t, NewExtracts(b.server, enqueue).EnqueueSoon(t.Context(), user, two))
	is(t, fmt.Sprint(asked[one], asked[two], asked[stranger]), "[false true] [false] [false]", "asked at once")
}

// A request waits until all whole turns are read, and answers with the last row of the ledger.
func TestRequestedExtraction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, asked := b.reading()
	extracts := NewExtracts(b.server, enqueue)
	first := b.newChat(1)
	b.start(turnIn(first, "This one runs."))
	go func() {
		testkit.Eventually(t, "it was asked for", func() bool {
			return ask[bool](b, "select extract_due_at = '-infinity' from conversation_briefs where chat_id = $1", first)
		})
		b.exec(`with read as (update conversation_briefs set extracted_seq = 2 where chat_id = $1 returning chat_id, user_id)
			insert into memory_extractions (chat_id, user_id, seq_from, seq_to, turns, result, dropped) select chat_id, user_id, 1, 2, 1, 'empty',
			  '{"moment": 2}' from read`, first)
	}()
	row := must(extracts.Extract(t.Context(), b.user, first))(t)
	is(t, tuple(row.SeqFrom, row.SeqTo, row.Result, string(row.Dropped), row.ID == uuid.Nil), tuple(1, 2, "empty", `{"moment": 2}`, false), "%+v", row)
	again := must(extracts.Extract(t.Context(), b.user, first))(t)
	is(t, tuple(again.ID, len(asked[first])), tuple(row.ID, 2), "once more: %+v, …, asked", again)
	running := firstTurn("This one runs.")
	b.start(running)
	row = must(extracts.Extract(t.Context(), b.user, running.ChatID))(t)
	is(t, tuple(row.SeqFrom, row.SeqTo, row.Result, string(row.Dropped), row.ID == uuid.Nil), tuple(1, 0, "empty", "{}", true), "nothing was said: %+v", row)
	wantFault(t, errOf(extracts.Extract(t.Context(), b.newUser(), first)), fault.ChatNotFound, "another user's")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	is(t, errOf(extracts.Extract(ctx, b.user, b.newChat(1))) == nil, false, "an extraction without a worker has ended")
}

// Hundreds of callers who wait for a chat cost no more statements than one, and all are told. A caller whose calls are denied is told
// until when, and nothing is asked for.
func TestManyWaitForAnExtraction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, asked := b.reading()
	first, second := b.newChat(1), b.newChat(1)
	clear(asked)
	counted := b.countTrips()
	extracts := NewExtracts(b.turns.pool, enqueue)
	const callers = 200
	ended := make(chan error, callers)
	for range callers {
		go func() { ended <- errOf(extracts.Extract(t.Context(), b.user, first)) }()
	}
	testkit.Eventually(t, "they wait", func() bool {
		extracts.mu.Lock()
		defer extracts.mu.Unlock()
		return extracts.waiting[first] != nil
	})
	counted.since()
	time.Sleep(2 * lookEvery)
	looks := counted.queries.Load() + counted.batches.Load()
	assert.Truef(t, looks <= 9, "%d round trips in two seconds", looks) // and those of the request
	b.exec("update conversation_briefs set extracted_seq = 2 where chat_id = $1", first)
	extracts.ChatsRead(first)
	for range callers {
		noError(t, testkit.Receive(t, "a caller is told", ended))
	}
	b.exec("insert into usage_events (user_id, purpose, input_tokens) values ($1, 'extract', 500000)", b.user.UserID)
	is(t, faultOf(t, errOf(extracts.Extract(t.Context(), b.user, second)), fault.QuotaExceeded)["resets_at"] != nil, true, "until when")
	is(t, len(asked[second]), 0, "jobs of a denied request")
}

// A reply whose server died is not saved. Whoever ends it makes its chat due, unless it is due or not to be remembered.
func TestAbandonedRepliesMakeTheirChatDue(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, asked := b.reading()
	maintenance, store := NewMaintenance(b.pool, b.limits), NewHistory(b.server, b.limits, enqueue)
	maintenance.ExtractAfter(enqueue.ExtractDelay)
	const soon, never = "extract_due_at between now() + interval '1 min' and now() + interval '3 min'", "extract_due_at is null"
	sweep := func(chat.NewTurn) error { return errOf(maintenance.InterruptAbandonedReplies(t.Context())) }
	for name, c := range map[string]struct {
		before string
		end    func(turn chat.NewTurn) error
		want   string
	}{
		"the sweep": {"", sweep, soon},
		"a server":  {"", func(chat.NewTurn) error { return errOf(b.turns.InterruptAbandoned(t.Context())) }, soon},
		"the same message, resent": {"", func(turn chat.NewTurn) error {
			again := turnIn(turn.ChatID, turn.Content)
			again.ClientMessageID = turn.ClientMessageID
			started, err := b.turns.StartTurn(t.Context(), b.user, again)
			is(t, tuple(started.Started, started.Earlier != nil), tuple(false, true), "it is another message: %+v", started)
			return err
		}, soon},
		"a clear": {"", func(turn chat.NewTurn) error { return errOf(store.ClearChat(t.Context(), b.user, turn.ChatID)) }, soon},
		"a sweep without memories": {"", func(chat.NewTurn) error {
			return errOf(NewMaintenance(b.pool, b.limits).InterruptAbandonedReplies(t.Context()))
		}, never},
		"a chat that is not to be remembered": {"update chats set remember = false where id = $1", sweep, never},
		"a chat that is due at once": {"update conversation_briefs set extract_due_at = '-infinity' where chat_id = $1", sweep,
			"extract_due_at = '-infinity'"},
		"a chat that was read": {"update conversation_briefs set extracted_seq = 2 where chat_id = $1", sweep, never},
	} {
		turn := b.startWithID("I am allergic to walnuts.")
		if c.before != "" {
			b.exec(c.before, turn.ChatID)
		}
		b.exec("update messages set lease_until = clock_timestamp() where id = $1", turn.MessageID)
		fine(t, c.end(turn), "%s", name)
		got := ask[string](b, "select m.status || ', ' || coalesce("+c.want+`, false) || ', due ' || coalesce(b.extract_due_at::text, 'never')
			from messages m join conversation_briefs b using (chat_id) where m.id = $1`, turn.MessageID)
		assert.Truef(t, strings.HasPrefix(got, "interrupted, true"), "%s: the reply is %s", name, got)
	}
	is(t, len(asked), 0, "jobs were inserted: %v", asked)
}
