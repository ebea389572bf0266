package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"

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
	if got := testkit.Receive(t, fmt.Sprintf("receive %v", want), calls); got != want {
		t.Errorf("received %v, want %v", got, want)
	}
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

func TestListenerPassesOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	calls := b.listen()
	turn := firstTurn("One.")
	b.start(turn)
	b.record([]chat.Delta{b.said(turn, 0, "Hello.")})
	receives(t, calls.replies, turn.MessageID)
	if err := b.turns.RequestCancel(t.Context(), b.user, turn.MessageID); err != nil {
		t.Fatal(err)
	}
	receives(t, calls.cancels, struct{}{})
	b.exec("select pg_notify($1, 'not an id, nor this')", channelReplies) // means nothing
	b.exec("update messages set lease_until = clock_timestamp() where id = $1", turn.MessageID)
	if _, err := b.turns.InterruptAbandoned(t.Context()); err != nil {
		t.Fatal(err)
	}
	receives(t, calls.replies, turn.MessageID)
}

// A refused request of another user is not announced.
func TestListenerHearsNothingOfRefusedRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	calls := b.listen()
	turn := firstTurn("One.")
	b.start(turn)
	if err := b.turns.RequestCancel(t.Context(), b.newUser(), turn.MessageID); err != nil {
		t.Fatal(err)
	}
	b.record([]chat.Delta{b.said(turn, 0, "Hello.")}) // comes after, and alone
	receives(t, calls.replies, turn.MessageID)
	if len(calls.cancels) != 0 || len(calls.replies) != 0 {
		t.Error("a stranger's request was announced")
	}
}

// A lost connection is replaced, and then the audience is told that everything may have changed.
func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	calls := b.listen()
	b.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'throughline listener'")
	receives(t, calls.listening, false)
	b.receivesAll(calls)
}

func TestNoListenerBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if listener, err := NewListener(testkit.NewTransactionPooler(t, b.db), &audience{}, slog.New(slog.DiscardHandler)); listener != nil || err != nil {
		t.Errorf("%v, %v", listener, err)
	}
	if _, err := NewListener("postgres://%zz", &audience{}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a malformed connection string was taken")
	}
}
