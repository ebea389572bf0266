package chat

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

// next reads one piece of text.
func readText(t *testing.T, reply *Reply) string {
	t.Helper()
	chunk, err := reply.Next(t.Context())
	if err != nil || chunk.End != nil {
		t.Fatalf("%+v, %v", chunk, err)
	}
	return string(chunk.Text)
}

// A reply that another server generates is read as it is recorded: when a notification comes, at once.
func TestFollowersReadWhatIsRecorded(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.Listening(true)
		elsewhere := storedReply(memory.StatusStreaming, "Größe")
		svc.store.put(elsewhere)
		whole, rest := svc.resume(t, elsewhere.ChatID, nil), svc.resume(t, elsewhere.ChatID, &Cursor{After: 7})
		if got := readText(t, whole); got != "Größe" {
			t.Errorf("%q", got)
		}
		synctest.Wait()
		looks := 0
		svc.store.setFind(func(context.Context) error { looks++; return nil })
		elsewhere.Content = "Größe ist 🎻 alles."
		svc.store.put(elsewhere)
		begin := time.Now()
		svc.RepliesChanged(elsewhere.MessageID)
		if got, missing := readText(t, whole), readText(t, rest); got != " ist 🎻 alles." || missing != "st 🎻 alles." {
			t.Errorf("%q, %q", got, missing)
		}
		if waited := time.Since(begin); waited != 0 || looks != 1 {
			t.Errorf("read after %s with %d looks", waited, looks)
		}
		elsewhere.Status = memory.StatusComplete
		svc.store.put(elsewhere)
		svc.RepliesChanged()
		if _, end := readToEnd(t, whole); end.Completed == nil || end.Completed.ContentLength != 18 {
			t.Errorf("%+v", end)
		}
		if _, end := readToEnd(t, rest); end.Completed == nil {
			t.Errorf("%+v", end)
		}
	})
}

// A notification for many replies wakes all of their followers, and they read in turn.
func TestFollowersReadAFewAtATime(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.Listening(true)
		followed := make(map[*Reply]StoredReply)
		for range 5 * readsAtOnce {
			elsewhere := storedReply(memory.StatusStreaming, "")
			svc.store.put(elsewhere)
			followed[svc.resume(t, elsewhere.ChatID, nil)] = elsewhere
		}
		synctest.Wait()
		var mu sync.Mutex
		reading, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			reading += by
			most = max(most, reading)
		}
		svc.store.setFind(func(context.Context) error {
			count(1)
			time.Sleep(time.Millisecond)
			count(-1)
			return nil
		})
		for _, elsewhere := range followed {
			elsewhere.Content = "All of it."
			svc.store.put(elsewhere)
		}
		svc.RepliesChanged()
		for reply := range followed {
			if got := readText(t, reply); got != "All of it." {
				t.Errorf("%q", got)
			}
		}
		synctest.Wait()
		if most != readsAtOnce {
			t.Errorf("%d read at the same time, want %d", most, readsAtOnce)
		}
	})
}

// Notifications may be lost, so a follower looks now and then all the same.
func TestLostNotificationsAreMadeUpFor(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.Listening(true)
		elsewhere := storedReply(memory.StatusStreaming, "")
		svc.store.put(elsewhere)
		reply := svc.resume(t, elsewhere.ChatID, nil)
		synctest.Wait()
		elsewhere.Content = "Nobody told."
		svc.store.put(elsewhere)
		begin := time.Now()
		if got := readText(t, reply); got != "Nobody told." || time.Since(begin) > pollWhileListening {
			t.Errorf("%q after %s", got, time.Since(begin))
		}
	})
}

// One reader that leaves does not take the other's follower along.
func TestFollowersAreShared(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		elsewhere := storedReply(memory.StatusStreaming, "One")
		svc.store.put(elsewhere)
		stays, leaves := svc.resume(t, elsewhere.ChatID, nil), svc.resume(t, elsewhere.ChatID, nil)
		leaves.Close()
		if len(svc.followers) != 1 {
			t.Errorf("%d followers", len(svc.followers))
		}
		elsewhere.Status, elsewhere.Content = memory.StatusComplete, "One two."
		svc.store.put(elsewhere)
		if text, end := readToEnd(t, stays); text != "One two." || end.Completed == nil {
			t.Errorf("%q, %+v", text, end)
		}
		synctest.Wait()
		if len(svc.followers) != 0 {
			t.Errorf("%d followers of a reply that has ended", len(svc.followers))
		}
	})
}

// A Postgres that stays away ends the waiting, but not the reply: its reader can come again.
func TestFollowersGiveUpWithoutAnEnd(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		elsewhere := storedReply(memory.StatusStreaming, "So far")
		svc.store.put(elsewhere)
		reply := svc.resume(t, elsewhere.ChatID, nil)
		svc.store.setFind(func(context.Context) error { return errReset })
		begin := time.Now()
		if got := readText(t, reply); got != "So far" {
			t.Errorf("%q", got)
		}
		if _, err := reply.Next(t.Context()); !errors.Is(err, streaming.ErrBroken) {
			t.Errorf("%v", err)
		}
		if waited := time.Since(begin); waited < svc.SavePatience || waited > svc.SavePatience+5*time.Second {
			t.Errorf("given up after %s", waited)
		}
	})
}
