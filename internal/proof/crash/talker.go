package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

const (
	chatsAtOnce = 4
	// turnsPerChat is the number of messages after which a new chat begins.
	turnsPerChat = 24
	// patience is how long a user waits for a reply at most, before turning to another chat.
	patience = 3 * time.Second
	// answerWithin bounds requests without a stream.
	answerWithin = 8 * time.Second
	longestPause = 100 * time.Millisecond
)

// conversation is a chat as its client sees it. Its talker's goroutine owns it.
type conversation struct {
	id        uuid.UUID // uuid.Nil until the first message is acknowledged
	said      []*message
	waiting   *message // sent, and its reply has not ended yet
	cursor    string
	abandoned bool // its client does not come back
}

// talker is one device of a user. It talks in several chats, one at a time; when a reply does not come it goes on
// in another chat and comes back later.
type talker struct {
	client
	user    uuid.UUID
	chance  *rand.Rand
	servers func() []string  // where the API is now
	isRead  func(n int) bool // whether a memory or a topic's summary is being made of a message
	decides func() bool      // whether a memory is about to be superseded
	chats   []*conversation
}

// talk talks until stopping ends; then it waits for the replies that are due, until ctx ends.
func (t *talker) talk(ctx, stopping context.Context) {
	for stopping.Err() == nil {
		t.step(ctx)
		_ = kit.Sleep(ctx, t.upTo(longestPause))
	}
	t.finish(ctx)
}

func (t *talker) step(ctx context.Context) {
	if m := t.beingRead(); m != nil && t.chance.IntN(3) == 0 {
		t.erase(ctx, m, false)
		return
	}
	chat := t.chooseChat()
	if chat.waiting == nil {
		if t.chance.IntN(100) < 6 && len(chat.said) > 0 {
			t.readAgain(ctx, chat)
			return
		}
		chat.waiting = t.record.send(t.user, len(chat.said))
		chat.said = append(chat.said, chat.waiting)
	}
	t.goOn(ctx, chat)
	if chat.waiting == nil && len(chat.said) > 2 {
		t.afterReply(ctx, chat)
	}
}

// afterReply sometimes deletes a message, clears the chat or changes a topic: right after a reply, when a fold may have just begun.
func (t *talker) afterReply(ctx context.Context, chat *conversation) {
	switch dice := t.chance.IntN(100); {
	case dice < 10:
		t.remove(ctx, chat)
	case dice < 15:
		t.clear(ctx, chat)
	case dice < 20, t.decides():
		t.editMemory(ctx)
	case dice < 35:
		t.tendTopics(ctx, chat)
	}
}

// chooseChat returns a chat to talk in, sometimes a new one.
func (t *talker) chooseChat() *conversation {
	t.chats = slices.DeleteFunc(t.chats, func(c *conversation) bool {
		return c.abandoned || c.waiting == nil && len(c.said) >= turnsPerChat
	})
	if n := t.chance.IntN(chatsAtOnce); n < len(t.chats) {
		return t.chats[n]
	}
	chat := &conversation{}
	t.chats = append(t.chats, chat)
	return chat
}

// goOn sends the waiting message, or resumes its reply, for as long as the user has patience.
func (t *talker) goOn(ctx context.Context, chat *conversation) {
	servers := t.servers()
	at := t.chance.IntN(len(servers))
	here, there, m := servers[at], servers[len(servers)-1-at], chat.waiting
	ctx, cancel := context.WithTimeout(ctx, patience/4+t.upTo(patience*3/4))
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	var onDelta deltaFunc
	switch dice := t.chance.IntN(100); {
	case dice < 8: // stops the reply, wherever it runs
		after := 1 + t.chance.IntN(8)
		onDelta = func(deltas int) bool {
			if deltas == after {
				wait.Go(func() { t.cancel(ctx, there, m) })
			}
			return true
		}
	case dice < 20: // loses the connection
		after := 1 + t.chance.IntN(12)
		onDelta = func(deltas int) bool { return deltas < after }
	case dice < 30: // taps twice
		id := chat.id
		wait.Go(func() { t.post(ctx, there, m, id, "", nil) })
	case dice < 34: // never comes back
		onDelta = func(int) bool { chat.abandoned = true; return false }
	}
	t.try(ctx, here, chat, onDelta)
}

// try makes one attempt and updates the chat.
func (t *talker) try(ctx context.Context, server string, chat *conversation, onDelta deltaFunc) {
	m := chat.waiting
	var settled bool
	if chat.cursor != "" && chat.id != uuid.Nil && t.chance.IntN(2) == 0 {
		settled, chat.cursor = t.resume(ctx, server, m, chat.id, chat.cursor, onDelta)
	} else {
		settled, chat.cursor = t.post(ctx, server, m, chat.id, chat.cursor, onDelta)
	}
	if id, ok := t.record.chatOf(m); ok && chat.id == uuid.Nil {
		chat.id = id
	}
	if settled {
		chat.waiting, chat.cursor = nil, ""
	}
}

func (t *talker) cancel(ctx context.Context, server string, m *message) {
	id, ok := t.record.chatOf(m)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	_, _ = t.call(ctx, server, http.MethodPost, "/v1/message/"+id.String()+"/cancel") // the stream shows whether it was cancelled
}

// remove deletes a message, or the reply to it. A brief that covers it must be rebuilt.
func (t *talker) remove(ctx context.Context, chat *conversation) {
	t.erase(ctx, chat.said[t.chance.IntN(len(chat.said))], t.chance.IntN(2) == 0)
}

// beingRead returns a message of which a memory or a topic's summary is about to be stored; nil if there is none. What it says
// must not outlive it.
func (t *talker) beingRead() *message {
	for _, chat := range t.chats {
		for _, m := range chat.said {
			if m != chat.waiting && t.isRead(m.number) {
				return m
			}
		}
	}
	return nil
}

func (t *talker) erase(ctx context.Context, m *message, itsReply bool) {
	id, state := t.record.deletable(m, itsReply)
	if state == nil {
		return
	}
	t.record.deleting(state, asked)
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	code, err := t.call(ctx, t.anyServer(), http.MethodDelete, "/v1/messages/"+id.String())
	switch {
	case err != nil || code == fault.NotReady:
		return // unknown: it may be deleted or not
	case code == "":
		t.record.deleting(state, done)
	case code == fault.GenerationInProgress, code == fault.ShuttingDown:
		t.record.deleting(state, untouched)
	default:
		t.record.complain("deleting %s answers %s", id, code)
	}
}

func (t *talker) clear(ctx context.Context, chat *conversation) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	code, err := t.call(ctx, t.anyServer(), http.MethodPost, "/v1/chats/"+chat.id.String()+"/clear")
	switch {
	case err != nil || patientCodes[code]:
	case code != "":
		t.record.complain("clearing %s answers %s", chat.id, code)
	}
}

// readAgain sends a message again whose reply has ended: the same reply must come.
func (t *talker) readAgain(ctx context.Context, chat *conversation) {
	m := chat.said[t.chance.IntN(len(chat.said))]
	if _, state := t.record.deletable(m, false); state == nil {
		return // it or its reply was deleted
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.post(ctx, t.anyServer(), m, chat.id, "", nil)
}

// finish waits for the reply of every waiting message. Only ctx bounds it.
func (t *talker) finish(ctx context.Context) {
	for _, chat := range t.chats {
		for chat.waiting != nil && !chat.abandoned && ctx.Err() == nil {
			t.try(ctx, t.anyServer(), chat, nil)
			_ = kit.Sleep(ctx, longestPause)
		}
	}
}

// greet sends one more message in every chat and returns the messages.
func (t *talker) greet(ctx context.Context) (said []*message) {
	for _, chat := range t.chats {
		if chat.abandoned || chat.id == uuid.Nil {
			continue
		}
		chat.waiting = t.record.send(t.user, len(chat.said))
		chat.said = append(chat.said, chat.waiting)
		said = append(said, chat.waiting)
	}
	t.finish(ctx)
	return said
}

// waits reports whether a message has no final reply yet.
func (t *talker) waits() bool {
	return slices.ContainsFunc(t.chats, func(c *conversation) bool { return c.waiting != nil && !c.abandoned })
}

func (t *talker) anyServer() string {
	servers := t.servers()
	return servers[t.chance.IntN(len(servers))]
}

func (t *talker) upTo(most time.Duration) time.Duration {
	return time.Duration(t.chance.Int64N(int64(most)))
}
