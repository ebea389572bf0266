package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// uiEventRead is one event of a UI message stream as a reader gets it.
type uiEventRead struct {
	Type, ID, Delta, ErrorText, MessageID, FinishReason string
	MessageMetadata                                     map[string]any
}

// parseUIStream checks the framing of a whole stream: the padding, one data line an event, the schema
// of each, and the last line. It returns the events.
func parseUIStream(t *testing.T, body string) []uiEventRead {
	t.Helper()
	rest, done := strings.CutSuffix(unpadded(t, body), "data: [DONE]\n\n")
	if !done {
		t.Errorf("the stream does not end with [DONE]: %q", rest[max(0, len(rest)-60):])
	}
	var events []uiEventRead
	for block := range strings.SplitSeq(strings.TrimSuffix(rest, "\n\n"), "\n\n") {
		if block == ": ping" {
			continue
		}
		data, found := strings.CutPrefix(block, "data: ")
		require.Truef(t, found && !strings.ContainsAny(data, "\r\n"), "this is no event: %q", block)
		checkSchema(t, uiSchema, []byte(data))
		var event uiEventRead
		require.NoError(t, json.Unmarshal([]byte(data), &event))
		events = append(events, event)
	}
	return events
}

func (a answered) uiEvents(t *testing.T) []uiEventRead {
	t.Helper()
	require.Truef(t, a.status == http.StatusOK && a.header.Get(headerUIStream) == "v1" && a.header.Get("Content-Type") == "text/event-stream; charset=utf-8",
		"status %d, header %v: %s", a.status, a.header, a.body)
	return parseUIStream(t, string(a.body))
}

// uiStory is the types of the events in order, with one text-delta for any number of them, and the text.
func uiStory(events []uiEventRead) (story, text string) {
	var types []string
	for _, event := range events {
		types = append(types, event.Type)
		text += event.Delta
	}
	return strings.Join(slices.Compact(types), " "), text
}

const (
	wholeStory  = "start text-start text-delta text-end finish"
	brokenStory = "start text-start text-delta text-end message-metadata error"
)

func TestUIStreamIsAskedForByHeaderOrQuery(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says(strings.SplitAfter(said, " ")...))
	for _, ask := range []struct{ query, header, accept string }{
		{"", "v1", "*/*"}, {"?protocol=ui", "", "text/event-stream"}, {"?protocol=ui", "v1", ""},
		{"?protocol=ui", "v0", "application/json"}, {"", "v1", "application/json, text/plain, */*"},
	} {
		events := h.call(http.MethodPost, firstPath+ask.query, hello, "x-vercel-ai-ui-message-stream", ask.header, "Accept", ask.accept).uiEvents(t)
		story, text := uiStory(events)
		assert.Truef(t, story == wholeStory && text == said, "%v: %s: %q", ask, story, text)
		start, finish := events[0], events[len(events)-1]
		assert.Truef(t, start.MessageID != "" && start.MessageMetadata["message_id"] == start.MessageID && start.MessageMetadata["resumed"] == false,
			"%v: started %+v", ask, start)
		assert.Truef(t, finish.FinishReason == "stop" && finish.MessageMetadata["content_length"] == float64(len([]rune(said))),
			"%v: finished %+v", ask, finish)
	}
}

func TestOurOwnEventsMayBeNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	answer := h.call(http.MethodPost, firstPath+"?protocol=events", hello, headerUIStream, "v1", "Accept", "application/json")
	got := spoken(answer.events(t))
	assert.Truef(t, got == "x" && answer.header.Get(headerUIStream) == "", "said %q, %v", got, answer.header)
}

func TestUnknownProtocolIsRefusedBeforeAnythingHappens(t *testing.T) {
	t.Parallel()
	model := says("x")
	h := newHarness(t, model)
	stream := "/v1/message/" + uuid.NewString() + "/stream"
	for _, ask := range []struct{ method, path, body, header string }{
		{post, firstPath + "?protocol=data", hello, ""}, {post, firstPath + "?protocol=", hello, "v1"}, {post, firstPath + "?protocol=UI", hello, ""},
		{post, firstPath, hello, "v2"}, {post, nextPath + "?protocol=sse", nextBody(uuid.New(), "a"), ""}, {get, stream + "?protocol=sse", "", ""},
		{get, stream, "", "1"},
	} {
		answer := h.call(ask.method, ask.path, ask.body, headerUIStream, ask.header)
		assert.Truef(t, answer.status == 400 && errorCode(answer.body) == "bad_request",
			"%v: %d %s", ask, answer.status, answer.body)
	}
	n := model.calls.Load()
	assert.Truef(t, n == 0, "the model was called %d times", n)
}

func TestUIStreamIsResumed(t *testing.T) {
	t.Parallel()
	model := newConductor()
	h := newHarness(t, model)
	model.accept()
	stream := h.open(h.request(http.MethodPost, firstPath, hello))
	started := stream.event()
	model.say("naïve ")
	stream.event()
	path := "/v1/message/" + started.data["chat_id"].(string) + "/stream"
	live := h.open(h.request(http.MethodGet, path, "", headerUIStream, "v1")) // as the AI SDK's transport does
	model.say("café")
	model.finish()
	assert.Equal(t, "naïve café", spoken(stream.rest()), "said")
	story, text := uiStory(live.restUI())
	assert.Truef(t, story == wholeStory && text == "naïve café", "live: %s: %q", story, text)
	assert.Equal(t, 204, h.call(http.MethodGet, path, "", headerUIStream, "v1").status, "nothing is running")
	messageID, _ := started.data["message_id"].(string)
	for want, headers := range map[string][]string{"naïve café": {"Last-Event-ID", messageID + ":0"}, "café": {"Last-Event-ID", messageID + ":6"}} {
		events := h.call(http.MethodGet, path+"?protocol=ui", "", headers...).uiEvents(t)
		offset := float64(len([]rune("naïve café")) - len([]rune(want)))
		story, text := uiStory(events)
		assert.Truef(t, story == wholeStory && text == want && events[0].MessageMetadata["offset"] == offset && events[0].MessageID == messageID,
			"%v: %s: %q %+v", headers, story, text, events[0])
	}
	events := h.call(http.MethodGet, path+"?protocol=ui&after=10", "").uiEvents(t)
	story, _ = uiStory(events)
	assert.Equal(t, "start finish", story, "after the last character")
}

// until reads up to the block that holds a text.
func (s *openStream) until(text string) {
	for {
		if strings.Contains(s.next(), text) {
			return
		}
	}
}

// restUI reads a UI message stream to its end.
func (s *openStream) restUI() []uiEventRead {
	s.t.Helper()
	for s.read.Len() == 0 || !strings.HasSuffix(s.read.String(), "data: [DONE]\n\n") {
		s.next()
	}
	return parseUIStream(s.t, s.read.String())
}

func TestUIStreamTellsOfAFailure(t *testing.T) {
	t.Parallel()
	model := newConductor()
	h := newHarness(t, model)
	model.accept()
	model.say("half")
	model.fail(errTimeout)
	events := h.call(http.MethodPost, firstPath+"?protocol=ui", hello).uiEvents(t)
	story, text := uiStory(events)
	told, end := events[len(events)-2].MessageMetadata, events[len(events)-1]
	assert.Truef(t, story == brokenStory && text == "half" && end.ErrorText == told["message"] && end.ErrorText != "",
		"%s: %q %+v", story, text, end)
	assert.Truef(t, told["status"] == "failed" && told["code"] == "upstream_timeout" && told["retryable"] == true,
		"told %v", told)
}

// brittleWriter is a client whose connection takes the beginning of a stream and no more.
type brittleWriter struct {
	recorder
	takes int
}

func (w *brittleWriter) Write(p []byte) (int, error) {
	if w.takes--; w.takes < 0 {
		return 0, errors.New("the client does not read")
	}
	return w.recorder.Write(p)
}

// Where a stream cannot be brought to its end, its connection breaks: many clients take any other end
// for that of the reply.
func TestCutStreamIsNotTakenForAWholeReply(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"?protocol=ui", ""} {
		h := newQuietHarness(t, says("one", "two", "three"))
		assert.Truef(t, breaks(h, h.request(http.MethodPost, firstPath+query, hello)),
			"%q: the stream ends in order", query)
	}
}

// breaks tells whether a handler breaks the connection to a client that takes no more than the beginning.
func breaks(h *harness, request *http.Request) (broken bool) {
	defer func() { broken = recover() == http.ErrAbortHandler }() //nolint:errorlint // net/http compares it like this, too
	h.server.handler.ServeHTTP(&brittleWriter{recorder{header: http.Header{}}, 3}, request)
	return false
}

func TestPrefersJSON(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"text/event-stream":                   false,
		"text/*":                              false,
		"text/html":                           false,
		"application/json":                    true,
		"Application/JSON":                    true,
		"application/json; charset=utf-8":     true,
		"application/*":                       true,
		"application/json, text/plain, */*":   true, // what axios sends
		"application/json, text/event-stream": false,
		"text/event-stream, application/json": false,
		"application/json, text/event-stream;q=0.9":      true,
		"application/json;q=0.5, text/event-stream;q=.6": false,
		"application/json;q=0":                           false,
		"application/json;q=0, */*":                      false,
		"text/event-stream;q=0, */*":                     true,
		"application/json;q=0.1, */*;q=0.2":              false,
		"application/json;q=2":                           false,
		"application/json;q=NaN":                         false,
		"application/json;q=x":                           false,
		",;,/,application/json":                          true,
	} {
		assert.Equalf(t, want, prefersJSON([]string{accept}), "%q", accept)
	}
	assert.True(t, prefersJSON([]string{"text/plain", "application/json"}), "two headers are one list")
	assert.False(t, prefersJSON(nil), "no header means events")
}
