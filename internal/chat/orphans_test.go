package chat

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/google/uuid"
)

func (f *fakeStore) abandonments() [][]uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.abandoned)
}

// The reply of a turn that failed but may be stored has no server. Its lease is ended until it has ended by itself, and also
// if Postgres is away at first.
func TestFailedStartsAreAbandoned(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		var failed NewTurn
		svc.store.start = func(_ context.Context, turn NewTurn) (StartedTurn, error) {
			failed = turn
			return StartedTurn{}, fault.New(fault.NotReady, "The database is not available.")
		}
		back := time.Now().Add(svc.Lease / 2)
		svc.store.renew = func(context.Context) error {
			if time.Now().Before(back) {
				return errReset
			}
			return nil
		}
		if _, err := svc.Send(t.Context(), ada, Message{Content: "Hello."}); fault.CodeOf(err) != fault.NotReady {
			t.Fatal(err)
		}
		time.Sleep(10 * svc.Lease) // of the synthetic clock
		synctest.Wait()
		got := svc.store.abandonments()
		if len(got) < 2 || len(got) > 3 || !slices.Equal(got[1], []uuid.UUID{failed.MessageID}) {
			t.Errorf("abandoned %v, want %s", got, failed.MessageID)
		}
	})
}

// A turn that was refused is not stored, and one that was started has a server.
func TestOtherStartsAreNotAbandoned(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		reply := svc.send(t, Message{Content: "Hello."})
		svc.store.start = func(context.Context, NewTurn) (StartedTurn, error) {
			return StartedTurn{}, fault.New(fault.ForbiddenByPolicy, "No.")
		}
		if _, err := svc.Send(t.Context(), ada, Message{Content: "Hello."}); fault.CodeOf(err) != fault.ForbiddenByPolicy {
			t.Fatal(err)
		}
		time.Sleep(2 * svc.Lease) // of the synthetic clock
		synctest.Wait()
		if got := svc.store.abandonments(); len(got) != 0 {
			t.Errorf("abandoned %v", got)
		}
		script.finish()
		readToEnd(t, reply)
	})
}
