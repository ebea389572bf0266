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

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// habits are how people talk. Shares are of 1.
type habits struct {
	pause                      time.Duration // mean time from the end of a reply to the next message
	turnsPerChat               int           // mean number of turns before a person begins another chat
	long, article, files       float64       // shares of turns that want a long reply, paste an article, bring files
	drop, cancel               float64       // shares of turns whose client disconnects in mid stream, or cancels the reply
	impatient, again, lookBack float64       // shares sent twice at once, sent again after the end, followed by reading
}

var ordinary = habits{
	pause: 8 * time.Second, turnsPerChat: 40, long: .15, article: .05, files: .03,
	drop: .10, cancel: .03, impatient: .02, again: .02, lookBack: .20,
}

// person is a user with one chat open at a time.
type person struct {
	caller
	habits
	id   uuid.UUID
	dice *rand.Rand
	chat uuid.UUID // uuid.Nil before the first message of a chat
	left int       // turns of this chat to come
}

// live talks until stopping is closed; the reply that streams then is read to its end. ctx ends it at once.
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

// intent is what a person does in one turn.
type intent struct {
	content string
	body    []byte
	client  uuid.UUID
	first   bool // the message begins a chat
	// Words after which the client disconnects, or cancels the reply; 0 for never.
	dropAfter, cancelAfter int
	impatient, again       bool
}

// turn sends one message and reads its reply.
func (p *person) turn(ctx context.Context) {
	if p.left == 0 {
		p.chat, p.left = uuid.Nil, 1+p.dice.IntN(2*p.turnsPerChat)
	}
	p.left--
	i := p.intend()
	r := &reply{gauges: p.gauges, asked: time.Now()}
	err := p.say(ctx, i, r)
	if err != nil && ctx.Err() == nil {
		p.gauges.fail(kindOf(err))
	}
	p.gauges.remember(newTurn(p.id, i.client, i.content, r))
	if r.Started.ChatID != uuid.Nil {
		p.chat = r.Started.ChatID
	}
	p.gauges.add(turnCount, 1)
	p.gauges.took(turnTime, time.Since(r.asked))
	p.gauges.add(memoryTokens, r.memory.Brief+r.memory.Bridge+r.memory.Tail)
	p.gauges.add(droppedTurns, r.memory.Dropped)
}

// kindOf names a failure, without content. Refusals were counted by the caller already.
func kindOf(err error) string {
	if _, ok := errors.AsType[*refused](err); ok {
		return "a turn given up"
	}
	if errors.Is(err, errCut) {
		return "a stream cut"
	}
	return "a turn that broke the contract: " + err.Error()
}

// intend chooses a message and what its sender does.
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
		p.gauges.add(fileCount, 1)
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

// say carries out an intent. After a failure it sends the same message again, to the other replica, as apps do.
func (p *person) say(ctx context.Context, i intent, r *reply) (err error) {
	replica := p.dice.IntN(len(p.replicas))
	for try := range tries {
		if try > 0 && kit.Sleep(ctx, time.Duration(try)*time.Second) != nil {
			return err
		}
		if err = p.attempt(ctx, i, (replica+try)%len(p.replicas), r); err == nil || r.End != "" || ctx.Err() != nil {
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

func (p *person) attempt(ctx context.Context, i intent, replica int, r *reply) error {
	if i.impatient {
		p.gauges.add(repeatCount, 1)
		p.sendAndLeave(ctx, i, replica)
		r.joins = true
		replica = (replica + 1) % len(p.replicas)
	}
	enough := never
	switch {
	case i.dropAfter > 0:
		enough = func() bool { return r.words > i.dropAfter }
	case i.cancelAfter > 0:
		enough = func() bool { return r.words > i.cancelAfter }
	}
	if err := p.stream(ctx, i.post(replica, r.LastEventID), r, enough); err != nil {
		return err
	}
	switch {
	case r.End == "" && i.dropAfter > 0:
		return p.resume(ctx, i, (replica+1)%len(p.replicas), r)
	case r.End == "" && i.cancelAfter > 0:
		return p.stop(ctx, replica, r)
	case i.again:
		return p.repeat(ctx, i, (replica+1)%len(p.replicas), r)
	}
	return nil
}

// sendAndLeave sends the message and disconnects before an answer.
func (p *person) sendAndLeave(ctx context.Context, i intent, replica int) {
	ctx, cancel := context.WithTimeout(ctx, upTo(p.dice, 20*time.Millisecond))
	defer cancel()
	if response, err := p.do(ctx, i.post(replica, "")); err == nil {
		_ = response.Body.Close()
	}
}

// resume waits for a while and reads the rest on another replica: by the stream's own address or, as some
// libraries do, by sending the message again with the cursor.
func (p *person) resume(ctx context.Context, i intent, replica int, r *reply) error {
	p.gauges.add(dropCount, 1)
	if err := kit.Sleep(ctx, 200*time.Millisecond+upTo(p.dice, 2*time.Second)); err != nil {
		return err
	}
	r.elsewhere = true
	rest := request{replica: replica, method: http.MethodGet, path: "/v1/message/" + r.Started.ChatID.String() + "/stream", lastEventID: r.LastEventID}
	if p.dice.IntN(3) == 0 {
		p.gauges.add(repeatCount, 1)
		rest = i.post(replica, r.LastEventID)
	}
	return p.stream(ctx, rest, r, never)
}

// stop cancels the reply on any replica, and reads how it ended.
func (p *person) stop(ctx context.Context, replica int, r *reply) error {
	p.gauges.add(cancelCount, 1)
	path := "/v1/message/" + r.Started.ChatID.String()
	if err := p.call(ctx, request{replica: p.dice.IntN(len(p.replicas)), method: http.MethodPost, path: path + "/cancel"}); err != nil {
		return err
	}
	return p.stream(ctx, request{replica: replica, method: http.MethodGet, path: path + "/stream", lastEventID: r.LastEventID}, r, never)
}

// repeat sends the message again after its end, which must return the same reply.
func (p *person) repeat(ctx context.Context, i intent, replica int, r *reply) error {
	p.gauges.add(repeatCount, 1)
	again := &reply{gauges: &gauges{}, asked: time.Now()} // its word lag means nothing
	if err := p.stream(ctx, i.post(replica, ""), again, never); err != nil {
		return err
	}
	if again.Started.MessageID != r.Started.MessageID || string(again.Text) != string(r.Text) {
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
	p.gauges.add(readCount, 1)
	if err == nil {
		p.gauges.took(readTime, time.Since(began))
	}
}
