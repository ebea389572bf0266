package chat

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
)

// hearing sets the service up to hear announcements, and waits until it knows of all there are.
func (svc *testService) hearing() {
	svc.Listening(true)
	time.Sleep(announcedFor + time.Millisecond) // of the synthetic clock
}

func (svc *testService) notified() int {
	svc.store.mu.Lock()
	defer svc.store.mu.Unlock()
	return len(svc.store.notified)
}

func (svc *testService) announcements() [][]uuid.UUID {
	svc.store.mu.Lock()
	defer svc.store.mu.Unlock()
	return slices.Clone(svc.store.announced)
}

// scripted sends a message whose reply says what the test lets it say.
func (svc *testService) scripted(t *testing.T) (*scriptedReply, *Reply) {
	t.Helper()
	script := newScriptedReply()
	svc.model.setAnswer(script.stream)
	return script, svc.send(t, Message{Content: "Hello."})
}

// speak lets a reply say ten words per second for that long.
func (s *scriptedReply) speak(duration time.Duration) {
	const pause = 100 * time.Millisecond
	for range duration / pause {
		s.emit("word ")
		time.Sleep(pause) // of the synthetic clock
	}
	synctest.Wait()
}

// A reply that no other server reads is recorded less often, and no other server is notified of it or of its end.
func TestUnreadRepliesAreRecordedLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t)
		svc.hearing()
		script, reply := svc.scripted(t)
		script.speak(10 * time.Second)
		if n := svc.recordings(); n < 25 || n > 41 {
			t.Errorf("recorded %d times in 10 s", n)
		}
		script.finish()
		readToEnd(t, reply)
		time.Sleep(time.Second) // of the synthetic clock
		synctest.Wait()
		if n := svc.notified(); n != 0 || len(svc.store.ended) != 1 {
			t.Errorf("%d notifications, tidied up after %d", n, len(svc.store.ended))
		}
	})
}

// The first reader elsewhere gets at once what was not recorded yet, and soon what comes next. From then on the reply is
// recorded more often, until its readers are announced no more.
func TestReadersElsewhereHurryTheRecorder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t)
		svc.hearing()
		script, reply := svc.scripted(t)
		id := reply.Started.MessageID
		script.emit("One ")
		synctest.Wait()
		script.emit("two ")
		time.Sleep(time.Millisecond) // of the synthetic clock
		synctest.Wait()
		if got := svc.recorded(t, id); got != "One " {
			t.Errorf("before: %q", got)
		}
		svc.RepliesRead(uuid.New(), id)
		synctest.Wait()
		if got := svc.recorded(t, id); got != "One two " || svc.notified() != 1 {
			t.Errorf("at once: %q, %d notifications", got, svc.notified())
		}
		script.emit("three ")
		time.Sleep(readInterval / 3) // of the synthetic clock
		synctest.Wait()
		if got := svc.recorded(t, id); got != "One two three " {
			t.Errorf("what came next: %q", got)
		}
		before := svc.recordings()
		for range 10 {
			script.speak(announceInterval)
			svc.RepliesRead(id)
		}
		if n := svc.recordings() - before; n < 80 || n > 100 || svc.notified() != 2+n {
			t.Errorf("recorded %d times in 10 s, %d notifications", n, svc.notified())
		}
		script.speak(announcedFor + time.Second)
		before, told := svc.recordings(), svc.notified()
		script.speak(10 * time.Second)
		if n := svc.recordings() - before; n > 41 || svc.notified() != told {
			t.Errorf("recorded %d times in 10 s when nobody reads any more, %d notifications", n, svc.notified()-told)
		}
		script.finish()
		readToEnd(t, reply)
	})
}

// The end of a reply is told to its readers elsewhere.
func TestReadersElsewhereAreToldOfTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t)
		svc.hearing()
		script, reply := svc.scripted(t)
		svc.RepliesRead(reply.Started.MessageID)
		script.finish()
		readToEnd(t, reply)
		synctest.Wait()
		if !slices.Equal(svc.store.notified, []uuid.UUID{reply.Started.MessageID}) {
			t.Errorf("notified of %v", svc.store.notified)
		}
	})
}

// A server that cannot hear announcements, or has heard none for long enough, records as if all replies were read.
func TestUnheardReadersAreAssumed(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testService){
		"never heard": func(*testService) {},
		"lost":        func(svc *testService) { svc.hearing(); svc.Listening(false) },
		"just back":   func(svc *testService) { svc.hearing(); svc.Listening(false); svc.Listening(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				svc := newTestService(t)
				prepare(svc)
				script, reply := svc.scripted(t)
				script.speak(2 * time.Second)
				if n := svc.recordings(); n < 15 || svc.notified() != n {
					t.Errorf("recorded %d times in 2 s, %d notifications", n, svc.notified())
				}
				script.finish()
				readToEnd(t, reply)
			})
		})
	}
}

// An interval that is shorter than that of readers holds for all.
func TestShortIntervalsStayShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t, func(c *Config) { c.RecordInterval = 20 * time.Millisecond })
		script, reply := svc.scripted(t)
		for range 100 {
			script.emit("word ")
			time.Sleep(20 * time.Millisecond) // of the synthetic clock
		}
		if n := svc.recordings(); n < 70 {
			t.Errorf("recorded %d times in 2 s", n)
		}
		script.finish()
		readToEnd(t, reply)
	})
}

// Followers are announced at once, together when there are several, and every second until they leave.
func TestFollowersAreAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t)
		svc.Listening(true)
		time.Sleep(100 * time.Millisecond) // of the synthetic clock
		one, two := storedReply(memory.StatusStreaming, "One"), storedReply(memory.StatusStreaming, "Two")
		svc.store.put(one)
		svc.store.put(two)
		svc.resume(t, one.ChatID, nil)
		synctest.Wait()
		stays := svc.resume(t, two.ChatID, nil)
		synctest.Wait()
		if got := svc.announcements(); len(got) != 2 || !slices.Equal(got[0], []uuid.UUID{one.MessageID}) || !slices.Equal(got[1], []uuid.UUID{two.MessageID}) {
			t.Errorf("announced %v", got)
		}
		time.Sleep(announceInterval) // of the synthetic clock
		synctest.Wait()
		if got := svc.announcements(); len(got) != 3 || len(got[2]) != 2 {
			t.Errorf("announced again: %v", got)
		}
		stays.Close()
		time.Sleep(announceInterval)
		synctest.Wait()
		if got := svc.announcements(); len(got) != 4 || !slices.Equal(got[3], []uuid.UUID{one.MessageID}) {
			t.Errorf("announced after one has left: %v", got)
		}
	})
}

// What is recorded or stored between a follower's first look and its announcement is told to nobody. It looks again soon.
func TestFollowersLookTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t)
		svc.Listening(true)
		elsewhere := storedReply(memory.StatusStreaming, "One")
		svc.store.put(elsewhere)
		reply := svc.resume(t, elsewhere.ChatID, nil)
		synctest.Wait()
		begin := time.Now()
		elsewhere.Status, elsewhere.Content = memory.StatusComplete, "One two."
		svc.store.put(elsewhere)
		if text, end := readToEnd(t, reply); text != "One two." || end.Completed == nil || time.Since(begin) > pollOtherwise {
			t.Errorf("%q, %+v after %s", text, end, time.Since(begin))
		}
	})
}

// Whoever asks another server to cancel a reply waits there for its end.
func TestWhoCancelsElsewhereIsToldOfTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t)
		svc.hearing()
		_, reply := svc.scripted(t)
		if err := svc.store.RequestCancel(t.Context(), ada, reply.Started.MessageID); err != nil {
			t.Fatal(err)
		}
		svc.CancelsRequested()
		if _, end := readToEnd(t, reply); end.Cancelled == nil {
			t.Errorf("%+v", end)
		}
		synctest.Wait()
		if svc.notified() != 1 {
			t.Errorf("%d notifications", svc.notified())
		}
	})
}
