package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

// habits is how people talk. Shares are of one.
type habits struct {
	pause                      time.Duration // mean time from the end of a reply to the next message
	turnsPerChat               int           // mean number of turns before somebody begins another chat
	long, article, files       float64       // shares of turns that want a long reply, paste an article, bring files
	drop, cancel               float64       // shares of turns whose client is gone in mid stream, or stops the reply
	impatient, again, lookBack float64       // shares sent twice at once, sent again after the end, followed by reading
}

var ordinary = habits{
	pause: 8 * time.Second, turnsPerChat: 40, long: .15, article: .05, files: .03,
	drop: .10, cancel: .03, impatient: .02, again: .02, lookBack: .20,
}

// person is somebody with a phone, who has one chat open at a time.
type person struct {
	caller
	habits
	id     uuid.UUID
	dice   *rand.Rand
	ledger *ledger
	chat   uuid.UUID // uuid.Nil before the first message of a chat
	left   int       // turns of this chat to come
}

// live talks until stopping is closed; what is being said then is heard to its end. ctx ends it at once.
func (p *person) live(ctx context.Context, stopping <-chan struct{}) {
	timer := time.NewTimer(upTo(p.dice, 2*p.pause)) // they do not all begin at once
	defer timer.Stop()
	for {
		select {
		case <-stopping:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		p.turn(ctx)
		if p.dice.Float64() < p.lookBack {
			p.look(ctx)
		}
		// Some answer at once, few think for long.
		timer.Reset(min(time.Duration(p.dice.ExpFloat64()*float64(p.pause)), 6*p.pause))
	}
}

// intent is what somebody means to do in one turn.
type intent struct {
	content string
	body    []byte
	client  uuid.UUID
	first   bool // the message begins a chat
	// Words after which the client is gone, or stops the reply; 0 for never.
	dropAfter, cancelAfter int
	impatient, again       bool
}

// turn sends one message and hears its reply.
func (p *person) turn(ctx context.Context) {
	if p.left == 0 {
		p.chat, p.left = uuid.Nil, 1+p.dice.IntN(2*p.turnsPerChat)
	}
	p.left--
	i := p.intend()
	h := &heard{gauges: p.gauges, asked: time.Now()}
	err := p.say(ctx, i, h)
	if err != nil && ctx.Err() == nil {
		p.gauges.fail(kindOf(err))
	}
	p.ledger.add(newTurn(p.id, i.client, i.content, h))
	if h.started.ChatID != uuid.Nil {
		p.chat = h.started.ChatID
	}
	p.gauges.turns.Add(1)
	p.gauges.turnTime.add(time.Since(h.asked))
	p.gauges.memory.Add(int64(h.memory.Brief + h.memory.Bridge + h.memory.Tail))
	p.gauges.dropped.Add(int64(h.memory.Dropped))
}

// kindOf names a failure without what was said. Refusals were counted where they came.
func kindOf(err error) string {
	if _, ok := errors.AsType[*refused](err); ok {
		return "a turn given up"
	}
	if errors.Is(err, errCut) {
		return "a stream cut"
	}
	return "a turn that broke the contract: " + err.Error()
}

// intend makes up a message and what its sender will do.
func (p *person) intend() intent {
	words := 30 + p.dice.IntN(60)
	if p.dice.Float64() < p.long {
		words = 150 + p.dice.IntN(250)
	}
	said := prose(p.dice, 10+p.dice.IntN(25))
	if p.dice.Float64() < p.article {
		said = prose(p.dice, 600+p.dice.IntN(2400)) // under 32 000 characters
	}
	i := intent{content: fmt.Sprintf("%s What about the %s, in %d words?", said, one(p.dice, subjects), words), client: uuid.New()}
	body := map[string]any{"content": i.content, "client_message_id": i.client}
	if i.first = p.chat == uuid.Nil; !i.first {
		body["chat_id"] = p.chat
	}
	if p.dice.Float64() < p.files {
		body["files"] = p.attach()
		p.gauges.files.Add(1)
	}
	i.body, _ = json.Marshal(body) // strings and ids
	switch chance := p.dice.Float64(); {
	case chance < p.drop:
		i.dropAfter = 1 + p.dice.IntN(words)
	case chance < p.drop+p.cancel:
		i.cancelAfter = 1 + p.dice.IntN(words)
	case chance < p.drop+p.cancel+p.impatient:
		i.impatient = true
	case chance < p.drop+p.cancel+p.impatient+p.again:
		i.again = true
	}
	return i
}

func (p *person) attach() []map[string]string {
	files := make([]map[string]string, 1+p.dice.IntN(2))
	for n := range files {
		files[n] = map[string]string{
			"path":    fmt.Sprintf("notes/%s-%d.txt", one(p.dice, subjects), p.dice.IntN(100)),
			"content": strings.ReplaceAll(prose(p.dice, 200+p.dice.IntN(2000)), ". ", ".\n"),
		}
	}
	return files
}

// tries is how often a message is sent again after a failure before it is given up.
const tries = 4

// say does what was intended. After a failure the same message is sent again, to the other replica, as apps do.
func (p *person) say(ctx context.Context, i intent, h *heard) (err error) {
	replica := p.dice.IntN(len(p.replicas))
	for try := range tries {
		if try > 0 && sleep(ctx, time.Duration(try)*time.Second) != nil {
			return err
		}
		if err = p.once(ctx, i, (replica+try)%len(p.replicas), h); err == nil || h.end != "" || ctx.Err() != nil {
			return err
		}
		i.dropAfter, i.cancelAfter, i.impatient = 0, 0, false
	}
	return err
}

// post is the request that sends the message.
func (i intent) post(replica int, lastEventID string) request {
	path := "/v1/message"
	if i.first {
		path = "/v1/message/first"
	}
	return request{replica: replica, method: http.MethodPost, path: path, body: i.body, lastEventID: lastEventID}
}

func (p *person) once(ctx context.Context, i intent, replica int, h *heard) error {
	if i.impatient {
		p.gauges.repeats.Add(1)
		p.hurry(ctx, i, replica)
		h.joins = true
		replica = (replica + 1) % len(p.replicas)
	}
	enough := never
	switch {
	case i.dropAfter > 0:
		enough = func() bool { return h.words > i.dropAfter }
	case i.cancelAfter > 0:
		enough = func() bool { return h.words > i.cancelAfter }
	}
	if err := p.stream(ctx, i.post(replica, h.last), h, enough); err != nil {
		return err
	}
	switch {
	case h.end == "" && i.dropAfter > 0:
		return p.resume(ctx, i, (replica+1)%len(p.replicas), h)
	case h.end == "" && i.cancelAfter > 0:
		return p.stop(ctx, replica, h)
	case i.again:
		return p.repeat(ctx, i, (replica+1)%len(p.replicas), h)
	}
	return nil
}

// hurry sends the message and is gone before anything came back.
func (p *person) hurry(ctx context.Context, i intent, replica int) {
	ctx, cancel := context.WithTimeout(ctx, upTo(p.dice, 20*time.Millisecond))
	defer cancel()
	made, err := p.made(ctx, i.post(replica, ""))
	if err != nil {
		return
	}
	if response, err := p.http.Do(made); err == nil { //nolint:gosec // from loopback to loopback
		_ = response.Body.Close()
	}
}

// resume is gone for a while, and hears the rest on another replica: with the stream's own address, or as some
// libraries do by sending the message again with the place where it was cut.
func (p *person) resume(ctx context.Context, i intent, replica int, h *heard) error {
	p.gauges.drops.Add(1)
	if err := sleep(ctx, 200*time.Millisecond+upTo(p.dice, 2*time.Second)); err != nil {
		return err
	}
	h.elsewhere = true
	rest := request{replica: replica, method: http.MethodGet, path: "/v1/message/" + h.started.ChatID.String() + "/stream", lastEventID: h.last}
	if p.dice.IntN(3) == 0 {
		p.gauges.repeats.Add(1)
		rest = i.post(replica, h.last)
	}
	return p.stream(ctx, rest, h, never)
}

// stop cancels the reply on whichever replica it is told, and hears how it ended.
func (p *person) stop(ctx context.Context, replica int, h *heard) error {
	p.gauges.cancels.Add(1)
	path := "/v1/message/" + h.started.ChatID.String()
	if err := p.call(ctx, request{replica: p.dice.IntN(len(p.replicas)), method: http.MethodPost, path: path + "/cancel"}); err != nil {
		return err
	}
	return p.stream(ctx, request{replica: replica, method: http.MethodGet, path: path + "/stream", lastEventID: h.last}, h, never)
}

// repeat sends the message again after its end: the same reply must come.
func (p *person) repeat(ctx context.Context, i intent, replica int, h *heard) error {
	p.gauges.repeats.Add(1)
	again := &heard{gauges: &gauges{}, asked: time.Now()} // how late words are says nothing here
	if err := p.stream(ctx, i.post(replica, ""), again, never); err != nil {
		return err
	}
	if again.started.MessageID != h.started.MessageID || string(again.text) != string(h.text) {
		return errors.New("the same message sent again had another reply")
	}
	return nil
}

// look reads what an app shows: a page of history, what is remembered, the chats, or what a search finds.
func (p *person) look(ctx context.Context) {
	if p.chat == uuid.Nil {
		return
	}
	chat := "/v1/chats/" + p.chat.String()
	paths := []string{
		chat + "/messages?limit=20", chat + "/memory", "/v1/chats?limit=20",
		"/v1/search?limit=10&q=" + url.QueryEscape(one(p.dice, things)+" "+one(p.dice, subjects)),
	}
	began := time.Now()
	err := p.call(ctx, request{replica: p.dice.IntN(len(p.replicas)), method: http.MethodGet, path: one(p.dice, paths)})
	p.gauges.reads.Add(1)
	if err == nil {
		p.gauges.read.add(time.Since(began))
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
