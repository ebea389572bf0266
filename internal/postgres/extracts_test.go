package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// reading gives the bed's turns long-term memory. It returns what is asked for: whether a job is to run at once.
func (b *bed) reading() (enqueue Enqueue, asked map[uuid.UUID][]bool) {
	b.t.Helper()
	asked = map[uuid.UUID][]bool{}
	enqueue = b.turns.enqueue
	enqueue.ExtractDelay = 2 * time.Minute
	enqueue.Extract = func(_ context.Context, _ pgx.Tx, chatID uuid.UUID, at time.Time) error {
		if wait := time.Until(at); !at.IsZero() && (wait < time.Minute || wait > 3*time.Minute) {
			b.t.Errorf("the job is to run in %v", wait)
		}
		asked[chatID] = append(asked[chatID], at.IsZero())
		return nil
	}
	b.turns = NewTurns(b.pool, b.limits, enqueue)
	return enqueue, asked
}

// The first reply that was not read makes a chat due, the sixth at once, and no other costs anything. What is stored without a
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
	// What was read makes nothing due, and neither does a chat that is not to be remembered.
	b.exec("update conversation_briefs set extracted_seq = 16, extract_due_at = null where chat_id = $1", first.ChatID)
	b.exchange(turnIn(first.ChatID, "Turn 9."), "I see.")
	forgotten := firstTurn("Turn 0.")
	b.start(forgotten)
	b.exec("update chats set remember = false where id = $1", forgotten.ChatID)
	b.reply(forgotten, "I see.")
	is(t, fmt.Sprint(asked[first.ChatID], asked[forgotten.ChatID]), "[false true false] []", "asked at once")
	store, stored := NewHistory(b.pool, b.limits, enqueue, nil), b.emptyChat()
	say := func(role, content string) {
		t.Helper()
		noError(t, errOf(store.StoreMessages(t.Context(), b.user, stored, history.NewMessages{Messages: []history.NewMessage{{Role: role, Content: content}}})))
	}
	say("assistant", "Welcome.")
	is(t, len(asked[stored]), 0, "a greeting alone makes a chat due")
	for n := range 7 {
		say("user", fmt.Sprintf("I own %d violoncellos.", n))
	}
	is(t, fmt.Sprint(asked[stored]), "[false true]", "asked at once")
}

// The other chats of a user are read at once. Without long-term memory a turn makes no row and no job.
func TestHurryReadsTheOtherChatsOfTheUser(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chat, off := b.newChat(7), NewExtracts(b.pool, Enqueue{})
	is(t, ask[int](b, "select (select count(*) from conversation_briefs where extract_due_at is not null) + (select count(*) from memory_users)"), 0, "rows")
	fine(t, off.Hurry(t.Context(), b.user, uuid.New()), "an error")
	wantFault(t, errOf(off.Extract(t.Context(), b.user, chat)), fault.MemoryOff, "refused")
	enqueue, asked := b.reading()
	one, two := b.newChat(1), b.newChat(1)
	user := b.user
	b.user = b.newUser()
	stranger := b.newChat(1)
	noError(t, NewExtracts(b.pool, enqueue).Hurry(t.Context(), user, two))
	is(t, fmt.Sprint(asked[one], asked[two], asked[stranger]), "[false true] [false] [false]", "asked at once")
}

// A request waits until all whole turns are read, and answers with the last row of the ledger.
func TestRequestedExtraction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, asked := b.reading()
	extracts := NewExtracts(b.pool, enqueue)
	first := firstTurn("One.")
	b.exchange(first, "I see.")
	b.start(turnIn(first.ChatID, "This one runs."))
	go func() {
		testkit.Eventually(t, "it was asked for", func() bool {
			return ask[bool](b, "select extract_due_at = '-infinity' from conversation_briefs where chat_id = $1", first.ChatID)
		})
		b.exec(`with read as (update conversation_briefs set extracted_seq = 2 where chat_id = $1 returning chat_id, user_id)
			insert into memory_extractions (chat_id, user_id, seq_from, seq_to, turns, result, dropped) select chat_id, user_id, 1, 2, 1, 'empty',
			  '{"moment": 2}' from read`, first.ChatID)
	}()
	row, err := extracts.Extract(t.Context(), b.user, first.ChatID)
	if err != nil || row.SeqFrom != 1 || row.SeqTo != 2 || row.Result != "empty" || string(row.Dropped) != `{"moment": 2}` || row.ID == uuid.Nil {
		t.Errorf("%+v, %v", row, err)
	}
	again := must(extracts.Extract(t.Context(), b.user, first.ChatID))(t)
	is(t, tuple(again.ID, len(asked[first.ChatID])), tuple(row.ID, 2), "once more: %+v, …, asked", again)
	running := firstTurn("This one runs.")
	b.start(running)
	if row, err := extracts.Extract(t.Context(), b.user, running.ChatID); err != nil || row.ID != uuid.Nil || row.SeqFrom != 1 || row.SeqTo != 0 ||
		row.Result != "empty" || string(row.Dropped) != "{}" {
		t.Errorf("nothing was said: %+v, %v", row, err)
	}
	wantFault(t, errOf(extracts.Extract(t.Context(), b.newUser(), first.ChatID)), fault.ChatNotFound, "another user's")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	unread := firstTurn("Two.")
	b.exchange(unread, "I see.")
	if _, err := extracts.Extract(ctx, b.user, unread.ChatID); err == nil {
		t.Error("an extraction that nobody makes has ended")
	}
}

// Hundreds of callers who wait cost no more statements than one, and all are told.
func TestManyWaitForAnExtraction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, _ := b.reading()
	first := b.newChat(1)
	counted := b.countTrips()
	extracts := NewExtracts(b.turns.pool, enqueue)
	const callers = 200
	ended := make(chan error, callers)
	for range callers {
		go func() { ended <- errOf(extracts.Extract(t.Context(), b.user, first)) }()
	}
	testkit.Eventually(t, "all wait", func() bool {
		extracts.progress.mu.Lock()
		defer extracts.progress.mu.Unlock()
		w := extracts.progress.waiting[readPlace{first, 0}]
		return w != nil && w.callers == callers
	})
	counted.since()
	time.Sleep(10 * lookEvery)
	if looks := counted.queries.Load() + counted.batches.Load(); looks > 30 {
		t.Errorf("%d statements in a second", looks)
	}
	b.exec("update conversation_briefs set extracted_seq = 2 where chat_id = $1", first)
	for range callers {
		noError(t, testkit.Receive(t, "a caller is told", ended))
	}
}

// Nobody saves a reply whose server died. Whoever ends it makes its chat due, unless it is due or not to be remembered.
func TestAbandonedRepliesMakeTheirChatDue(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, asked := b.reading()
	maintenance, store := NewMaintenance(b.pool, b.limits), NewHistory(b.pool, b.limits, enqueue, nil)
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
		if !strings.HasPrefix(got, "interrupted, true") {
			t.Errorf("%s: the reply is %s", name, got)
		}
	}
	is(t, len(asked), 0, "jobs were inserted: %v", asked)
}
