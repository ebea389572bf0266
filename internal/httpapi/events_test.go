package httpapi

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/streaming"
)

// event is one event as it stood on the wire.
type event struct {
	id, name, raw string
	data          map[string]any
}

// To the letter: three lines in this order, LF, one empty line.
var eventForm = regexp.MustCompile(`^event: ([a-z.]+)\ndata: (\{.*\})\nid: ([0-9a-f-]{36}:(?:\d+|end))$`)

// parseEvents checks the framing of a whole stream: the padding, the form of each event and its schema.
// It returns the events, of which message.started is the first. The places in ids and offsets are looked
// at where the events are made, and by each stream of the system's tests.
func parseEvents(t *testing.T, body string) []event {
	t.Helper()
	padding, rest, _ := strings.Cut(body, "\n\n")
	if !strings.HasPrefix(padding, ":") || len(padding) < 1024 || strings.Contains(padding, "\n") {
		t.Fatalf("the stream does not begin with a comment of 1 KiB but with %q", padding[:min(len(padding), 60)])
	}
	if strings.Contains(body, "\r") {
		t.Error("there is a carriage return in the stream")
	}
	var events []event
	for block := range strings.SplitSeq(strings.TrimSuffix(rest, "\n\n"), "\n\n") {
		if block == ": ping" {
			continue
		}
		events = append(events, parseEvent(t, block))
	}
	if len(events) == 0 || events[0].name != streaming.EventStarted {
		t.Fatalf("the first event is not message.started: %v", events)
	}
	return events
}

func parseEvent(t *testing.T, block string) event {
	t.Helper()
	parts := eventForm.FindStringSubmatch(block)
	if parts == nil {
		t.Fatalf("this is no event: %q", block)
	}
	e := event{name: parts[1], raw: parts[2], id: parts[3]}
	if err := json.Unmarshal([]byte(e.raw), &e.data); err != nil {
		t.Fatalf("data of %s: %v", e.name, err)
	}
	checkEventSchema(t, e)
	return e
}

func number(e event, key string) float64 {
	value, _ := e.data[key].(float64)
	return value
}

// spoken joins the deltas.
func spoken(events []event) string {
	var text strings.Builder
	for _, e := range events {
		if e.name == streaming.EventDelta {
			delta, _ := e.data["delta"].(string)
			text.WriteString(delta)
		}
	}
	return text.String()
}

func last(events []event) event { return events[len(events)-1] }

// openStream is an answer that is being read.
type openStream struct {
	t        *testing.T
	response *http.Response
	reader   *bufio.Reader
	read     strings.Builder
}

func (h *harness) open(request *http.Request) *openStream {
	h.t.Helper()
	response, err := h.http.Client().Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		h.t.Fatalf("status %d: %s", response.StatusCode, body)
	}
	return &openStream{t: h.t, response: response, reader: bufio.NewReader(response.Body)}
}

// next reads one block: an event or a comment.
func (s *openStream) next() string {
	s.t.Helper()
	var block strings.Builder
	for {
		line, err := s.reader.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ends in %q: %v", block.String()+line, err)
		}
		s.read.WriteString(line)
		if line == "\n" {
			return strings.TrimSuffix(block.String(), "\n")
		}
		block.WriteString(line)
	}
}

// event reads up to the next event.
func (s *openStream) event() event {
	s.t.Helper()
	for {
		if block := s.next(); !strings.HasPrefix(block, ":") {
			return parseEvent(s.t, block)
		}
	}
}

// rest reads to the end and gives all events of the stream.
func (s *openStream) rest() []event {
	s.t.Helper()
	remaining, err := io.ReadAll(s.reader)
	if err != nil {
		s.t.Fatal(err)
	}
	return parseEvents(s.t, s.read.String()+string(remaining))
}
