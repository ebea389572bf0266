package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

const testToken = "a-token"

// api speaks the HTTP side of the contract as far as the demo uses it, with the project's own SSE
// encoder. Message n (from 1) is answered with replyText(n).
type api struct {
	*httptest.Server
	t    *testing.T
	chat uuid.UUID
	// hook may answer attempt (from 1) of a message itself; it tells whether it did.
	hook func(w http.ResponseWriter, r *http.Request, m *received) bool
	// memories are what the server remembers of the user; nil keeps none.
	memories *memories
	// topics are what the server makes of an imported chat; nil finds one topic in all of it.
	topics *topics

	mu       sync.Mutex
	messages map[uuid.UUID]*received // by client message id
	contents []string
}

// received is one message, however often it was sent.
type received struct {
	n, attempt int
	content    string
	userID, id uuid.UUID // of the two rows
	at         int       // where the client's cursor is
	started    streaming.Started
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{t: t, chat: uuid.New(), messages: map[uuid.UUID]*received{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/message/first", a.post)
	mux.HandleFunc("POST /v1/message", a.post)
	mux.HandleFunc("POST /v1/chats/{id}/extract", a.extract)
	mux.HandleFunc("GET /v1/memories", a.list)
	mux.HandleFunc("POST /v1/memories/forget", a.forget)
	mux.HandleFunc("POST /v1/import", a.importChat)
	mux.HandleFunc("GET /v1/chats/{id}/topics", a.listTopics)
	mux.HandleFunc("GET /v1/chats/{id}/topics/{topic}/stats", a.topicStats)
	mux.HandleFunc("GET /v1/chats/{id}/memory", a.preview)
	mux.HandleFunc("GET /v1/recall", a.recall)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

// lines writes n user messages as a conversation.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"role":"user","content":"message %d","created_at":"2026-04-%02dT08:00:00Z"}`+"\n", i+1, i%28+1)
	}
	return b.String()
}

func (a *api) options(conversation string) Options {
	return Options{URL: a.URL, Token: testToken, Conversation: strings.NewReader(conversation), Out: &strings.Builder{}, foldPatience: 10 * time.Second, topicsPatience: time.Millisecond}
}

func replyText(n int) string { return fmt.Sprintf("Reply %d: größer, 日本, 🎻.", n) }

func (a *api) post(w http.ResponseWriter, r *http.Request) {
	m, err := a.receive(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	if a.hook != nil && a.hook(w, r, m) {
		return
	}
	a.stream(w, m, -1)
}

// receive checks a message against the contract.
func (a *api) receive(r *http.Request) (*received, error) {
	var body struct {
		ChatID          *uuid.UUID `json:"chat_id"`
		Content         string     `json:"content"`
		ClientMessageID uuid.UUID  `json:"client_message_id"`
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	first := strings.HasSuffix(r.URL.Path, "/first")
	switch err := decoder.Decode(&body); {
	case err != nil:
		return nil, err
	case r.Header.Get("Authorization") != "Bearer "+testToken || r.Header.Get("Accept") != "text/event-stream":
		return nil, fmt.Errorf("headers %v", r.Header)
	case first != (body.ChatID == nil), !first && *body.ChatID != a.chat, body.ClientMessageID == uuid.Nil:
		return nil, fmt.Errorf("body %+v", body)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.messages[body.ClientMessageID]
	if m == nil {
		m = &received{n: len(a.messages) + 1, content: body.Content, userID: uuid.New(), id: uuid.New()}
		a.messages[body.ClientMessageID] = m
		a.contents = append(a.contents, body.Content)
	}
	m.attempt++
	sent := *m // an earlier attempt may still be at it
	m = &sent
	if place, ok := strings.CutPrefix(r.Header.Get("Last-Event-ID"), m.id.String()+":"); ok {
		at, err := strconv.Atoi(place)
		if err != nil {
			return nil, err
		}
		m.at = at
	}
	m.started = streaming.Started{ChatID: a.chat, UserMessageID: m.userID, MessageID: m.id, Resumed: m.attempt > 1, Offset: m.at}
	return m, nil
}

// stream sends the reply from the cursor on, and the connection ends after cut characters (-1: never).
func (a *api) stream(w http.ResponseWriter, m *received, cut int) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	e := streaming.NewEncoder(w, m.id)
	text := []rune(replyText(m.n))
	_ = e.Padding()
	_ = e.Started(m.started)
	_ = e.Ping()
	const piece = 7
	for at := m.at; at < len(text); at += piece {
		if cut >= 0 && at >= cut {
			return
		}
		_ = e.Chunk(streaming.Chunk{Offset: at, Text: []byte(string(text[at:min(at+piece, len(text))]))})
	}
	_ = e.Chunk(streaming.Chunk{End: &streaming.Terminal{Completed: a.completed(m, len(text))}})
}

// completed is the last event: all earlier turns were shown, three as the tail.
func (a *api) completed(m *received, length int) *streaming.Completed {
	earlier := m.n - 1
	receipt, err := json.Marshal(prompt.Receipt{
		Memories:  a.memories.shownFor(m.content),
		Topic:     a.topics.shownFor(m.content),
		Recalled:  a.topics.recalledFor(m.content),
		TailTurns: min(earlier, 3), TailTokens: 10 * min(earlier, 3), BridgeTurns: max(0, earlier-3), BridgeTokens: 10 * max(0, earlier-3),
	})
	if err != nil {
		a.t.Error(err)
	}
	return &streaming.Completed{
		MessageID: m.id, ChatID: a.chat, FinishReason: "stop", ContentLength: length, Memory: receipt,
		Usage: streaming.Usage{InputTokens: 100, CachedTokens: 40, OutputTokens: 5},
	}
}

// end ends the stream of a reply that says nothing.
func (a *api) end(w http.ResponseWriter, m *received, end streaming.Terminal) {
	w.Header().Set("Content-Type", "text/event-stream")
	e := streaming.NewEncoder(w, m.id)
	_ = e.Started(m.started)
	_ = e.Chunk(streaming.Chunk{End: &end})
}

func (a *api) fail(w http.ResponseWriter, m *received) {
	a.end(w, m, streaming.Terminal{Failed: &streaming.Failed{MessageID: m.id, Code: "upstream_failed", Message: "The model broke off."}})
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "message": message})
}
