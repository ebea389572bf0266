package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// audience records its calls.
type audience struct {
	replies   chan uuid.UUID // uuid.Nil for all of them
	cancels   chan struct{}
	listening chan bool
}

func (a *audience) RepliesChanged(ids ...uuid.UUID) {
	if len(ids) == 0 {
		ids = []uuid.UUID{uuid.Nil}
	}
	for _, id := range ids {
		a.replies <- id
	}
}
func (a *audience) CancelsRequested()  { a.cancels <- struct{}{} }
func (a *audience) Listening(now bool) { a.listening <- now }

// receives waits for a call.
func receives[T comparable](t *testing.T, calls <-chan T, want T) {
	t.Helper()
	is(t, testkit.Receive(t, fmt.Sprintf("receive %v", want), calls), want, "received")
}

// listen starts a listener that ends with the test, and waits until it is connected.
func (b *bed) listen() *audience {
	b.t.Helper()
	calls := &audience{replies: make(chan uuid.UUID, 10_000), cancels: make(chan struct{}, 100), listening: make(chan bool, 100)}
	listener, err := NewListener(b.db.Direct(), calls, slog.New(slog.DiscardHandler))
	if err != nil || listener == nil {
		b.t.Fatalf("%v, %v", listener, err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	var done sync.WaitGroup
	done.Go(func() { listener.Run(ctx) })
	b.t.Cleanup(func() { cancel(); done.Wait() })
	b.receivesAll(calls)
	return calls
}

// receivesAll waits for the calls that follow a new connection.
func (b *bed) receivesAll(calls *audience) {
	b.t.Helper()
	receives(b.t, calls.listening, true)
	receives(b.t, calls.replies, uuid.Nil)
	receives(b.t, calls.cancels, struct{}{})
}

// What is changed is passed on. A refused request of another user is not announced.
func TestListenerPassesOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	calls := b.listen()
	turn := firstTurn("One.")
	b.start(turn)
	noError(t, b.turns.RequestCancel(t.Context(), b.newUser(), turn.MessageID))
	b.record([]chat.Delta{b.said(turn, 0, "Hello.")}) // comes after, and alone
	receives(t, calls.replies, turn.MessageID)
	is(t, tuple(len(calls.cancels), len(calls.replies)), tuple(0, 0), "a stranger's request was announced")
	noError(t, b.turns.RequestCancel(t.Context(), b.user, turn.MessageID))
	receives(t, calls.cancels, struct{}{})
	b.exec("select pg_notify($1, 'not an id, nor this')", channelReplies) // means nothing
	b.exec("update messages set lease_until = clock_timestamp() where id = $1", turn.MessageID)
	noError(t, errOf(b.turns.InterruptAbandoned(t.Context())))
	receives(t, calls.replies, turn.MessageID)
}

// A lost connection is replaced, and then the audience is told that everything may have changed. Behind a transaction pooler
// nothing listens.
func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	calls := b.listen()
	b.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'throughline listener'")
	receives(t, calls.listening, false)
	b.receivesAll(calls)
	if listener, err := NewListener(testkit.NewTransactionPooler(t, b.db), &audience{}, slog.New(slog.DiscardHandler)); listener != nil || err != nil {
		t.Errorf("%v, %v", listener, err)
	}
	if _, err := NewListener("postgres://%zz", &audience{}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a malformed connection string was taken")
	}
}

// Every database user may notify. A payload names replies or is ignored: it never means all replies.
func FuzzNotification(f *testing.F) {
	id := uuid.NewString()
	for _, payload := range []string{"", id, id + "," + id, id + ",", "x," + id, ",,,,", "{" + id + "}", strings.Repeat(id+",", 200), "\x00", "\xff"} {
		f.Add(channelReplies, payload)
		f.Add(channelCancels, payload)
	}
	f.Fuzz(func(t *testing.T, channel, payload string) {
		calls := &audience{replies: make(chan uuid.UUID, len(payload)+1), cancels: make(chan struct{}, 2)}
		(&Listener{audience: calls}).forward(&pgconn.Notification{Channel: channel, Payload: payload})
		if replies := len(calls.replies); replies > strings.Count(payload, ",")+1 || len(calls.cancels) > 1 || len(calls.cancels) == 1 && channel != channelCancels {
			t.Errorf("%q on %q: %d replies, %d cancels", payload, channel, replies, len(calls.cancels))
		}
		for len(calls.replies) > 0 {
			is(t, <-calls.replies != uuid.Nil || strings.Contains(payload, uuid.Nil.String()), true, "%q on %q means all replies", payload, channel)
		}
	})
}
