package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// client is a phone: it talks to whichever server it is told to, and keeps a record of what it hears. internal/client
// is not used, because it hides what this is about, connections that break and what was known when they did.
type client struct {
	http   *http.Client
	record *record
	token  string
}

// outcome is what one try came to.
type outcome int

const (
	// again: nothing is known, or the reply broke off; the message is to be sent again.
	again outcome = iota
	// settled: the reply ended for good.
	settled
)

// listener decides what happens while a reply is heard. Each may be nil.
type listener struct {
	// delta is told the count of deltas; the connection is dropped when it is false.
	delta func(heard int) bool
}

// patientCodes are refusals that a client comes back after.
var patientCodes = map[fault.Code]bool{
	fault.NotReady: true, fault.ShuttingDown: true, fault.GenerationInProgress: true, fault.UpstreamFailed: true,
	fault.UpstreamTimeout: true, fault.Interrupted: true, fault.UpstreamOverloaded: true,
}

// post sends a message and hears its reply; with a cursor only what comes after it. It gives the cursor to go on from.
func (c *client) post(ctx context.Context, server string, m *message, chat uuid.UUID, cursor string, l listener) (outcome, string) {
	path, body := "/v1/message", map[string]any{"content": m.content, "client_message_id": m.clientID, "chat_id": chat}
	if chat == uuid.Nil {
		path = "/v1/message/first"
		delete(body, "chat_id")
	}
	return c.hear(ctx, server, http.MethodPost, path, body, m, cursor, l)
}

// resume goes on with a reply at a cursor, without the message.
func (c *client) resume(ctx context.Context, server string, m *message, chat uuid.UUID, cursor string, l listener) (outcome, string) {
	return c.hear(ctx, server, http.MethodGet, "/v1/message/"+chat.String()+"/stream", nil, m, cursor, l)
}

func (c *client) hear(ctx context.Context, server, method, path string, body any, m *message, cursor string, l listener) (outcome, string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.do(ctx, server, method, path, body, cursor)
	if err != nil {
		return again, cursor
	}
	defer func() { _ = response.Body.Close() }() // heard as far as it was of use
	switch response.StatusCode {
	case http.StatusOK:
		return c.listen(response.Body, m, cursor, l)
	case http.StatusNoContent:
		return again, "" // the cursor was at the end of a reply that broke off
	}
	code := codeOf(response.Body)
	if code != "" && !patientCodes[code] {
		c.record.complain("ask%d: %s %s answers %d %s", m.number, method, path, response.StatusCode, code)
	}
	return again, cursor
}

func (c *client) do(ctx context.Context, server, method, path string, body any, cursor string) (*http.Response, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+server+path, content) //nolint:gosec // a server that we started
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	if cursor != "" {
		request.Header.Set("Last-Event-ID", cursor)
	}
	return c.http.Do(request) //nolint:gosec // as above
}

// tell sends a request that has no stream for an answer; "" is the code of one that was granted, and the error
// that of one whose answer never came.
func (c *client) tell(ctx context.Context, server, method, path string) (fault.Code, error) {
	response, err := c.do(ctx, server, method, path, nil, "")
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	if response.StatusCode < http.StatusMultipleChoices {
		return "", nil
	}
	code := codeOf(response.Body)
	if code == "" {
		return "", fmt.Errorf("%s %s: %d", method, path, response.StatusCode)
	}
	return code, nil
}

func codeOf(body io.Reader) fault.Code {
	var refusal struct{ Code fault.Code }
	const most = 1 << 16
	content, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil || json.Unmarshal(content, &refusal) != nil {
		return "" // cut off in the middle
	}
	return refusal.Code
}

// listen reads events, which are lines up to a blank one, and keeps them on record as they come.
func (c *client) listen(body io.Reader, m *message, cursor string, l listener) (outcome, string) {
	lines := bufio.NewScanner(body)
	const longestLine = 1 << 20
	lines.Buffer(nil, longestLine)
	var name, data string
	deltas := 0
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		case line == "" && data != "":
			end, place := c.take(name, data, m)
			if end != "" {
				return whatNext(end), ""
			}
			if place != "" {
				cursor = place
			}
			if name == streaming.EventDelta {
				deltas++
			}
			if l.delta != nil && name == streaming.EventDelta && !l.delta(deltas) {
				return again, cursor
			}
			name, data = "", ""
		}
	}
	return again, cursor // it broke off
}

func whatNext(end string) outcome {
	if end == streaming.EventFailed {
		return again
	}
	return settled
}

// take keeps an event. It gives the name of a last one, and otherwise the place to go on from.
func (c *client) take(name, data string, m *message) (end, place string) {
	switch name {
	case streaming.EventStarted:
		if started, ok := decode[streaming.Started](c.record, data); ok {
			c.record.start(m, started)
			return "", started.MessageID.String() + ":" + strconv.Itoa(started.Offset)
		}
	case streaming.EventDelta:
		if delta, ok := decode[streaming.Delta](c.record, data); ok {
			return "", delta.MessageID.String() + ":" + strconv.Itoa(c.record.grow(delta))
		}
	case streaming.EventCompleted:
		if completed, ok := decode[streaming.Completed](c.record, data); ok {
			c.record.end(completed.MessageID, name, completed.ContentLength)
			return name, ""
		}
	case streaming.EventCancelled, streaming.EventFailed:
		if ended, ok := decode[struct {
			MessageID uuid.UUID `json:"message_id"`
		}](c.record, data); ok {
			c.record.end(ended.MessageID, name, -1)
			return name, ""
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
