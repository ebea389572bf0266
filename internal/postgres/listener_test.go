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

// audience keeps what it is told.
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

// hears waits for what was told.
func hears[T comparable](t *testing.T, told <-chan T, want T) {
	t.Helper()
	if got := testkit.Receive(t, fmt.Sprintf("hear %v", want), told); got != want {
		t.Errorf("heard %v, want %v", got, want)
	}
}

// listen starts a listener that ends with the test, and waits until it hears.
func (b *bed) listen() *audience {
	b.t.Helper()
	told := &audience{replies: make(chan uuid.UUID, 10_000), cancels: make(chan struct{}, 100), listening: make(chan bool, 100)}
	listener, err := NewListener(b.db.Direct(), told, slog.New(slog.DiscardHandler))
	if err != nil || listener == nil {
		b.t.Fatalf("%v, %v", listener, err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	var done sync.WaitGroup
	done.Go(func() { listener.Run(ctx) })
	b.t.Cleanup(func() { cancel(); done.Wait() })
	b.hearsAll(told)
	return told
}

// hearsAll waits for what a new connection tells: that others are heard, and to look at everything.
func (b *bed) hearsAll(told *audience) {
	b.t.Helper()
	hears(b.t, told.listening, true)
	hears(b.t, told.replies, uuid.Nil)
	hears(b.t, told.cancels, struct{}{})
}

func TestListenerPassesOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	told := b.listen()
	turn := firstTurn("One.")
	b.start(turn)
	b.record([]chat.Delta{b.said(turn, 0, "Hello.")})
	hears(t, told.replies, turn.MessageID)
	if err := b.turns.RequestCancel(t.Context(), b.user, turn.MessageID); err != nil {
		t.Fatal(err)
	}
	hears(t, told.cancels, struct{}{})
	b.exec("select pg_notify($1, 'not an id, nor this')", channelReplies) // means nothing
	b.exec("update messages set lease_until = clock_timestamp() where id = $1", turn.MessageID)
	if _, err := b.turns.InterruptAbandoned(t.Context()); err != nil {
		t.Fatal(err)
	}
	hears(t, told.replies, turn.MessageID)
}

// A stranger's request reaches nobody.
func TestListenerHearsNothingOfRefusedRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	told := b.listen()
	turn := firstTurn("One.")
	b.start(turn)
	if err := b.turns.RequestCancel(t.Context(), b.newUser(), turn.MessageID); err != nil {
		t.Fatal(err)
	}
	b.record([]chat.Delta{b.said(turn, 0, "Hello.")}) // comes after, and alone
	hears(t, told.replies, turn.MessageID)
	if len(told.cancels) != 0 {
		t.Error("a stranger's request was heard")
	}
}

// A connection that is lost is made anew, and whoever listens is told to look at everything.
func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	told := b.listen()
	b.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'throughline listener'")
	hears(t, told.listening, false)
	b.hearsAll(told)
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
