package people

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Habits are how people talk. Shares are of 1.
type Habits struct {
	Pause        time.Duration // mean time from the end of a reply to the next message
	Away         time.Duration // how long someone whose reply did not come, or who lost the connection, stays away at most
	Patience     time.Duration // how long a person waits for a reply at most, before turning to another chat
	ChatsAtOnce  int
	TurnsPerChat int // mean number of turns before another chat begins
	Soon         int // after how many words at most a connection is lost or a reply stopped

	// Shares of the messages: whose reply is stopped, whose connection is lost, that are sent to two servers at once, whose
	// sender never comes back; and of steps in which an earlier message is sent again.
	Stop, Lose, Twice, Leave, Again float64
	// Shares of the replies after which a message is deleted, the chat is cleared, a memory edited, a topic changed, or
	// something is read: history, memory, chats, a search.
	Erase, Clear, Edit, Tend, Look float64
	// Shares of the messages that are sent in place of an earlier one, or ask for another reply to one, and of the replies
	// after which another version is selected.
	Revise, Choose float64
	// Spite is the share of steps in which a message is deleted, if there is one, while a memory or a summary of it is made.
	Spite float64
}

const (
	// answerWithin bounds requests without a stream.
	answerWithin = 8 * time.Second
	// leastTurns is after how many turns of a chat something is done with what there is.
	leastTurns = 3
)

// Person is a user, or one of a user's devices. A person talks in one chat at a time; when a reply does not come, the
// person goes on in another chat and comes back later.
type Person struct {
	kit.Client
	ID uuid.UUID
	Habits
	account *account
	system  *System
	record  *Record
	gauges  *Gauges
	dice    *rand.Rand
	chats   []*conversation
}

// conversation is a chat as its client sees it. Its person's goroutine owns it.
type conversation struct {
	id        uuid.UUID // uuid.Nil until the first message is acknowledged
	said      []*message
	last      *message // the path's, as it knows it
	cleared   int      // how many of them were said when the context was cleared
	erased    bool     // one of them may be deleted
	turns     int      // after which it is over
	waiting   *message // sent, and its reply has not ended yet
	since     time.Time
	server    string // asked last for the reply
	cursor    string
	abandoned bool // its client does not come back
}

// NewPerson makes a user. The choices follow from the seed and the number.
func (s *System) NewPerson(ctx context.Context, r *Record, g *Gauges, h Habits, seed uint64, number int) (*Person, error) {
	id, token, err := kit.NewUser(ctx, s.Admin)
	return &Person{
		Client: kit.Client{HTTP: s.HTTP, Token: token}, ID: id, Habits: h, account: &account{id: id, token: token},
		system: s, record: r, gauges: g, dice: newDice(seed, number),
	}, err
}

// Device returns another device of the same user.
func (p *Person) Device(seed uint64, number int) *Person {
	other := *p
	other.dice = newDice(seed, number)
	return &other
}

// Live talks until stopping ends; then it waits for the replies that are due, until ctx ends.
func (p *Person) Live(ctx, stopping context.Context) {
	_ = kit.Sleep(stopping, upTo(p.dice, 2*p.Pause)) // they do not all begin at once
	for stopping.Err() == nil && ctx.Err() == nil {
		p.step(ctx)
		pause := upTo(p.dice, p.Away)
		if !p.Waits() { // some answer at once, few think for long
			pause = min(time.Duration(p.dice.ExpFloat64()*float64(p.Pause)), 6*p.Pause)
		}
		_ = kit.Sleep(stopping, pause)
	}
	p.finish(ctx)
}

func (p *Person) happens(share float64) bool { return p.dice.Float64() < share }

func (p *Person) step(ctx context.Context) {
	p.follow()
	if p.happens(p.Spite) {
		if chat, m := p.beingRead(); m != nil {
			p.erase(ctx, chat, m, false)
			return
		}
	}
	chat := p.chooseChat()
	if chat.waiting == nil {
		if len(chat.said) > 0 && p.happens(p.Again) {
			p.readAgain(ctx, chat)
			return
		}
		if !p.happens(p.Revise) || len(chat.said) == 0 || !p.revise(chat) {
			p.send(chat, message{parent: chat.last})
		}
	}
	p.goOn(ctx, chat)
	if chat.waiting == nil && len(chat.said) >= leastTurns {
		p.afterReply(ctx, chat)
	}
}

func (p *Person) send(chat *conversation, m message) {
	m.user, m.place = p.ID, len(chat.said)
	chat.waiting, chat.since = p.record.send(m), time.Now()
	chat.said = append(chat.said, chat.waiting)
	p.record.lead(chat.said, chat.last, chat.waiting)
	p.gauges.Count(Turns, 1)
}

func (p *Person) chooseChat() *conversation {
	p.chats = slices.DeleteFunc(p.chats, func(c *conversation) bool {
		return c.abandoned || c.waiting == nil && len(c.said) >= c.turns
	})
	if n := p.dice.IntN(p.ChatsAtOnce); n < len(p.chats) {
		return p.chats[n]
	}
	chat := &conversation{turns: 1 + p.dice.IntN(2*p.TurnsPerChat)}
	p.chats = append(p.chats, chat)
	return chat
}

// afterReply sometimes does something with the chat: right after a reply, when a fold may have just begun.
func (p *Person) afterReply(ctx context.Context, chat *conversation) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	dice := p.dice.Float64()
	is := func(share float64) bool { dice -= share; return dice < 0 }
	switch {
	case is(p.Erase):
		p.erase(ctx, chat, chat.said[p.dice.IntN(len(chat.said))], p.dice.IntN(2) == 0)
	case is(p.Choose):
		p.choose(ctx, chat)
	case is(p.Clear):
		chat.cleared = len(chat.said)
		p.ask(ctx, http.MethodPost, "/v1/chats/"+chat.id.String()+"/clear", nil, nil)
	case is(p.Edit), p.Edit > 0 && p.record.Talk.isDeciding():
		p.editMemory(ctx)
	case is(p.Tend):
		p.tendTopics(ctx, chat)
	case is(p.Look):
		p.look(ctx, chat)
	}
}

// goOn sends the waiting message, or resumes its reply, for as long as the person has patience.
func (p *Person) goOn(ctx context.Context, chat *conversation) {
	m, here := chat.waiting, p.next(chat)
	ctx, cancel := context.WithTimeout(ctx, p.Patience/4+upTo(p.dice, p.Patience*3/4))
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	var enough func(int) bool
	after, there := 1+p.dice.IntN(p.Soon), p.other(here)
	dice := p.dice.Float64()
	is := func(share float64) bool { dice -= share; return dice < 0 }
	switch {
	case is(p.Stop): // wherever the reply runs
		enough = func(deltas int) bool {
			if deltas == after {
				wait.Go(func() { p.stop(ctx, there, m) })
			}
			return false
		}
	case is(p.Lose):
		enough = func(deltas int) bool {
			if deltas == after {
				p.gauges.Count(Drops, 1)
			}
			return deltas >= after
		}
	case is(p.Twice):
		p.gauges.Count(Repeats, 1)
		id := chat.id
		wait.Go(func() { p.post(ctx, attempt{m: m, chat: id, server: there}) })
	case is(p.Leave):
		enough = func(int) bool { chat.abandoned = true; return true }
	}
	p.try(ctx, here, chat, enough)
}

// next returns the server to ask: any, or another one than before.
func (p *Person) next(chat *conversation) string {
	if chat.server != "" {
		return p.other(chat.server)
	}
	return p.anyServer()
}

func (p *Person) anyServer() string {
	servers := p.system.Servers()
	return servers[p.dice.IntN(len(servers))]
}

func (p *Person) other(than string) string {
	servers := p.system.Servers()
	return servers[(slices.Index(servers, than)+1)%len(servers)]
}

func (p *Person) try(ctx context.Context, server string, chat *conversation, enough func(int) bool) {
	a := attempt{m: chat.waiting, chat: chat.id, server: server, cursor: chat.cursor, enough: enough}
	chat.server = server
	var settled bool
	if chat.cursor != "" && chat.id != uuid.Nil && p.dice.IntN(2) == 0 {
		settled, chat.cursor = p.resume(ctx, a)
	} else {
		p.gauges.Count(Repeats, btoi(chat.cursor != ""))
		settled, chat.cursor = p.post(ctx, a)
	}
	chat.abandoned = chat.abandoned || chat.cursor == goneChat
	if id, ok, _ := p.record.whereabouts(a.m); ok {
		chat.id, chat.last = id, a.m
		p.record.lead(chat.said, a.m)
	}
	if settled {
		chat.waiting, chat.server, chat.cursor = nil, "", ""
		p.gauges.took(TurnTime, time.Since(chat.since))
	}
}

// stop cancels a reply; its stream shows whether it was.
func (p *Person) stop(ctx context.Context, server string, m *message) {
	id, ok, _ := p.record.whereabouts(m)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	p.gauges.Count(Cancels, 1)
	_ = p.callAt(ctx, server, http.MethodPost, "/v1/message/"+id.String()+"/cancel", nil, nil) // see above
}

// beingRead returns a message, or nil, of which a memory or a summary is about to be stored, which must not outlive it. None of a chat
// where a message is sent that replaces another one, for which that has to be there.
func (p *Person) beingRead() (*conversation, *message) {
	for _, chat := range p.chats {
		if chat.waiting != nil && chat.waiting.replaces != uuid.Nil {
			continue
		}
		for _, m := range chat.said {
			if m != chat.waiting && p.record.Talk.isRead(m.number) {
				return chat, m
			}
		}
	}
	return nil, nil
}

// erase deletes a message, or the reply to it.
func (p *Person) erase(ctx context.Context, chat *conversation, m *message, itsReply bool) {
	id, state := p.record.deletable(m, itsReply)
	if state == nil {
		return
	}
	chat.erased = true
	p.record.deleting(state, asked)
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := p.Call(ctx, http.MethodDelete, "/v1/messages/"+id.String(), nil, nil)
	refusal, refused := errors.AsType[*RefusedError](err)
	switch {
	case err == nil:
		p.record.deleting(state, done)
	case !refused || refusal.Code == "" || refusal.Code == fault.NotReady:
		return // unknown: it may be deleted or not
	case refusal.Code == fault.GenerationInProgress, refusal.Code == fault.ShuttingDown:
		p.record.deleting(state, untouched)
	default:
		p.complain("deleting %s answers %v", id, err)
	}
}

// readAgain sends a message again whose reply has ended: the same reply must come.
func (p *Person) readAgain(ctx context.Context, chat *conversation) {
	m := chat.said[p.dice.IntN(len(chat.said))]
	if _, state := p.record.deletable(m, false); state == nil {
		return // it or its reply was deleted
	}
	ctx, cancel := context.WithTimeout(ctx, p.Patience)
	defer cancel()
	p.gauges.Count(Repeats, 1)
	p.post(ctx, attempt{m: m, chat: chat.id, server: p.anyServer(), again: true})
}

// finish waits for the reply of every waiting message. Only ctx bounds it.
func (p *Person) finish(ctx context.Context) {
	p.follow()
	for _, chat := range p.chats {
		for chat.waiting != nil && !chat.abandoned && ctx.Err() == nil && !p.record.hasLeft(p.ID) {
			p.try(ctx, p.next(chat), chat, nil)
			if chat.waiting != nil {
				_ = kit.Sleep(ctx, upTo(p.dice, p.Away))
			}
		}
	}
	p.follow()
}

// Greet sends one more message in every chat, and returns what the model was shown with each.
func (p *Person) Greet(ctx context.Context) (prompts []Prompt) {
	var said []*message
	for _, chat := range p.chats {
		if !chat.abandoned && chat.id != uuid.Nil {
			p.send(chat, message{parent: chat.last})
			said = append(said, chat.waiting)
		}
	}
	p.finish(ctx)
	for _, m := range said {
		prompts = append(prompts, Prompt{m.clientID, p.record.Talk.Shown(m.number)})
	}
	return prompts
}

// Waits reports whether a message has no final reply yet.
func (p *Person) Waits() bool {
	return slices.ContainsFunc(p.chats, func(c *conversation) bool { return c.waiting != nil && !c.abandoned })
}

// look reads as an app does: a page of history, the memories, the chats, or the results of a search.
func (p *Person) look(ctx context.Context, chat *conversation) {
	at := "/v1/chats/" + chat.id.String()
	paths := []string{
		at + "/messages?limit=20", at + "/memory", "/v1/chats?limit=20", "/v1/memories?limit=20", at + "/topics",
		"/v1/search?limit=10&q=" + url.QueryEscape(one(p.dice, things)+" "+one(p.dice, p.record.Talk.Subjects.Words)),
	}
	began := time.Now()
	if p.ask(ctx, http.MethodGet, one(p.dice, paths), nil, nil) {
		p.gauges.Count(Reads, 1)
		p.gauges.took(ReadTime, time.Since(began))
	}
}

// editMemory changes a town that the user is remembered for, often while a model is deciding on it.
func (p *Person) editMemory(ctx context.Context) {
	var listed struct {
		Memories []struct {
			ID, Content string
			Edited      bool
		}
	}
	if !p.ask(ctx, http.MethodGet, "/v1/memories?limit=100&status=active", nil, &listed) {
		return
	}
	for _, m := range listed.Memories {
		if !m.Edited && inTown.MatchString(m.Content) {
			content := strings.TrimSuffix(m.Content, ".") + ", near the river."
			_ = p.Call(ctx, http.MethodPatch, "/v1/memories/"+m.ID, map[string]string{"content": content}, nil) // the checks see what came of it
			return
		}
	}
}

// tendTopics renames, rates, tags or merges topics of a chat, or reads one, as their user may at any time.
func (p *Person) tendTopics(ctx context.Context, chat *conversation) {
	path := "/v1/chats/" + chat.id.String() + "/topics"
	var listed struct {
		Topics []struct {
			ID    uuid.UUID
			State string
		}
	}
	if !p.ask(ctx, http.MethodGet, path, nil, &listed) || len(listed.Topics) == 0 {
		return
	}
	topic := listed.Topics[p.dice.IntN(len(listed.Topics))]
	other := listed.Topics[p.dice.IntN(len(listed.Topics))]
	at := path + "/" + topic.ID.String()
	switch dice := p.dice.IntN(100); {
	case dice < 15:
		p.ask(ctx, http.MethodPatch, at, map[string]any{"title": "What matters most"}, nil)
	case dice < 30:
		p.ask(ctx, http.MethodPatch, at, map[string]any{"importance": p.dice.Float64(), "tags": []string{"work"}}, nil)
	case dice < 45:
		if id, state := p.record.deletable(chat.said[p.dice.IntN(len(chat.said))], true); state != nil {
			p.ask(ctx, http.MethodPost, "/v1/messages/"+id.String()+"/feedback", map[string]any{"rating": p.dice.IntN(3) - 1}, nil)
		}
	case dice < 60 && topic.ID != other.ID && topic.State != "merged" && other.State != "merged":
		p.ask(ctx, http.MethodPost, at+"/merge", map[string]any{"into": other.ID}, nil)
	case dice < 80:
		p.ask(ctx, http.MethodGet, at+"/history?include_compressed=true", nil, nil)
	default:
		p.ask(ctx, http.MethodGet, path+"/current/context", nil, nil)
	}
}

// changedRefusals are what may be answered of something that has changed since it was listed: it was deleted, or merged.
var changedRefusals = map[fault.Code]bool{fault.TopicNotFound: true, fault.ValidationFailed: true, fault.MessageNotFound: true}

// ask sends a request to any server and reports whether it was answered. A refusal that nothing explains is recorded.
func (p *Person) ask(ctx context.Context, method, path string, body, answer any) bool {
	err := p.Call(ctx, method, path, body, answer)
	if err == nil {
		return true
	}
	place, _, _ := strings.Cut(path, "?")
	refusal, refused := errors.AsType[*RefusedError](err)
	switch {
	case ctx.Err() != nil:
	case !refused:
		p.record.fail("no answer")
	case refusal.Code == "" || patientCodes[refusal.Code]:
		p.record.fail(refusal.Error())
	case !changedRefusals[refusal.Code]:
		p.complain("%s", fmt.Sprintf("%s %s answers %v", method, place, err))
	}
	return false
}
