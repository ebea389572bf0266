package chat

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

// closeWithin starts to close the service with that time for running replies.
func (svc *testService) closeWithin(t *testing.T, patience time.Duration) (closed <-chan time.Duration) {
	t.Helper()
	done := make(chan time.Duration, 1)
	go func() {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		svc.Close(ctx)
		done <- time.Since(begin)
	}()
	synctest.Wait()
	return done
}

func TestCloseLetsRepliesFinish(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		script.emit("One ")
		reply := svc.send(t, Message{Content: "Hello."})
		closed := svc.closeWithin(t, time.Minute)
		time.Sleep(10 * time.Second) // of the synthetic clock
		if len(closed) != 0 {
			t.Fatal("closed while a reply runs")
		}
		if svc.store.renewals() == 0 {
			t.Error("the lease of a reply that may finish is not renewed")
		}
		script.emit("two.")
		script.finish()
		if text, end := readToEnd(t, reply); text != "One two." || end.Completed == nil {
			t.Errorf("%q, %+v", text, end)
		}
		if took := <-closed; took != 10*time.Second {
			t.Errorf("closed after %s", took)
		}
	})
}

func TestCloseInterruptsTheRest(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		var replies []*Reply
		svc.model.setAnswer(func(ctx context.Context) (ModelStream, error) {
			s := newScriptedReply() // each is silent after its first words
			s.emit("Up to here")
			return s.stream(ctx)
		})
		for range 10 {
			replies = append(replies, svc.send(t, Message{Content: "Hello."}))
		}
		svc.model.setAnswer(func(ctx context.Context) (ModelStream, error) { <-ctx.Done(); return nil, ctx.Err() })
		replies = append(replies, svc.send(t, Message{Content: "Hello."}))
		closed := svc.closeWithin(t, 5*time.Second)
		for _, reply := range replies {
			if _, end := readToEnd(t, reply); failureCode(end) != fault.Interrupted || !end.Failed.Retryable {
				t.Errorf("%+v", end)
			}
		}
		if took := <-closed; took != 5*time.Second {
			t.Errorf("closed after %s", took)
		}
		saved := svc.store.savedReplies()
		for _, reply := range saved {
			if reply.Status != memory.StatusInterrupted || reply.Metadata.Failure.Code != string(fault.Interrupted) {
				t.Errorf("%+v", reply)
			}
		}
		if len(saved) != len(replies) {
			t.Errorf("%d of %d replies are stored", len(saved), len(replies))
		}
	})
}

func TestClosedServiceRefuses(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		svc.send(t, Message{Content: "Hello."})
		closed := svc.closeWithin(t, time.Minute)
		for range 2 { // while it drains, and afterwards
			_, err := svc.Send(t.Context(), ada, Message{Content: "Hello."})
			wantFault(t, err, fault.ShuttingDown)
			if len(svc.store.turns) != 1 {
				t.Error("a turn was stored")
			}
			if len(script.steps) == 0 {
				script.finish()
			}
			<-closed
			closed = svc.closeWithin(t, time.Minute) // a second Close has nothing to do
		}
		<-closed
	})
}

// A message that was let in just before Close is stored when Close looks at what runs. Its reply ends
// as any other, and Close waits for that.
func TestCloseWaitsForATurnThatIsBeingStored(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		stored := make(chan struct{})
		svc.store.start = func(context.Context, NewTurn) (StartedTurn, error) { <-stored; return StartedTurn{Started: true}, nil }
		heard := make(chan streaming.Terminal, 1)
		go func() {
			reply, err := svc.Send(t.Context(), ada, Message{Content: "Hello."})
			if err != nil {
				t.Errorf("send: %v", err)
				return
			}
			defer reply.Close()
			_, end := readToEnd(t, reply)
			heard <- end
		}()
		synctest.Wait()
		closed := svc.closeWithin(t, time.Minute)
		if len(closed) != 0 {
			t.Error("closed before the turn was stored")
		}
		close(stored)
		<-closed
		if saved := svc.store.savedReplies(); len(saved) != 1 || saved[0].Status != memory.StatusComplete {
			t.Errorf("%+v", saved)
		}
		if end := <-heard; end.Completed == nil {
			t.Errorf("%+v", end)
		}
	})
}

// Who follows a reply of another server must not hold this one up.
func TestCloseEndsFollowers(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		elsewhere := storedReply(memory.StatusStreaming, "")
		svc.store.put(elsewhere)
		reply := svc.resume(t, elsewhere.ChatID, nil)
		<-svc.closeWithin(t, time.Minute)
		if _, err := reply.Next(t.Context()); !errors.Is(err, streaming.ErrBroken) {
			t.Errorf("%v", err)
		}
		_, err := svc.Resume(t.Context(), ada, elsewhere.ChatID, nil)
		wantFault(t, err, fault.ShuttingDown)
	})
}
