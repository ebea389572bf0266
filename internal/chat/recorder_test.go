package chat

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// recorded is what the store was given of a reply, put together; it fails when the pieces do not fit.
func (w *world) recorded(t *testing.T, messageID uuid.UUID) string {
	t.Helper()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	var text strings.Builder
	for _, delta := range w.store.deltas {
		if delta.MessageID != messageID {
			continue
		}
		if at := len([]rune(text.String())); delta.StartChar != at || delta.UserID != ada.UserID {
			t.Errorf("%+v comes after %d characters", delta, at)
		}
		text.WriteString(delta.Text)
	}
	return text.String()
}

func (w *world) recordings() int {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return len(w.store.deltas)
}

// What is said after a silence is recorded at once, what follows once per interval.
func TestRepliesAreRecordedWhileTheyRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		said := newSpeech()
		w.model.will(said.stream)
		reply := w.send(t, Message{Content: "Hello."})
		id := reply.Started.MessageID
		said.say("Übung ")
		synctest.Wait()
		if got := w.recorded(t, id); got != "Übung " {
			t.Errorf("at once: %q", got)
		}
		for _, piece := range []string{"macht ", "den ", "Meister 🎻"} {
			said.say(piece)
		}
		synctest.Wait()
		if n := w.recordings(); n != 1 {
			t.Errorf("%d pieces within one interval", n)
		}
		time.Sleep(w.RecordInterval) // of the synthetic clock
		synctest.Wait()
		if got := w.recorded(t, id); got != "Übung macht den Meister 🎻" || w.recordings() != 2 {
			t.Errorf("after the interval: %q in %d pieces", got, w.recordings())
		}
		said.finish()
		ended(t, reply)
		time.Sleep(w.RecordInterval)
		synctest.Wait()
		if len(w.store.ended) != 1 || w.store.ended[0] != id {
			t.Errorf("tidied up after %v", w.store.ended)
		}
	})
}

// A batch that fails, or of which nobody knows whether it was committed, is sent again as it is; what was
// said meanwhile follows it.
func TestRecordingIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		back := time.Now().Add(10 * time.Second)
		w.store.record = func(context.Context) error {
			if time.Now().Before(back) {
				return errReset
			}
			return nil
		}
		said := newSpeech()
		w.model.will(said.stream)
		reply := w.send(t, Message{Content: "Hello."})
		for _, piece := range []string{"One ", "two ", "three."} {
			said.say(piece)
			time.Sleep(4 * time.Second) // of the synthetic clock
		}
		if got := w.recorded(t, reply.Started.MessageID); got != "One two three." {
			t.Errorf("%q", got)
		}
		if first := w.store.deltas[0].Text; first != "One " {
			t.Errorf("the first piece became %q", first)
		}
		if down, up := w.lines(t, "running replies not recorded"), w.lines(t, "running replies recorded again"); len(down) != 1 || len(up) != 1 {
			t.Errorf("the outage was told %d times, its end %d times", len(down), len(up))
		}
		said.finish()
		ended(t, reply)
	})
}

// A reply whose text could not be stored keeps what was recorded: it is what is left of it.
func TestUnstoredReplyKeepsItsRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.save = func(context.Context, FinishedReply) (bool, error) { return false, errReset }
		w.model.will(says("All there is."))
		reply := w.send(t, Message{Content: "Hello."})
		ended(t, reply)
		time.Sleep(time.Second) // of the synthetic clock
		if got := w.recorded(t, reply.Started.MessageID); got != "All there is." || len(w.store.ended) != 0 {
			t.Errorf("%q, tidied up: %v", got, w.store.ended)
		}
	})
}

// A service that ends while a batch is under way sends that one again, and what came since.
func TestNothingIsLeftBehindByClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := make(chan struct{}, 1)
		first := true
		w.store.record = func(ctx context.Context) error {
			if !first {
				return nil
			}
			first = false
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		w.model.will(says("One."))
		ended(t, w.send(t, Message{Content: "Hello."}))
		<-began
		ended(t, w.send(t, Message{Content: "Hello again."}))
		w.Close(t.Context())
		if n := len(w.store.ended); n != 2 {
			t.Errorf("tidied up after %d of 2 replies", n)
		}
	})
}
