package chat

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

func TestCancelHere(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		script.emit("Up to hére")
		reply := svc.send(t, Message{Content: "Hello."})
		synctest.Wait()
		stored, err := svc.Cancel(t.Context(), ada, reply.Started.ChatID)
		assert.Truef(t, err == nil && stored.Status == memory.StatusCancelled && stored.MessageID == reply.Started.MessageID,
			"%+v, %v", stored, err)
		text, end := readToEnd(t, reply)
		assert.Truef(t, text == "Up to hére" && end.Cancelled != nil && end.Cancelled.ContentLength == 10,
			"%q, %+v", text, end)
		saved := svc.store.savedReplies()
		assert.Truef(t, len(saved) == 1 && saved[0].Status == memory.StatusCancelled && saved[0].Content == "Up to hére" && saved[0].Metadata.Failure == nil &&
			saved[0].Spent.Estimated && saved[0].Spent.OutputTokens == saved[0].Tokens, "%+v", saved)
		again, err := svc.Cancel(t.Context(), ada, reply.Started.ChatID) // harmless
		assert.Truef(t, err == nil && again.Status == memory.StatusCancelled && len(svc.store.stop) == 0,
			"%+v, %v, asked for %v", again, err, svc.store.stop)
	})
}

func TestCancelBeforeTheModelAnswers(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.setAnswer(func(ctx context.Context) (ModelStream, error) { <-ctx.Done(); return nil, ctx.Err() })
		reply := svc.send(t, Message{Content: "Hello."})
		synctest.Wait()
		_, err := svc.Cancel(t.Context(), ada, reply.Started.ChatID)
		require.NoError(t, err)
		assert.NoError(t, reply.WaitOpen(t.Context()), "a cancelled reply is no failure")
		text, end := readToEnd(t, reply)
		assert.Truef(t, text == "" && end.Cancelled != nil, "%q, %+v", text, end)
	})
}

// A reply that could not be stored is not reported as cancelled.
func TestCancelThatIsNotStored(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.model.setAnswer(newScriptedReply().stream)
		svc.store.save = func(context.Context, FinishedReply) (bool, error) { return false, errReset }
		reply := svc.send(t, Message{Content: "Hello."})
		synctest.Wait()
		stored, err := svc.Cancel(t.Context(), ada, reply.Started.ChatID)
		assert.Truef(t, err == nil && stored.Status == memory.StatusFailed, "%+v, %v", stored, err)
	})
}

func TestCancelElsewhere(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		elsewhere := storedReply(memory.StatusStreaming, "")
		svc.store.put(elsewhere)
		stored, err := svc.Cancel(t.Context(), ada, elsewhere.ChatID)
		assert.Truef(t, err == nil && stored.Status == memory.StatusStreaming && len(svc.store.stop) == 1 && svc.store.stop[0] == elsewhere.MessageID,
			"%+v, %v, asked for %v", stored, err, svc.store.stop)
	})
}

func TestCancelOfNothing(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		_, err := svc.Cancel(t.Context(), ada, uuid.New())
		wantFault(t, err, fault.ChatNotFound)
		done := storedReply(memory.StatusComplete, "Done.")
		svc.store.put(done)
		if stored, err := svc.Cancel(t.Context(), ada, done.ChatID); err != nil || stored.Status != memory.StatusComplete {
			t.Errorf("%+v, %v", stored, err)
		}
		svc.store.setFind(func(context.Context) error { return errReset })
		if _, err := svc.Cancel(t.Context(), ada, done.ChatID); !errors.Is(err, errReset) {
			t.Errorf("%v", err)
		}
	})
}

// A server with running replies renews its lease three times in that time.
func TestLeasesAreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t, func(c *Config) { c.Lease = 9 * time.Second })
		time.Sleep(61 * time.Second) // of the synthetic clock
		n := svc.store.renewals()
		assert.Truef(t, n == 0, "%d renewals of nothing", n)
		script := svc.scripted()
		reply := svc.send(t, Message{Content: "Hello."})
		time.Sleep(9*time.Second + time.Millisecond)
		n = svc.store.renewals()
		assert.Truef(t, n == 3 && svc.store.turns[0].Server == svc.id && slices.Equal(svc.store.renewed[0], []uuid.UUID{svc.id, reply.Started.MessageID}),
			"%d renewals in one lease", n)
		script.finish()
		readToEnd(t, reply)
		before := svc.store.renewals()
		time.Sleep(time.Minute)
		n = svc.store.renewals()
		assert.Equalf(t, before, n, "%d renewals of a reply that has ended", n-before)
	})
}

func TestRequestsToStopAreFoundWithoutNotifications(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		script.emit("Up to here")
		stopped, goesOn := svc.send(t, Message{Content: "Hello."}), svc.send(t, Message{Content: "Hello."})
		synctest.Wait()
		for _, id := range []uuid.UUID{uuid.New(), stopped.Started.MessageID} { // one of them is another server's
			require.NoError(t, svc.store.RequestCancel(t.Context(), ada, id))
		}
		_, end := readToEnd(t, stopped)
		assert.Truef(t, end.Cancelled != nil, "%+v", end)
		saved := svc.store.savedReplies()
		assert.Truef(t, len(saved) == 1 && saved[0].MessageID == stopped.Started.MessageID, "saved %+v", saved)
		script.finish()
		_, end = readToEnd(t, goesOn)
		assert.Truef(t, end.Completed != nil, "%+v", end)
	})
}

// A renewal that fails is logged and tried again; one that hangs ends before the next is due.
func TestRenewalFailures(t *testing.T) {
	t.Parallel()
	for name, renew := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return errReset },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inService(t, func(t *testing.T, svc *testService) {
				svc.store.renew = renew
				script := svc.scripted()
				reply := svc.send(t, Message{Content: "Hello."})
				time.Sleep(15*time.Second + time.Millisecond) // one lease of the synthetic clock
				n := svc.store.renewals()
				assert.Truef(t, n >= 2, "%d renewals", n)
				assert.True(t, len(svc.logs.Lines(t, "lease not renewed")) != 0, "nobody was told")
				script.finish()
				_, end := readToEnd(t, reply)
				assert.Truef(t, end.Completed != nil, "%+v", end)
			})
		})
	}
}

// closeWithin starts to close the service with that time for running replies.
func (svc *testService) closeWithin(patience time.Duration) (closed <-chan time.Duration) {
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
		closed := svc.closeWithin(time.Minute)
		time.Sleep(10 * time.Second) // of the synthetic clock
		require.Equal(t, 0, len(closed), "closed while a reply runs")
		assert.True(t, svc.store.renewals() != 0, "the lease of a reply that may finish is not renewed")
		script.emit("two.")
		script.finish()
		text, end := readToEnd(t, reply)
		assert.Truef(t, text == "One two." && end.Completed != nil, "%q, %+v", text, end)
		took := <-closed
		assert.Truef(t, took == 10*time.Second, "closed after %s", took)
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
		closed := svc.closeWithin(5 * time.Second)
		for _, reply := range replies {
			_, end := readToEnd(t, reply)
			assert.Truef(t, failureCode(end) == fault.Interrupted && end.Failed.Retryable, "%+v", end)
		}
		took := <-closed
		assert.Truef(t, took == 5*time.Second, "closed after %s", took)
		saved := svc.store.savedReplies()
		for _, reply := range saved {
			assert.Truef(t, reply.Status == memory.StatusInterrupted && reply.Metadata.Failure.Code == string(fault.Interrupted),
				"%+v", reply)
		}
		assert.Truef(t, len(saved) == len(replies), "%d of %d replies are stored", len(saved), len(replies))
	})
}

func TestClosedServiceRefuses(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		svc.send(t, Message{Content: "Hello."})
		closed := svc.closeWithin(time.Minute)
		for range 2 { // while it drains, and afterwards
			_, err := svc.Send(t.Context(), ada, Message{Content: "Hello."})
			wantFault(t, err, fault.ShuttingDown)
			assert.Equal(t, 1, len(svc.store.turns), "a turn was stored")
			if len(script.steps) == 0 {
				script.finish()
			}
			<-closed
			closed = svc.closeWithin(time.Minute) // a second Close has nothing to do
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
		closed := svc.closeWithin(time.Minute)
		assert.Equal(t, 0, len(closed), "closed before the turn was stored")
		close(stored)
		<-closed
		saved := svc.store.savedReplies()
		assert.Truef(t, len(saved) == 1 && saved[0].Status == memory.StatusComplete, "%+v", saved)
		end := <-heard
		assert.Truef(t, end.Completed != nil, "%+v", end)
	})
}

// Who follows a reply of another server must not hold this one up.
func TestCloseEndsFollowers(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		elsewhere, reply := svc.followed(t, "", nil)
		<-svc.closeWithin(time.Minute)
		if _, err := reply.Next(t.Context()); !errors.Is(err, streaming.ErrBroken) {
			t.Errorf("%v", err)
		}
		_, err := svc.Resume(t.Context(), ada, elsewhere.ChatID, nil)
		wantFault(t, err, fault.ShuttingDown)
	})
}
