package chat

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
)

// recorded returns the recorded text of a reply. The test fails when its deltas do not follow one another.
func (svc *testService) recorded(t *testing.T, messageID uuid.UUID) string {
	svc.store.mu.Lock()
	defer svc.store.mu.Unlock()
	var text strings.Builder
	for _, delta := range svc.store.deltas {
		if delta.MessageID != messageID {
			continue
		}
		at := len([]rune(text.String()))
		assert.Truef(t, delta.StartChar == at && delta.UserID == ada.UserID, "%+v comes after %d characters", delta, at)
		text.WriteString(delta.Text)
	}
	return text.String()
}

func (svc *testService) recordings() int {
	svc.store.mu.Lock()
	defer svc.store.mu.Unlock()
	return len(svc.store.deltas)
}

// Text after a silence is recorded at once, later text once per interval.
func TestRepliesAreRecordedWhileTheyRun(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		reply := svc.send(t, Message{Content: "Hello."})
		id := reply.Started.MessageID
		script.emit("Übung ")
		synctest.Wait()
		assert.Equal(t, "Übung ", svc.recorded(t, id), "at once")
		for _, piece := range []string{"macht ", "den ", "Meister 🎻"} {
			script.emit(piece)
		}
		synctest.Wait()
		n := svc.recordings()
		assert.Truef(t, n == 1, "%d pieces within one interval", n)
		time.Sleep(recordInterval) // of the synthetic clock
		synctest.Wait()
		if got := svc.recorded(t, id); got != "Übung macht den Meister 🎻" || svc.recordings() != 2 {
			t.Errorf("after the interval: %q in %d pieces", got, svc.recordings())
		}
		script.finish()
		readToEnd(t, reply)
		time.Sleep(recordInterval)
		synctest.Wait()
		assert.Truef(t, len(svc.store.ended) == 1 && svc.store.ended[0] == id, "tidied up after %v", svc.store.ended)
	})
}

// A batch that failed, perhaps after its commit, is sent again unchanged; later text follows it.
func TestRecordingIsTriedAgain(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		back := time.Now().Add(10 * time.Second)
		svc.store.record = func(context.Context) error {
			if time.Now().Before(back) {
				return errReset
			}
			return nil
		}
		script := svc.scripted()
		reply := svc.send(t, Message{Content: "Hello."})
		for _, piece := range []string{"One ", "two ", "three."} {
			script.emit(piece)
			time.Sleep(4 * time.Second) // of the synthetic clock
		}
		assert.Equal(t, "One two three.", svc.recorded(t, reply.Started.MessageID))
		assert.Equal(t, "One ", svc.store.deltas[0].Text, "the first piece became")
		down, up := svc.logs.Lines(t, "running replies not recorded"), svc.logs.Lines(t, "running replies recorded again")
		assert.Truef(t, len(down) == 1 && len(up) == 1,
			"the outage was told %d times, its end %d times", len(down), len(up))
		script.finish()
		readToEnd(t, reply)
	})
}

// A reply whose text could not be stored keeps what was recorded: it is what is left of it.
func TestUnstoredReplyKeepsItsRecord(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.store.save = func(context.Context, FinishedReply) (bool, error) { return false, errReset }
		svc.model.setAnswer(answering("All there is."))
		reply := svc.send(t, Message{Content: "Hello."})
		readToEnd(t, reply)
		time.Sleep(time.Second) // of the synthetic clock
		got := svc.recorded(t, reply.Started.MessageID)
		assert.Truef(t, got == "All there is." && len(svc.store.ended) == 0, "%q, tidied up: %v", got, svc.store.ended)
	})
}

// A service that ends while a batch is under way sends that one again, and what came since.
func TestNothingIsLeftBehindByClose(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		began := make(chan struct{}, 1)
		first := true
		svc.store.record = func(ctx context.Context) error {
			if !first {
				return nil
			}
			first = false
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		svc.model.setAnswer(answering("One."))
		readToEnd(t, svc.send(t, Message{Content: "Hello."}))
		<-began
		readToEnd(t, svc.send(t, Message{Content: "Hello again."}))
		svc.Close(t.Context())
		n := len(svc.store.ended)
		assert.Truef(t, n == 2, "tidied up after %d of 2 replies", n)
	})
}
