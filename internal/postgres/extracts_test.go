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

// The first reply that was not read makes a chat due, the sixth at once, and no other costs anything.
func TestRepliesMakeAChatDueToBeRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	_, asked := b.reading()
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
}

// Without long-term memory a turn makes no row and no job.
func TestWithoutLongTermMemoryNothingIsDue(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := firstTurn("Turn 0.")
	b.exchange(first, "I see.")
	for n := 1; n < 7; n++ {
		b.exchange(turnIn(first.ChatID, fmt.Sprintf("Turn %d.", n)), "I see.")
	}
	is(t, ask[int](b, "select (select count(*) from conversation_briefs where extract_due_at is not null) + (select count(*) from memory_users)"), 0, "rows")
	extracts := NewExtracts(b.pool, Enqueue{})
	fine(t, extracts.Hurry(t.Context(), b.user, uuid.New()), "an error")
	wantFault(t, errOf(extracts.Extract(t.Context(), b.user, first.ChatID)), fault.MemoryOff, "refused")
}

func TestHurryReadsTheOtherChatsOfTheUser(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, asked := b.reading()
	one, two, stranger := firstTurn("One."), firstTurn("Two."), firstTurn("Theirs.")
	b.exchange(one, "I see.")
	b.exchange(two, "I see.")
	user := b.user
	b.user = b.newUser()
	b.exchange(stranger, "I see.")
	noError(t, NewExtracts(b.pool, enqueue).Hurry(t.Context(), user, two.ChatID))
	is(t, fmt.Sprint(asked[one.ChatID], asked[two.ChatID], asked[stranger.ChatID]), "[false true] [false] [false]", "asked at once")
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
	first := firstTurn("One.")
	b.exchange(first, "I see.")
	counted := b.countTrips()
	extracts := NewExtracts(b.turns.pool, enqueue)
	const callers = 200
	ended := make(chan error, callers)
	for range callers {
		go func() {
			_, err := extracts.Extract(t.Context(), b.user, first.ChatID)
			ended <- err
		}()
	}
	testkit.Eventually(t, "all wait", func() bool {
		extracts.progress.mu.Lock()
		defer extracts.progress.mu.Unlock()
		w := extracts.progress.waiting[readPlace{first.ChatID, 0}]
		return w != nil && w.callers == callers
	})
	counted.since()
	time.Sleep(10 * lookEvery)
	if looks := counted.queries.Load() + counted.batches.Load(); looks > 30 {
		t.Errorf("%d statements in a second", looks)
	}
	b.exec("update conversation_briefs set extracted_seq = 2 where chat_id = $1", first.ChatID)
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
	const soon = "extract_due_at between now() + interval '1 min' and now() + interval '3 min'"
	for name, c := range map[string]struct {
		before string
		end    func(turn chat.NewTurn) error
		want   string
	}{
		"the sweep": {end: func(chat.NewTurn) error { _, err := maintenance.InterruptAbandonedReplies(t.Context()); return err }, want: soon},
		"a server":  {end: func(chat.NewTurn) error { _, err := b.turns.InterruptAbandoned(t.Context()); return err }, want: soon},
		"the same message, resent": {end: func(turn chat.NewTurn) error {
			again := turnIn(turn.ChatID, turn.Content)
			again.ClientMessageID = turn.ClientMessageID
			started, err := b.turns.StartTurn(t.Context(), b.user, again)
			if err == nil && (started.Started || started.Earlier == nil) {
				t.Errorf("it is another message: %+v", started)
			}
			return err
		}, want: soon},
		"a clear": {end: func(turn chat.NewTurn) error { _, err := store.ClearChat(t.Context(), b.user, turn.ChatID); return err }, want: soon},
		"a sweep without memories": {end: func(chat.NewTurn) error {
			_, err := NewMaintenance(b.pool, b.limits).InterruptAbandonedReplies(t.Context())
			return err
		}, want: "extract_due_at is null"},
		"a chat that is not to be remembered": {
			before: "update chats set remember = false where id = $1",
			end:    func(chat.NewTurn) error { _, err := maintenance.InterruptAbandonedReplies(t.Context()); return err }, want: "extract_due_at is null",
		},
		"a chat that is due at once": {
			before: "update conversation_briefs set extract_due_at = '-infinity' where chat_id = $1",
			end:    func(chat.NewTurn) error { _, err := maintenance.InterruptAbandonedReplies(t.Context()); return err }, want: "extract_due_at = '-infinity'",
		},
		"a chat that was read": {
			before: "update conversation_briefs set extracted_seq = 2 where chat_id = $1",
			end:    func(chat.NewTurn) error { _, err := maintenance.InterruptAbandonedReplies(t.Context()); return err }, want: "extract_due_at is null",
		},
	} {
		turn := firstTurn("I am allergic to walnuts.")
		turn.ClientMessageID = uuid.New()
		b.start(turn)
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

// What is stored without a reply is read as well, whoever stored it: apps, and tools by MCP.
func TestStoredMessagesMakeAChatDue(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	enqueue, asked := b.reading()
	store := NewHistory(b.pool, b.limits, enqueue, nil)
	chatID := b.emptyChat()
	said := func(role, content string) {
		t.Helper()
		noError(t, errOf(store.StoreMessages(t.Context(), b.user, chatID, history.NewMessages{Messages: []history.NewMessage{{Role: role, Content: content}}})))
	}
	said("assistant", "Welcome.")
	is(t, len(asked), 0, "a greeting alone makes a chat due")
	for n := range 7 {
		said("user", fmt.Sprintf("I own %d violoncellos.", n))
	}
	is(t, fmt.Sprint(asked[chatID]), "[false true]", "asked at once")
}
