package people

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// RefusedError is an answer that is no success. Code is "" where there is none.
type RefusedError struct {
	Status int
	Code   fault.Code
}

func refusal(response *http.Response) *RefusedError {
	return &RefusedError{response.StatusCode, fault.Code(kit.CodeOf(response.Body))}
}

func (r *RefusedError) Error() string { return fmt.Sprintf("HTTP %d %s", r.Status, r.Code) }

// Call sends a request, with a body of JSON, to any server and decodes the answer. Body and answer may be nil.
func (p *Person) Call(ctx context.Context, method, path string, body, answer any) error {
	return p.callAt(ctx, p.anyServer(), method, path, body, answer)
}

func (p *Person) callAt(ctx context.Context, server, method, path string, body, answer any) error {
	var raw []byte
	if body != nil {
		raw = []byte(Encode(body))
	}
	response, err := p.Do(ctx, method, server+path, raw, "")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusMultipleChoices {
		return refusal(response)
	}
	if answer != nil {
		err = json.NewDecoder(response.Body).Decode(answer)
	}
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection can be used again
	return err
}

// complain records an answer that no crash explains: of an account that is deleted anything may be answered.
func (p *Person) complain(format string, args ...any) {
	if !p.record.hasLeft(p.ID) {
		p.record.complain(format, args...)
	}
}

// patientCodes are refusals after which a client tries again.
var patientCodes = map[fault.Code]bool{
	fault.NotReady: true, fault.ShuttingDown: true, fault.GenerationInProgress: true, fault.UpstreamFailed: true,
	fault.UpstreamTimeout: true, fault.Interrupted: true, fault.UpstreamOverloaded: true,
}

// attempt is one request for the reply to a message: with a cursor only for what comes after it.
type attempt struct {
	m              *message
	chat           uuid.UUID
	server, cursor string
	again          bool  // the reply has ended before: its words come late
	said           *said // the answer to a call that it is; nil for none
	// enough is called with the number of deltas received so far. When it returns true the connection is dropped. It may be nil.
	enough func(deltas int) bool
}

// post sends the message and reads its reply. It reports whether the reply ended for good, and otherwise returns the
// cursor to go on from: nothing may be known, or the reply broke off.
func (p *Person) post(ctx context.Context, a attempt) (settled bool, next string) {
	body := map[string]any{"content": p.record.Talk.Question(a.m.number), "client_message_id": a.m.clientID}
	if a.m.again != nil {
		delete(body, "content")
	}
	if a.m.replaces != uuid.Nil {
		body["replaces"] = a.m.replaces
	}
	path := "/v1/message"
	if body["chat_id"] = a.chat; a.chat == uuid.Nil {
		path = "/v1/message/first"
		delete(body, "chat_id")
	}
	if files := p.record.Talk.FilesOf(a.m.number); files != nil && a.m.again == nil {
		body["files"] = files
	}
	if p.record.Talk.ErrandEvery > 0 {
		body["tools"] = p.record.Talk.errand(a.m.number).offered()
	}
	return p.stream(ctx, a, http.MethodPost, path, []byte(Encode(body)))
}

// resume goes on with a reply at a cursor, without the message.
func (p *Person) resume(ctx context.Context, a attempt) (settled bool, next string) {
	return p.stream(ctx, a, http.MethodGet, "/v1/message/"+a.chat.String()+"/stream", nil)
}

func (p *Person) stream(ctx context.Context, a attempt, method, path string, body []byte) (settled bool, next string) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp() // also where the stream goes on: that is a client that loses its connection
	began := time.Now()
	p.gauges.opened(1)
	defer p.gauges.opened(-1)
	response, err := p.Do(ctx, method, a.server+path, body, a.cursor)
	if err != nil {
		if ctx.Err() == nil {
			p.record.fail("no answer")
		}
		return false, a.cursor
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		if a.said != nil {
			p.record.took(*a.said)
		}
		return p.read(ctx, response.Body, a, began)
	case http.StatusNoContent:
		return false, "" // the cursor was at the end of a reply that broke off
	}
	refused := refusal(response)
	if refused.Code == fault.CallSettled && a.said != nil && !p.record.toldOf(*a.said) {
		return false, a.cursor // by the other device, or because the reply was stopped or expired
	}
	p.record.fail(refused.Error())
	if refused.Code != "" && !patientCodes[refused.Code] {
		p.complain("ask%d: %s %s answers %v", a.m.number, method, path, refused)
	}
	if refused.Code == fault.ChatNotFound {
		return false, goneChat
	}
	return false, a.cursor
}

// goneChat is the cursor of a chat that an asynchronous standby had not received.
const goneChat = "gone"

// longestEvent is longer than any event, in bytes.
const longestEvent = 16 << 20

func (p *Person) read(ctx context.Context, body io.Reader, a attempt, began time.Time) (settled bool, next string) {
	h := hearing{Person: p, attempt: a, began: began, goesOn: a.cursor != ""}
	for e := streaming.NewEventReader(body, longestEvent); ; {
		if !e.Next() {
			if ctx.Err() == nil {
				p.record.fail("a stream cut")
			}
			break
		}
		end, after := h.take(string(e.Name), e.Data)
		if end != "" {
			_, _ = io.Copy(io.Discard, body) // so that the connection can be used again
			if end == streaming.EventAwaiting {
				a.cursor = h.cursor
				return p.answer(ctx, a, h.waits)
			}
			return end != streaming.EventFailed, ""
		}
		h.cursor = cmp.Or(after, h.cursor)
		if string(e.Name) == streaming.EventDelta && a.enough != nil && a.enough(h.deltas) {
			break
		}
	}
	return false, h.cursor
}

// hearing is a reply as it is read on one connection.
type hearing struct {
	*Person
	attempt
	began     time.Time
	waits     streaming.Awaiting
	goesOn    bool // it was asked for with a cursor
	resumed   bool // another connection was there before
	elsewhere bool // another server writes the reply
	deltas    int
	words     int // whole ones, those before this connection among them
}

// take records an event. It returns the name of a terminal one, and otherwise the cursor to go on from.
func (h *hearing) take(name string, data []byte) (end, cursor string) {
	switch name {
	case streaming.EventStarted:
		if started, ok := decode[streaming.Started](h.record, data); ok {
			h.record.start(h.m, started, h.server)
			_, _, home := h.record.whereabouts(h.m)
			h.resumed, h.elsewhere = started.Resumed, home != h.server
			whole := []byte(h.record.Talk.ReplyTo(h.m.number))
			h.words = strings.Count(string(whole[:len(whole)-len(after(whole, started.Offset))]), " ")
			return "", started.MessageID.String() + ":" + strconv.Itoa(started.Offset)
		}
	case streaming.EventDelta:
		if delta, ok := decode[streaming.Delta](h.record, data); ok {
			h.deltas++
			h.measure(delta.Delta)
			return "", delta.MessageID.String() + ":" + strconv.Itoa(h.record.grow(delta))
		}
	case streaming.EventAwaiting:
		if waits, ok := decode[streaming.Awaiting](h.record, data); ok {
			h.waits = waits
			return name, ""
		}
	case streaming.EventCompleted:
		if completed, ok := decode[streaming.Completed](h.record, data); ok {
			h.record.end(completed.MessageID, name, completed.ContentLength)
			return name, ""
		}
	case streaming.EventCancelled, streaming.EventFailed:
		if ended, ok := decode[streaming.Failed](h.record, data); ok {
			h.record.end(ended.MessageID, name, -1)
			if name == streaming.EventFailed {
				h.record.fail("a reply failed with " + ended.Code)
			}
			return name, ""
		}
	}
	return "", ""
}

// measure counts a delta's words and how late they are. What comes first on a connection that another one was before may
// be late by the time in which the person was away.
func (h *hearing) measure(delta string) {
	if h.again {
		return
	}
	now, n := time.Now(), strings.Count(delta, " ")
	for range n {
		if h.deltas > 1 || !h.resumed {
			lag := WordLag
			if h.elsewhere {
				lag = LagElsewhere
			}
			h.gauges.took(lag, now.Sub(h.record.Talk.Due(h.m.number, h.words)))
		}
		h.words++
	}
	switch {
	case h.deltas == 1 && h.goesOn && h.resumed:
		h.gauges.took(ResumeGap, now.Sub(h.began))
	case h.deltas == 1 && !h.resumed:
		h.gauges.took(FirstWord, now.Sub(h.began)-h.record.Talk.FirstWord(h.m.number))
	}
}

func decode[T any](r *Record, data []byte) (into T, ok bool) {
	if err := json.Unmarshal(data, &into); err != nil {
		r.complain("an event cannot be read: %v", err)
		return into, false
	}
	return into, true
}
