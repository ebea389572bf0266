package people

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// path is whether a message must be on the path of its chat: off is also a message that was not sent yet. The number of changes
// tells two copies of the record apart between which it came back to what it was.
type path struct {
	of      whether
	changes int
}

type whether int

const (
	off whether = iota
	unsure
	on
)

// line is the path that ends with a message.
func line(last *message) map[*message]bool {
	all := map[*message]bool{}
	for m := last; m != nil; m = m.parent {
		all[m] = true
	}
	return all
}

// lead records where the path of a chat ends, or, while a request is not answered, may end.
func (r *Record) lead(chat []*message, ends ...*message) {
	lines := map[*message]int{}
	for _, last := range ends {
		for m := range line(last) {
			lines[m]++
		}
	}
	defer r.lock()()
	for _, m := range chat {
		now := unsure
		if n := lines[m]; n == 0 {
			now = off
		} else if n == len(ends) {
			now = on
		}
		if m.path.of != now {
			m.path = path{now, m.path.changes + 1}
		}
	}
}

// lastReply returns the id of the reply to a message that began last.
func (r *Record) lastReply(m *message) uuid.UUID {
	defer r.lock()()
	return r.repliesTo[m][len(r.repliesTo[m])-1].id
}

// revise edits a message of the path, or asks for another reply to it. It reports whether there is one.
func (p *Person) revise(chat *conversation) bool {
	path := line(chat.last)
	m := chat.said[p.dice.IntN(len(chat.said))]
	id, state := p.record.deletable(m, false)
	if state == nil || !path[m] || m.place < chat.cleared {
		return false
	}
	switch p.dice.IntN(3) {
	case 0:
		p.send(chat, message{parent: m.parent, replaces: id, again: m.asked()})
	case 1:
		p.send(chat, message{parent: m.parent, replaces: p.record.lastReply(m), again: m.asked()})
	default:
		p.send(chat, message{parent: m.parent, replaces: id})
	}
	return true
}

// version is a message that is not on the path, and how the path ends that leads through it.
type version struct {
	m, last *message
	id      uuid.UUID // the message's, or its reply's where there are several
	err     error     // of its selection
}

// versions returns those that can be selected.
func (p *Person) versions(chat *conversation) (all []*version) {
	path, replies := line(chat.last), map[*message]int{}
	for _, m := range chat.said {
		replies[m.asked()]++
	}
	for i, m := range chat.said {
		if path[m] || m.place < chat.cleared {
			continue
		}
		v := &version{m: m, id: m.asked().id}
		if replies[m.asked()] > 1 {
			v.id = p.record.lastReply(m)
		}
		for _, later := range chat.said[i:] {
			if line(later)[m] {
				v.last = later
			}
		}
		all = append(all, v)
	}
	return all
}

// choose selects a version, or two that exclude each other at once, on two servers: then one wins. Where no answer came, the
// client does not come back to the chat.
func (p *Person) choose(ctx context.Context, chat *conversation) {
	all := p.versions(chat)
	if len(all) == 0 || chat.erased {
		return
	}
	rivals := []*version{one(p.dice, all)}
	if other := one(p.dice, all); !line(rivals[0].last)[other.m] && !line(other.last)[rivals[0].m] {
		rivals = append(rivals, other)
	}
	server, before, ends := p.anyServer(), p.record.lastReply(chat.last), []*message{chat.last}
	for _, v := range rivals {
		ends = append(ends, v.last)
	}
	p.record.lead(chat.said, ends...)
	var wait sync.WaitGroup
	for _, v := range rivals {
		wait.Go(func() { v.err = p.selectVersion(ctx, server, v, before) })
		server = p.other(server)
	}
	wait.Wait()
	ends = p.outcome(chat, rivals)
	p.record.lead(chat.said, ends...)
	chat.last, chat.abandoned = ends[0], len(ends) > 1
}

func (p *Person) selectVersion(ctx context.Context, server string, v *version, before uuid.UUID) error {
	var selected struct {
		LastMessageID uuid.UUID `json:"last_message_id"`
	}
	err := p.callAt(ctx, server, http.MethodPost, "/v1/messages/"+v.id.String()+"/select", map[string]any{"last_message_id": before}, &selected)
	if last := p.record.lastReply(v.last); err == nil && selected.LastMessageID != last {
		p.complain("the path through %s ends with %s, not %s", v.id, selected.LastMessageID, last)
	}
	return err
}

// outcome returns how the path may end after selections.
func (p *Person) outcome(chat *conversation, rivals []*version) (ends []*message) {
	var won, open []*message
	lost := 0
	for _, v := range rivals {
		refused, is := errors.AsType[*RefusedError](v.err)
		switch {
		case v.err == nil:
			won = append(won, v.last)
		case !is || refused.Code == "" || refused.Code == fault.NotReady:
			open = append(open, v.last)
		case refused.Code == fault.ConversationChanged:
			lost++
		case !patientCodes[refused.Code]:
			p.complain("selecting %s answers %v", v.id, v.err)
		}
	}
	if len(won) > 1 || lost == len(rivals) {
		p.complain("of %d selections of other versions than %s at once %d win", len(rivals), p.record.lastReply(chat.last), len(won))
	}
	if len(won) > 0 {
		defer p.record.lock()()
		p.record.selected++
		return won[:1]
	}
	return append([]*message{chat.last}, open...)
}
