package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// client sends messages to any server and records what it receives. internal/client would hide the connections
// that break.
type client struct {
	kit.Client
	record *record
}

// deltaFunc is called with the number of deltas received so far. When it returns false the connection is dropped.
// It may be nil.
type deltaFunc func(deltas int) bool

// patientCodes are refusals after which a client tries again.
var patientCodes = map[fault.Code]bool{
	fault.NotReady: true, fault.ShuttingDown: true, fault.GenerationInProgress: true, fault.UpstreamFailed: true,
	fault.UpstreamTimeout: true, fault.Interrupted: true, fault.UpstreamOverloaded: true,
}

// post sends a message and reads its reply; with a cursor only what comes after it. It reports whether the reply
// ended for good, and otherwise returns the cursor to go on from: nothing may be known, or the reply broke off.
func (c *client) post(ctx context.Context, server string, m *message, chat uuid.UUID, cursor string, onDelta deltaFunc) (settled bool, next string) {
	path, message := "/v1/message", map[string]any{"content": m.content, "client_message_id": m.clientID, "chat_id": chat}
	if chat == uuid.Nil {
		path = "/v1/message/first"
		delete(message, "chat_id")
	}
	body, _ := json.Marshal(message) // strings and ids
	return c.stream(ctx, server, http.MethodPost, path, body, m, cursor, onDelta)
}

// resume goes on with a reply at a cursor, without the message.
func (c *client) resume(ctx context.Context, server string, m *message, chat uuid.UUID, cursor string, onDelta deltaFunc) (settled bool, next string) {
	return c.stream(ctx, server, http.MethodGet, "/v1/message/"+chat.String()+"/stream", nil, m, cursor, onDelta)
}

func (c *client) stream(
	ctx context.Context,
	server, method, path string,
	body []byte,
	m *message,
	cursor string,
	onDelta deltaFunc,
) (settled bool, next string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.Do(ctx, method, "http://"+server+path, body, cursor)
	if err != nil {
		return false, cursor
	}
	defer func() { _ = response.Body.Close() }() // read as far as it was useful
	switch response.StatusCode {
	case http.StatusOK:
		return c.read(response.Body, m, cursor, onDelta)
	case http.StatusNoContent:
		return false, "" // the cursor was at the end of a reply that broke off
	}
	code := fault.Code(kit.CodeOf(response.Body))
	if code != "" && !patientCodes[code] {
		c.record.complain("ask%d: %s %s answers %d %s", m.number, method, path, response.StatusCode, code)
	}
	return false, cursor
}

// call sends a request whose answer is no stream and returns the code of a refusal, "" for success. An error
// means that no answer came.
func (c *client) call(ctx context.Context, server, method, path string) (fault.Code, error) {
	return c.callWith(ctx, server, method, path, nil, nil)
}

// callWith sends a body, too, and reads a successful answer into answer; both may be nil.
func (c *client) callWith(ctx context.Context, server, method, path string, body []byte, answer any) (fault.Code, error) {
	response, err := c.Do(ctx, method, "http://"+server+path, body, "")
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	if response.StatusCode < http.StatusMultipleChoices {
		if answer == nil {
			return "", nil
		}
		return "", json.NewDecoder(response.Body).Decode(answer)
	}
	code := fault.Code(kit.CodeOf(response.Body))
	if code == "" {
		return "", fmt.Errorf("%s %s: %d", method, path, response.StatusCode)
	}
	return code, nil
}

// read records events as they come.
func (c *client) read(body io.Reader, m *message, cursor string, onDelta deltaFunc) (settled bool, next string) {
	deltas := 0
	for e := range events(body) {
		end, after := c.take(e, m)
		if end != "" {
			return end != streaming.EventFailed, ""
		}
		cursor = cmp.Or(after, cursor)
		if e.name == streaming.EventDelta {
			deltas++
			if onDelta != nil && !onDelta(deltas) {
				break
			}
		}
	}
	return false, cursor
}

// event is one server-sent event.
type event struct{ name, data string }

// events returns the events of a stream until it breaks off. It is not kit's reader, because the client must not share
// a mistake with what is checked here.
func events(body io.Reader) iter.Seq[event] {
	return func(yield func(event) bool) {
		lines := bufio.NewScanner(body)
		const longestLine = 1 << 20
		lines.Buffer(nil, longestLine)
		var e event
		for lines.Scan() {
			line := lines.Text()
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = name
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.data = data
			}
			if line != "" || e.data == "" {
				continue
			}
			if !yield(e) {
				return
			}
			e = event{}
		}
	}
}

// take records an event. It returns the name of a terminal one, and otherwise the cursor to go on from.
func (c *client) take(e event, m *message) (end, cursor string) {
	switch e.name {
	case streaming.EventStarted:
		if started, ok := decode[streaming.Started](c.record, e.data); ok {
			c.record.start(m, started)
			return "", started.MessageID.String() + ":" + strconv.Itoa(started.Offset)
		}
	case streaming.EventDelta:
		if delta, ok := decode[streaming.Delta](c.record, e.data); ok {
			return "", delta.MessageID.String() + ":" + strconv.Itoa(c.record.grow(delta))
		}
	case streaming.EventCompleted:
		if completed, ok := decode[streaming.Completed](c.record, e.data); ok {
			c.record.end(completed.MessageID, e.name, completed.ContentLength)
			return e.name, ""
		}
	case streaming.EventCancelled, streaming.EventFailed:
		if ended, ok := decode[struct {
			MessageID uuid.UUID `json:"message_id"`
		}](c.record, e.data); ok {
			c.record.end(ended.MessageID, e.name, -1)
			return e.name, ""
		}
	}
	return "", ""
}

func decode[T any](r *record, data string) (into T, ok bool) {
	if err := json.Unmarshal([]byte(data), &into); err != nil {
		r.complain("an event cannot be read: %v", err)
		return into, false
	}
	return into, true
}
