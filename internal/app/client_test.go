package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// body is a request's JSON.
type body map[string]any

// event is one server-sent event.
type event struct {
	id, name string
	data     map[string]any
}

// request makes a request of the rig's user to an app. headers are name, value, name, value …
func (r *rig) request(ctx context.Context, n *node, method, path string, payload body, headers ...string) *http.Request {
	r.t.Helper()
	text := ""
	if payload != nil {
		raw, err := json.Marshal(payload)
		if err != nil {
			r.t.Fatal(err)
		}
		text = string(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, n.base+path, strings.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

// answer is an answer that was read to its end.
type answer struct {
	status int
	header http.Header
	raw    string
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var found map[string]any
	if err := json.Unmarshal([]byte(a.raw), &found); err != nil {
		t.Fatalf("%v in %q", err, a.raw)
	}
	return found
}

func (r *rig) call(n *node, method, path string, payload body, headers ...string) answer {
	r.t.Helper()
	return r.do(r.request(r.t.Context(), n, method, path, payload, headers...))
}

func (r *rig) do(request *http.Request) answer {
	r.t.Helper()
	response, err := client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatalf("reading the answer: %v", err)
	}
	return answer{response.StatusCode, response.Header, string(raw)}
}

// stream reads the events of one answer.
type stream struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
	events   []event
	text     string
	hangUp   context.CancelFunc
}

// open sends a request whose answer is a stream.
func (r *rig) open(n *node, method, path string, payload body, headers ...string) *stream {
	r.t.Helper()
	s, err := r.tryOpen(n, method, path, payload, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	if s.response.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(s.response.Body)
		r.t.Fatalf("%s %s: %s %s", method, path, s.response.Status, raw)
	}
	return s
}

func (r *rig) tryOpen(n *node, method, path string, payload body, headers ...string) (*stream, error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	response, err := client.Do(r.request(ctx, n, method, path, payload, headers...))
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stream{t: r.t, response: response, lines: bufio.NewScanner(response.Body), hangUp: cancel}
	s.lines.Buffer(nil, 4<<20)
	r.t.Cleanup(s.close)
	return s, nil
}

func (s *stream) close() {
	s.hangUp()
	_ = s.response.Body.Close() // the test has read what it wanted
}

// next reads one event; io.EOF after the last.
func (s *stream) next() (event, error) {
	var e event
	for s.lines.Scan() {
		line := s.lines.Text()
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.data); err != nil {
				return e, err
			}
		case "":
			if e.name != "" {
				return e, s.take(e)
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		return e, err
	}
	return e, io.EOF
}

// take checks what holds for each event, and collects the text.
func (s *stream) take(e event) error {
	s.events = append(s.events, e)
	if first := len(s.events) == 1; first != (e.name == "message.started") {
		return errors.New("message.started is not the first event")
	}
	if e.name == "content.delta" {
		s.text += e.data["delta"].(string)
	}
	want := s.events[0].data["message_id"].(string) + ":"
	if terminal(e) {
		want += "end"
	} else {
		want += strconv.Itoa(int(s.events[0].data["offset"].(float64)) + len([]rune(s.text)))
	}
	if e.id != want {
		return errors.New("the event's id is " + e.id + ", want " + want)
	}
	return nil
}

func terminal(e event) bool {
	return e.name == "completion" || e.name == "message.failed" || e.name == "message.cancelled"
}

// until reads up to the first event that matches.
func (s *stream) until(match func(event) bool) event {
	s.t.Helper()
	for {
		e, err := s.next()
		if err != nil {
			s.t.Fatalf("the stream ended without the event: %v, after %d events", err, len(s.events))
		}
		if match(e) {
			return e
		}
	}
}

// said is a reply that was streamed whole.
type said struct {
	chatID, messageID, userMessageID string
	started, end                     event
	text                             string
}

// rest reads to the end and wants exactly one terminal event, as the last.
func (s *stream) rest() said {
	s.t.Helper()
	found, err := s.tryRest()
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func (s *stream) tryRest() (said, error) {
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			return said{}, errors.New("the stream has no terminal event")
		}
		if err != nil {
			return said{}, err
		}
		if !terminal(e) {
			continue
		}
		if extra, err := s.next(); !errors.Is(err, io.EOF) {
			return said{}, errors.New("after the terminal event came " + extra.name)
		}
		started := s.events[0]
		return said{
			chatID: started.data["chat_id"].(string), messageID: started.data["message_id"].(string),
			userMessageID: started.data["user_message_id"].(string), started: started, end: e, text: s.text,
		}, nil
	}
}

// path is where a message goes: a chat's id continues it, "" starts one.
func send(chatID string, payload body) (string, body) {
	if chatID == "" {
		return "/v1/message/first", payload
	}
	with := body{"chat_id": chatID}
	maps.Copy(with, payload)
	return "/v1/message", with
}

// openMessage sends a message and gives the stream of its reply.
func (r *rig) openMessage(n *node, chatID string, payload body, headers ...string) *stream {
	r.t.Helper()
	path, payload := send(chatID, payload)
	return r.open(n, http.MethodPost, path, payload, headers...)
}

// say sends a message, reads its whole reply and wants it completed.
func (r *rig) say(chatID, content string) said {
	r.t.Helper()
	found := r.openMessage(r.node, chatID, body{"content": content}).rest()
	if found.end.name != "completion" {
		r.t.Fatalf("the reply ended with %s %v", found.end.name, found.end.data)
	}
	return found
}

// messageRow is what a test compares of a stored message.
type messageRow struct {
	role, status, content, failure string
}

func (r *rig) stored(messageID string) messageRow {
	r.t.Helper()
	var row messageRow
	err := r.pool.QueryRow(r.t.Context(), `select role, status, content, coalesce(metadata -> 'failure' ->> 'code', '') from messages where id = $1`,
		uuid.MustParse(messageID)).Scan(&row.role, &row.status, &row.content, &row.failure)
	if err != nil {
		r.t.Fatal(err)
	}
	return row
}

// awaitEnded waits until a reply is stored with another status than streaming.
func (r *rig) awaitEnded(messageID string) messageRow {
	r.t.Helper()
	within(r.t, "the reply is stored", func() bool { return r.stored(messageID).status != "streaming" })
	return r.stored(messageID)
}
