package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

const greeting = "Grüße aus 世界 🎻."

var inTheChat = Message{ChatID: uuid.MustParse(chatID), Content: "Hello.", ModelVariant: "arco", WaitWhileBusy: true}

// Whatever comes in between, the reply is heard whole and once, and the same message is never another one.
func TestSendTriesAgain(t *testing.T) {
	t.Parallel()
	inMidEvent := strings.TrimSuffix(started(0)+delta(0, "Gr"), "\n")
	for name, test := range map[string]struct {
		first http.HandlerFunc
		pause time.Duration
		from  string // Last-Event-ID of the second try
	}{
		"a server that is not ready":           {refuses(http.StatusServiceUnavailable, "not_ready"), firstPause, ""},
		"a server of another cell":             {refuses(http.StatusMisdirectedRequest, "wrong_cell"), firstPause, ""},
		"a rate limit":                         {refuses(http.StatusTooManyRequests, "over_request_rate_limit", "Retry-After", "7"), 7*time.Second + firstPause, ""},
		"one that does not wait":               {refuses(http.StatusTooManyRequests, "over_request_rate_limit", "Retry-After", "0"), firstPause, ""},
		"a generation in progress":             {refuses(http.StatusConflict, "generation_in_progress"), firstPause, ""},
		"a connection cut in the middle":       {replies(greeting, 10), firstPause, replyID + ":10"},
		"a connection cut after the start":     {replies(greeting, 0), firstPause, replyID + ":0"},
		"a connection cut before the end":      {replies(greeting, len([]rune(greeting))), firstPause, replyID + ":15"},
		"a connection cut in mid event":        {streams(inMidEvent), firstPause, replyID + ":0"},
		"a connection cut in an unknown event": {streams(started(0) + delta(0, "Gr") + "event: later\ndata: {}\n\n"), firstPause, replyID + ":2"},
		"a connection cut before the start":    {streams(": ping\n\n"), firstPause, ""},
		"a connection reset without an answer": {resets, firstPause, ""},
		"a proxy that has nothing to say":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, firstPause, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveReached(t, test.first, replies(greeting, -1))
			var h heard
			reply, err := c.Send(t.Context(), inTheChat, h.listener())
			assert.Truef(t, err == nil && h.text.String() == greeting && reply.End.Completed != nil && reply.Started.ChatID == inTheChat.ChatID,
				"%q, %+v, %v", h.text.String(), reply, err)
			diff := cmp.Diff([]time.Duration{test.pause}, c.pauses)
			assert.Truef(t, diff == "" && len(h.reasons) == 1, "told of %v; pauses (-want +got)\n%s", h.reasons, diff)
			asked := c.requests()
			require.Truef(t, len(asked) == 2, "asked %d times", len(asked))
			first, second := sent(t, asked[0]), sent(t, asked[1])
			assert.Truef(t, first == second && first.ClientMessageID != uuid.Nil && first.ModelVariant == "arco" && first.Content == "Hello.",
				"sent %+v, then %+v", first, second)
			assert.Equal(t, test.from, asked[1].Header.Get("Last-Event-ID"), "from")
		})
	}
}

// sentMessage is a message as it went over the wire.
type sentMessage struct {
	Path            string    `json:"-"`
	ChatID          uuid.UUID `json:"chat_id"`
	Content         string    `json:"content"`
	ClientMessageID uuid.UUID `json:"client_message_id"`
	ModelVariant    string    `json:"model_variant"`
}

func sent(t *testing.T, request *http.Request) sentMessage {
	assert.Truef(t, request.Header.Get("Authorization") == "Bearer a token" && request.Header.Get("Accept") == "text/event-stream",
		"headers %v", request.Header)
	message := sentMessage{Path: request.URL.Path}
	assert.NoError(t, json.NewDecoder(request.Body).Decode(&message))
	return message
}

func TestSendStartsAChatOrGoesOn(t *testing.T) {
	t.Parallel()
	c := serve(t, replies(greeting, -1))
	given := uuid.New()
	for _, message := range []Message{{Content: "Hello."}, {ChatID: inTheChat.ChatID, Content: "Hello.", ClientMessageID: given}} {
		begun := 0
		_, err := c.Send(t.Context(), message, Listener{Started: func(streaming.Started) { begun++ }})
		assert.Truef(t, err == nil && begun == 1, "begun %d times, %v", begun, err)
	}
	asked := c.requests()
	first := sent(t, asked[0])
	assert.Truef(t, first.Path == "/v1/message/first" && first.ChatID == uuid.Nil, "%+v", first)
	second := sent(t, asked[1])
	assert.Truef(t, second.Path == "/v1/message" && second.ChatID == inTheChat.ChatID && second.ClientMessageID == given,
		"%+v", second)
}

func TestSendGivesUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		says   string
		tries  int
	}{
		"a bad token":    {refuses(http.StatusUnauthorized, "session_expired"), "No. (401 session_expired)", 1},
		"another server": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "no answer of Throughline's. (418 unknown)", 1},
		"JSON for a stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
		}, `content type is "application/json"`, 1},
		"a server that never lets us in": {refuses(http.StatusServiceUnavailable, "not_ready", "Retry-After", "60"), "503 not_ready", 5},
		"a wait that is far too long":    {refuses(http.StatusTooManyRequests, "over_request_rate_limit", "Retry-After", "301"), "429 over_request_rate_limit", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveReached(t, test.answer)
			_, err := c.Send(t.Context(), inTheChat, Listener{})
			assert.Truef(t, err != nil && strings.Contains(err.Error(), test.says),
				"error %v, want one that says %q", err, test.says)
			tries := len(c.requests())
			assert.Truef(t, tries == test.tries, "%d tries, want %d", tries, test.tries)
		})
	}
}

func TestSendRefusesABrokenStream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ stream, says, heard string }{
		"a skipped delta":            {started(0) + delta(0, "äb") + delta(3, "c"), "a delta at character 3 follows character 2", "äb"},
		"a delta twice":              {started(0) + delta(0, "äb") + delta(0, "äb"), "a delta at character 0 follows character 2", "äb"},
		"a short reply":              {started(0) + delta(0, "ä") + completed(2), "1 characters and 0 parts came of a reply of 2 and 0", "ä"},
		"a stream that begins later": {started(4), "begins at character 4, not at 0", ""},
		"no message.started":         {delta(0, "a"), `begins with "content.delta"`, ""},
		"two beginnings":             {started(0) + started(0), "begins twice", ""},
		"a wrong id":                 {started(0) + strings.Replace(delta(0, "a"), ":1\n", ":9\n", 1), `id "` + replyID + `:9", not "` + replyID + `:1"`, ""},
		"a wrong id at the start":    {strings.Replace(started(0), ":0\n", ":1\n", 1), "message.started has id", ""},
		"a wrong id at the end":      {started(0) + strings.Replace(completed(0), ":end", ":0", 1), "completion has id", ""},
		"a start that is no JSON":    {"event: message.started\ndata: {\n\n", "message.started:", ""},
		"a delta that is no JSON":    {started(0) + "event: content.delta\ndata: {\n\n", "content.delta:", ""},
		"an end that is no JSON":     {started(0) + "event: completion\ndata: {\n\n", "completion:", ""},
		"a failure that is no JSON":  {started(0) + "event: message.failed\ndata: {\n\n", "message.failed:", ""},
		"a stop that is no JSON":     {started(0) + "event: message.cancelled\ndata: {\n\n", "message.cancelled:", ""},
		"a part that is missing":     {started(0) + part(1, 0), "part 1 at character 0, by itself 0, follows 0 parts and character 0", ""},
		"a part twice":               {started(0) + part(0, 0) + part(0, 0), "part 0 at character 0, by itself 0, follows 1 parts", ""},
		"a part at another place":    {started(0) + delta(0, "a") + part(0, 0), "part 0 at character 0, by itself 0, follows 0 parts and character 1", "a"},
		"a part that disagrees":      {started(0) + strings.Replace(part(0, 0), `"at":0`, `"at":1`, 1), "by itself 1", ""},
		"a part's wrong id":          {started(0) + strings.Replace(part(0, 0), ":0.1\n", ":0\n", 1), "part.added has id", ""},
		"a part without one":         {started(0) + "event: part.added\ndata: {\"index\":0}\n\n", "part 0 is missing", ""},
		"a part that is no JSON":     {started(0) + "event: part.added\ndata: {\n\n", "part.added:", ""},
		"an id without parts":        {started(0) + part(0, 0) + delta(0, "a"), "content.delta has id", ""},
		"a reply with a part less":   {started(0) + strings.Replace(completed(0), "0}", `0,"parts":1}`, 1), "0 parts came of a reply of 0 and 1", ""},
		"a start after parts":        {strings.Replace(started(0), "0}", `0,"parts":2}`, 1), "begins after 2 parts, not after 0", ""},
		"a wait for another length":  {started(0) + awaiting("0", 1), "0 characters came of a reply that waits at 1", ""},
		"a wait with a wrong id":     {started(0) + awaiting("end", 0), "message.awaiting has id", ""},
		"a wait that is no JSON":     {started(0) + "event: message.awaiting\ndata: {\n\n", "message.awaiting:", ""},
		"an endless event":           {started(0) + "event: later\ndata: " + strings.Repeat("x", maxEvent+1), "larger than anything", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveReached(t, streams(test.stream))
			var h heard
			_, err := c.Send(t.Context(), inTheChat, h.listener())
			assert.Truef(t, err != nil && strings.Contains(err.Error(), "the stream breaks the contract: ") && strings.Contains(err.Error(), test.says),
				"error %v, want one that says %q", err, test.says)
			tries := len(c.requests())
			assert.Truef(t, tries == 1 && h.text.String() == test.heard, "%d tries, heard %q", tries, h.text.String())
		})
	}
}

func TestSendRefusesAnotherReply(t *testing.T) {
	t.Parallel()
	c := serve(t, streams(started(0)), streams(strings.ReplaceAll(started(0), replyID, uuid.NewString())))
	_, err := c.Send(t.Context(), inTheChat, Listener{})
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "answered by another reply"), "%v", err)
}

func TestSendEndings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		code   fault.Code // of the error
		failed string     // code of the failed reply
	}{
		"refused":          {refuses(http.StatusGone, "chat_expired"), fault.ChatExpired, ""},
		"busy":             {refuses(http.StatusConflict, "generation_in_progress"), fault.GenerationInProgress, ""},
		"before the start": {refuses(http.StatusBadGateway, "upstream_failed"), "", "upstream_failed"},
		"too late":         {refuses(http.StatusGatewayTimeout, "upstream_timeout"), "", "upstream_timeout"},
		"on the way":       {streams(started(0) + "event: message.failed\ndata: {\"code\":\"interrupted\"}\n\n"), "", "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, test.answer)
			reply, err := c.Send(t.Context(), Message{Content: "Hello."}, Listener{})
			if test.code != "" && !IsCode(err, test.code) || test.code == "" && (err != nil || reply.End.Failed == nil || reply.End.Failed.Code != test.failed) {
				t.Errorf("%+v, %v", reply, err)
			}
			assert.Truef(t, test.failed == "" || reply.Started.ChatID == uuid.MustParse(chatID),
				"of the chat %s", reply.Started.ChatID)
			if len(c.requests()) != 1 {
				t.Errorf("asked %d times", len(c.requests()))
			}
		})
	}
}

// After a crash less may be kept than was heard. The reply has broken off, and that is all.
func TestSendHeardMoreThanWasKept(t *testing.T) {
	t.Parallel()
	c := serve(t, streams(started(0)+delta(0, "more than")),
		streams(started(4)+"event: message.failed\ndata: {\"code\":\"interrupted\",\"content_length\":4}\nid: "+replyID+":end\n\n"))
	var h heard
	reply, err := c.Send(t.Context(), inTheChat, h.listener())
	assert.Truef(t, err == nil && reply.End.Failed != nil && reply.End.Failed.Code == "interrupted" && h.text.String() == "more than",
		"%q, %+v, %v", h.text.String(), reply, err)
}

func awaiting(position string, length int) string {
	return fmt.Sprintf("event: message.awaiting\ndata: {\"content_length\":%d,\"open\":[{\"call_id\":\"c\"}]}\nid: %s:%s\n\n", length, replyID, position)
}

// Parts come once, also over a connection that breaks, and a reply that waits is the end for now.
func TestSendHearsParts(t *testing.T) {
	t.Parallel()
	resumed := fmt.Sprintf("event: message.started\ndata: {\"chat_id\":%q,\"message_id\":%q,\"offset\":2,\"parts\":2}\nid: %s:2.2\n\n", chatID, replyID, replyID)
	c := serve(t, streams(started(0)+part(0, 0)+strings.Replace(delta(0, "äb"), ":2\n", ":2.1\n", 1)+part(1, 2)), streams(resumed+part(2, 2)+awaiting("2.3", 2)))
	var h heard
	var urls []string
	listener := h.listener()
	listener.Part = func(p memory.Part) { urls = append(urls, p.URL) }
	reply, err := c.Send(t.Context(), inTheChat, listener)
	require.NoError(t, err)
	assert.Equal(t, []string{"u0", "u1", "u2"}, urls)
	require.NotNil(t, reply.End.Awaiting)
	assert.Equal(t, []streaming.OpenCall{{CallID: "c"}}, reply.End.Awaiting.Open)
	assert.Equal(t, replyID+":2.2", c.requests()[1].Header.Get("Last-Event-ID"))
	assert.Equal(t, "äb", h.text.String())
}

// As long as no new text comes the pauses grow, and Send gives up after a bounded number of them.
func TestPausesGrowWithoutProgress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		pauses int
	}{
		"no server":               {resets, maxBreaks - 1},
		"cut after the start":     {replies(greeting, 0), maxBreaks - 1},
		"an empty answer":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, maxBreaks - 1},
		"a wrong cell once more":  {refuses(http.StatusMisdirectedRequest, "wrong_cell"), 1},
		"a chat that stays busy":  {refuses(http.StatusConflict, "generation_in_progress"), 34},
		"refused without a pause": {refuses(http.StatusServiceUnavailable, "not_ready", "Retry-After", "0"), 34},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveReached(t, test.answer)
			_, err := c.Send(t.Context(), inTheChat, Listener{})
			require.Truef(t, err != nil && len(c.pauses) == test.pauses, "%v after %d pauses, %v", err, len(c.pauses), c.pauses)
			for n, pause := range c.pauses {
				assert.Equalf(t, min(firstPause<<min(n, 9), maxPause), pause, "pauses %v", c.pauses)
			}
		})
	}
}

// Only breaks without any progress count.
func TestSendIsPatientWithAConnectionThatBreaksOften(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ä世", 2*maxBreaks)
	var cuts []http.HandlerFunc
	for cut := range 2 * maxBreaks {
		cuts = append(cuts, replies(text, 2*cut))
	}
	c := serve(t, append(cuts, replies(text, -1))...)
	var h heard
	_, err := c.Send(t.Context(), inTheChat, h.listener())
	assert.Truef(t, err == nil && h.text.String() == text && len(c.pauses) == 2*maxBreaks,
		"%q, pauses %v, %v", h.text.String(), c.pauses, err)
}

// A connection on which not even a ping comes is as good as none.
func TestSendHangsUpOnSilence(t *testing.T) {
	t.Parallel()
	hungUp := make(chan struct{})
	silent := func(w http.ResponseWriter, r *http.Request) {
		streams(started(0)+delta(0, "Gr"))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(hungUp)
	}
	c := serve(t, silent, replies(greeting, -1))
	c.silence = 100 * time.Millisecond
	var h heard
	_, err := c.Send(t.Context(), inTheChat, h.listener())
	assert.Truef(t, err == nil && h.text.String() == greeting, "%q, %v", h.text.String(), err)
	assert.Truef(t, len(h.reasons) != 0 && errors.Is(h.reasons[0], errCut) && errors.Is(h.reasons[0], errSilent),
		"told of %v", h.reasons)
	<-hungUp
}

func TestWhatIsReadEndsTheSilence(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	defer reader.Close()
	silence := time.AfterFunc(time.Hour, func() {})
	silence.Stop()
	go func() { _, _ = writer.Write([]byte(":")) }()
	n, err := (&watched{in: reader, most: time.Hour, silence: silence}).Read(make([]byte, 9))
	assert.Truef(t, n == 1 && err == nil && silence.Stop(), "%d, %v, or nobody counts from here", n, err)
}

func TestSendToNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c := New(server.URL, "a token")
	defer c.Close()
	tell := Listener{Waiting: func(reason error, _ time.Duration) { t.Errorf("waiting for %v", reason) }}
	_, err := c.Send(t.Context(), inTheChat, tell)
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "no server answers at "+server.URL), "%v", err)
}

// When the context ends, nothing is tried again: before, in the middle of a reply and in a pause.
func TestSendEndsWithItsContext(t *testing.T) {
	t.Parallel()
	waits := func(w http.ResponseWriter, r *http.Request) {
		streams(started(0)+delta(0, "Gr"))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		hear   func(cancel func()) Listener
		asked  int
	}{
		"before":     {waits, func(cancel func()) Listener { cancel(); return Listener{} }, 0},
		"in a reply": {waits, func(cancel func()) Listener { return Listener{Text: func(string) { cancel() }} }, 1},
		"in a pause": {resets, func(cancel func()) Listener { return Listener{Waiting: func(error, time.Duration) { cancel() }} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveReached(t, test.answer)
			c.pause = sleep
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reply, err := c.Send(ctx, inTheChat, test.hear(cancel))
			if !errors.Is(err, context.Canceled) || len(c.requests()) != test.asked || name == "in a reply" && reply.Started.ChatID != inTheChat.ChatID {
				t.Errorf("asked %d times, %+v, %v", len(c.requests()), reply, err)
			}
		})
	}
}
