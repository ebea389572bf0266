package chat

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
)

func TestCancelHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		said := newSpeech()
		w.model.will(said.stream)
		said.say("Up to hére")
		reply := w.send(t, Message{Content: "Hello."})
		synctest.Wait()
		stored, err := w.Cancel(t.Context(), ada, reply.Started.ChatID)
		if err != nil || stored.Status != memory.StatusCancelled || stored.MessageID != reply.Started.MessageID {
			t.Errorf("%+v, %v", stored, err)
		}
		text, end := ended(t, reply)
		if text != "Up to hére" || end.Cancelled == nil || end.Cancelled.ContentLength != 10 {
			t.Errorf("%q, %+v", text, end)
		}
		saved := w.store.savedReplies()
		if len(saved) != 1 || saved[0].Status != memory.StatusCancelled || saved[0].Content != "Up to hére" || saved[0].Metadata.Failure != nil {
			t.Errorf("%+v", saved)
		}
		again, err := w.Cancel(t.Context(), ada, reply.Started.ChatID) // harmless
		if err != nil || again.Status != memory.StatusCancelled || len(w.store.stop) != 0 {
			t.Errorf("%+v, %v, asked for %v", again, err, w.store.stop)
		}
	})
}

func TestCancelBeforeTheModelAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.will(func(ctx context.Context) (ModelStream, error) { <-ctx.Done(); return nil, ctx.Err() })
		reply := w.send(t, Message{Content: "Hello."})
		synctest.Wait()
		if _, err := w.Cancel(t.Context(), ada, reply.Started.ChatID); err != nil {
			t.Fatal(err)
		}
		if err := reply.WaitOpen(t.Context()); err != nil {
			t.Errorf("a cancelled reply is no failure: %v", err)
		}
		if text, end := ended(t, reply); text != "" || end.Cancelled == nil {
			t.Errorf("%q, %+v", text, end)
		}
	})
}

// A reply that could not be stored is not said to be cancelled.
func TestCancelThatIsNotStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.will(newSpeech().stream)
		w.store.save = func(context.Context, FinishedReply) (bool, error) { return false, errReset }
		reply := w.send(t, Message{Content: "Hello."})
		synctest.Wait()
		stored, err := w.Cancel(t.Context(), ada, reply.Started.ChatID)
		if err != nil || stored.Status != memory.StatusFailed {
			t.Errorf("%+v, %v", stored, err)
		}
	})
}

func TestCancelElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		elsewhere := storedReply(memory.StatusStreaming, "")
		w.store.put(elsewhere)
		stored, err := w.Cancel(t.Context(), ada, elsewhere.ChatID)
		if err != nil || stored.Status != memory.StatusStreaming || len(w.store.stop) != 1 || w.store.stop[0] != elsewhere.MessageID {
			t.Errorf("%+v, %v, asked for %v", stored, err, w.store.stop)
		}
	})
}

func TestCancelOfNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.Cancel(t.Context(), ada, uuid.New())
		wantFault(t, err, fault.ChatNotFound)
		done := storedReply(memory.StatusComplete, "Done.")
		w.store.put(done)
		if stored, err := w.Cancel(t.Context(), ada, done.ChatID); err != nil || stored.Status != memory.StatusComplete {
			t.Errorf("%+v, %v", stored, err)
		}
		w.store.finding(func(context.Context) error { return errReset })
		if _, err := w.Cancel(t.Context(), ada, done.ChatID); !errors.Is(err, errReset) {
			t.Errorf("%v", err)
		}
	})
}

// The leases of running replies are renewed three times per lease, and requests to stop come back.
func TestLeasesAreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Lease = 9 * time.Second })
		time.Sleep(61 * time.Second) // of the synthetic clock
		if n := w.store.renewals(); n != 0 {
			t.Errorf("%d renewals of nothing", n)
		}
		said := newSpeech()
		w.model.will(said.stream)
		reply := w.send(t, Message{Content: "Hello."})
		time.Sleep(9*time.Second + time.Millisecond)
		if n := w.store.renewals(); n != 3 || w.store.renewed[0][0] != reply.Started.MessageID {
			t.Errorf("%d renewals in one lease", n)
		}
		said.finish()
		ended(t, reply)
		before := w.store.renewals()
		time.Sleep(time.Minute)
		if n := w.store.renewals(); n != before {
			t.Errorf("%d renewals of a reply that has ended", n-before)
		}
	})
}

func TestRequestsToStopAreFoundWithoutNotifications(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		said := newSpeech()
		w.model.will(said.stream)
		said.say("Up to here")
		stopped, goesOn := w.send(t, Message{Content: "Hello."}), w.send(t, Message{Content: "Hello."})
		synctest.Wait()
		for _, id := range []uuid.UUID{uuid.New(), stopped.Started.MessageID} { // one of them is another server's
			if err := w.store.RequestCancel(t.Context(), ada, id); err != nil {
				t.Fatal(err)
			}
		}
		if _, end := ended(t, stopped); end.Cancelled == nil {
			t.Errorf("%+v", end)
		}
		if saved := w.store.savedReplies(); len(saved) != 1 || saved[0].MessageID != stopped.Started.MessageID {
			t.Errorf("saved %+v", saved)
		}
		said.finish()
		if _, end := ended(t, goesOn); end.Completed == nil {
			t.Errorf("%+v", end)
		}
	})
}

// A renewal that fails is told and tried again; one that hangs ends before the next is due.
func TestRenewalFailures(t *testing.T) {
	t.Parallel()
	for name, renew := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return errReset },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.store.renew = renew
				said := newSpeech()
				w.model.will(said.stream)
				reply := w.send(t, Message{Content: "Hello."})
				time.Sleep(15*time.Second + time.Millisecond) // one lease of the synthetic clock
				if n := w.store.renewals(); n < 2 {
					t.Errorf("%d renewals", n)
				}
				if len(w.lines(t, "leases not renewed")) == 0 {
					t.Error("nobody was told")
				}
				said.finish()
				if _, end := ended(t, reply); end.Completed == nil {
					t.Errorf("%+v", end)
				}
			})
		})
	}
}
