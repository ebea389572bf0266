package chat

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
)

func (svc *testService) resume(t *testing.T, chatID uuid.UUID, cursor *Cursor) *Reply {
	t.Helper()
	reply, err := svc.Resume(t.Context(), ada, chatID, cursor)
	if err != nil {
		t.Fatalf("resume: %v", err)
	}
	t.Cleanup(reply.Close)
	return reply
}

// followed stores a reply of another server, and joins it.
func (svc *testService) followed(t *testing.T, text string, cursor *Cursor) (StoredReply, *Reply) {
	t.Helper()
	elsewhere := storedReply(memory.StatusStreaming, text)
	svc.store.put(elsewhere)
	return elsewhere, svc.resume(t, elsewhere.ChatID, cursor)
}

// A reply that has ended is replayed with the terminal event of its status, however long ago it ended.
func TestResumeOfAnEndedReply(t *testing.T) {
	t.Parallel()
	usage := streaming.Usage{InputTokens: 5}
	for _, c := range []struct {
		status   memory.Status
		metadata ReplyMetadata
		event    string
		code     fault.Code
	}{
		{memory.StatusComplete, ReplyMetadata{FinishReason: "length", Usage: &usage, Memory: &prompt.Receipt{TailTurns: 2}}, streaming.EventCompleted, ""},
		{memory.StatusComplete, ReplyMetadata{}, streaming.EventCompleted, ""}, // a row that another program wrote
		{memory.StatusCancelled, ReplyMetadata{}, streaming.EventCancelled, ""},
		{memory.StatusInterrupted, ReplyMetadata{}, streaming.EventFailed, fault.Interrupted},
		{memory.StatusFailed, ReplyMetadata{Failure: &Failure{Code: "upstream_timeout", Message: "Too late."}}, streaming.EventFailed, fault.UpstreamTimeout},
	} {
		t.Run(string(c.status), func(t *testing.T) {
			t.Parallel()
			inService(t, func(t *testing.T, svc *testService) {
				stored := storedReply(c.status, "Said só far")
				stored.Metadata = c.metadata
				svc.store.put(stored)
				reply := svc.resume(t, stored.ChatID, &Cursor{MessageID: stored.MessageID, After: 5})
				text, end := readToEnd(t, reply)
				if text != "só far" || reply.Started.Offset != 5 || !reply.Started.Resumed || end.Name() != c.event || failureCode(end) != c.code {
					t.Errorf("%q, %+v, %+v", text, reply.Started, end)
				}
				if end.Completed != nil && (end.Completed.ContentLength != 11 || end.Completed.FinishReason == "" || len(end.Completed.Memory) == 0) {
					t.Errorf("%+v", end.Completed)
				}
				if end.Cancelled != nil && end.Cancelled.ContentLength != 11 {
					t.Errorf("%+v", end.Cancelled)
				}
			})
		})
	}
}

func TestResumeWithNothingToStream(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		stored := storedReply(memory.StatusComplete, "Done.")
		svc.store.put(stored)
		for name, cursor := range map[string]*Cursor{"no cursor": nil, "the end": {End: true}, "the end of this reply": {MessageID: stored.MessageID, End: true}} {
			if _, err := svc.Resume(t.Context(), ada, stored.ChatID, cursor); !errors.Is(err, ErrNothingToStream) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := svc.Resume(t.Context(), ada, stored.ChatID, &Cursor{MessageID: uuid.New()})
		wantFault(t, err, fault.MessageNotFound)
		_, err = svc.Resume(t.Context(), ada, uuid.New(), nil)
		wantFault(t, err, fault.ChatNotFound)
		_, err = svc.Resume(t.Context(), ada, uuid.New(), &Cursor{})
		wantFault(t, err, fault.ChatNotFound)
	})
}

func TestResumeOfARunningReply(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		first := svc.send(t, Message{Content: "Hello."})
		script.emit("One two ")
		synctest.Wait()
		follower := svc.resume(t, first.Started.ChatID, nil)
		behind := svc.resume(t, first.Started.ChatID, &Cursor{After: 4})
		ahead := svc.resume(t, first.Started.ChatID, &Cursor{After: 100})
		script.emit("three.")
		script.finish()
		for _, c := range []struct {
			reply  *Reply
			text   string
			offset int
		}{{follower, "One two three.", 0}, {behind, "two three.", 4}, {ahead, "three.", 8}} {
			text, end := readToEnd(t, c.reply)
			if text != c.text || c.reply.Started.Offset != c.offset || end.Completed == nil {
				t.Errorf("%q at %d, %+v", text, c.reply.Started.Offset, end)
			}
		}
	})
}

// A reply that another server makes is looked up until it is stored.
func TestResumeOfAReplyMadeElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		play func(*testService, StoredReply)
		text string
		end  string
		code fault.Code
	}{
		{"it ends", func(svc *testService, r StoredReply) {
			r.Status, r.Content = memory.StatusComplete, "Made elsewhere."
			svc.store.put(r)
		}, "elsewhere.", streaming.EventCompleted, ""},
		{"its server dies", func(svc *testService, r StoredReply) {
			r.Status, r.Content = memory.StatusInterrupted, "Made e"
			svc.store.put(r)
		}, "e", streaming.EventFailed, fault.Interrupted},
		{"it is deleted", func(svc *testService, r StoredReply) {
			other := storedReply(memory.StatusComplete, "")
			other.ChatID = r.ChatID
			svc.store.put(other)
			svc.store.remove(r.MessageID)
		}, "", streaming.EventFailed, fault.MessageNotFound},
		{"its chat is deleted", func(svc *testService, r StoredReply) { svc.store.remove(r.MessageID) }, "", streaming.EventFailed, fault.MessageNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inService(t, func(t *testing.T, svc *testService) {
				elsewhere, reply := svc.followed(t, "", &Cursor{After: 5})
				if err := reply.WaitOpen(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // of the synthetic clock: it is waited for as long as it takes
				c.play(svc, elsewhere)
				begin := time.Now()
				text, end := readToEnd(t, reply)
				if text != c.text || end.Name() != c.end || failureCode(end) != c.code {
					t.Errorf("%q, %+v", text, end)
				}
				if waited := time.Since(begin); waited > pollOtherwise {
					t.Errorf("noticed after %s", waited)
				}
			})
		})
	}
}

func TestFollowingSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		elsewhere, reply := svc.followed(t, "", nil)
		back := time.Now().Add(10 * time.Second)
		svc.store.setFind(func(context.Context) error {
			if time.Now().Before(back) {
				return errReset
			}
			return nil
		})
		elsewhere.Status, elsewhere.Content = memory.StatusComplete, "Made elsewhere."
		svc.store.put(elsewhere)
		if text, end := readToEnd(t, reply); text != "Made elsewhere." || end.Completed == nil {
			t.Errorf("%q, %+v", text, end)
		}
	})
}

// A reader that leaves takes its watcher along: the synthetic clock would find it.
func TestClosedFollowerIsNoLongerServed(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		_, reply := svc.followed(t, "", nil)
		synctest.Wait()
		reply.Close()
		svc.store.setFind(func(context.Context) error { t.Error("still looked up"); return nil })
		time.Sleep(time.Minute) // of the synthetic clock
	})
}

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
		elsewhere, reply := svc.followed(t, "", nil)
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
		_, reply := svc.followed(t, "So far", nil)
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
