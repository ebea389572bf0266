package chat

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
)

func (svc *testService) resume(t *testing.T, chatID uuid.UUID, cursor *Cursor) *Reply {
	reply, err := svc.Resume(t.Context(), ada, chatID, cursor)
	require.NoError(t, err, "resume")
	t.Cleanup(reply.Close)
	return reply
}

// followed stores a reply of another server, and joins it.
func (svc *testService) followed(t *testing.T, text string, cursor *Cursor) (StoredReply, *Reply) {
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
				assert.Truef(t, text == "só far" && reply.Started.Offset == 5 && reply.Started.Resumed && end.Name() == c.event && failureCode(end) == c.code,
					"%q, %+v, %+v", text, reply.Started, end)
				assert.Truef(t, end.Completed == nil || (end.Completed.ContentLength == 11 && end.Completed.FinishReason != "" && len(end.Completed.Memory) != 0),
					"%+v", end.Completed)
				assert.Truef(t, end.Cancelled == nil || end.Cancelled.ContentLength == 11, "%+v", end.Cancelled)
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
			assert.Truef(t, text == c.text && c.reply.Started.Offset == c.offset && end.Completed != nil,
				"%q at %d, %+v", text, c.reply.Started.Offset, end)
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
				require.NoError(t, reply.WaitOpen(t.Context()))
				time.Sleep(time.Minute) // of the synthetic clock: it is waited for as long as it takes
				c.play(svc, elsewhere)
				begin := time.Now()
				text, end := readToEnd(t, reply)
				assert.Truef(t, text == c.text && end.Name() == c.end && failureCode(end) == c.code, "%q, %+v", text, end)
				waited := time.Since(begin)
				assert.Truef(t, waited <= pollOtherwise, "noticed after %s", waited)
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
		text, end := readToEnd(t, reply)
		assert.Truef(t, text == "Made elsewhere." && end.Completed != nil, "%q, %+v", text, end)
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
	chunk, err := reply.Next(t.Context())
	require.Truef(t, err == nil && chunk.End == nil, "%+v, %v", chunk, err)
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
		assert.Equal(t, "Größe", readText(t, whole))
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
		waited := time.Since(begin)
		assert.Truef(t, waited == 0 && looks == 1, "read after %s with %d looks", waited, looks)
		elsewhere.Status = memory.StatusComplete
		svc.store.put(elsewhere)
		svc.RepliesChanged()
		_, end := readToEnd(t, whole)
		assert.Truef(t, end.Completed != nil && end.Completed.ContentLength == 18, "%+v", end)
		_, end = readToEnd(t, rest)
		assert.Truef(t, end.Completed != nil, "%+v", end)
	})
}

// A notification for many replies wakes all of their followers, and they read in turn.
// A server is killed that had told a reader more than it recorded, and another one goes on with the reply in its row: the reader is not told
// the middle of other words. Who has no more than was recorded reads on.
func TestFollowersOfAReplyThatIsBegunAnew(t *testing.T) {
	t.Parallel()
	for has, code := range map[int]fault.Code{9: "", 10: fault.Interrupted} {
		inService(t, func(t *testing.T, svc *testService) {
			elsewhere := storedReply(memory.StatusStreaming, "Recorded.")
			elsewhere.Server = uuid.New()
			svc.store.put(elsewhere)
			reply := svc.resume(t, elsewhere.ChatID, &Cursor{MessageID: elsewhere.MessageID, After: has})
			elsewhere.Server, elsewhere.Content = uuid.New(), "Recorded. Other words."
			svc.store.put(elsewhere)
			time.Sleep(pollWhileListening)
			synctest.Wait()
			elsewhere.Status = memory.StatusComplete
			svc.store.put(elsewhere)
			text, end := readToEnd(t, reply)
			assert.Equal(t, code, failureCode(end))
			assert.Equal(t, map[fault.Code]string{"": " Other words."}[code], text)
		})
	}
}

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
			assert.Equal(t, "All of it.", readText(t, reply))
		}
		synctest.Wait()
		assert.Truef(t, most == readsAtOnce, "%d read at the same time, want %d", most, readsAtOnce)
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
		assert.Truef(t, len(svc.followers) == 1, "%d followers", len(svc.followers))
		elsewhere.Status, elsewhere.Content = memory.StatusComplete, "One two."
		svc.store.put(elsewhere)
		text, end := readToEnd(t, stays)
		assert.Truef(t, text == "One two." && end.Completed != nil, "%q, %+v", text, end)
		synctest.Wait()
		assert.Truef(t, len(svc.followers) == 0, "%d followers of a reply that has ended", len(svc.followers))
	})
}

// A Postgres that stays away ends the waiting, but not the reply: its reader can come again.
func TestFollowersGiveUpWithoutAnEnd(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		_, reply := svc.followed(t, "So far", nil)
		svc.store.setFind(func(context.Context) error { return errReset })
		begin := time.Now()
		assert.Equal(t, "So far", readText(t, reply))
		_, err := reply.Next(t.Context())
		assert.ErrorIsf(t, err, streaming.ErrBroken, "%v", err)
		waited := time.Since(begin)
		assert.Truef(t, waited >= svc.SavePatience && waited <= svc.SavePatience+5*time.Second, "given up after %s", waited)
	})
}
