package httpapi

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

const someID = "5a0c1a52-3a44-4d58-9d3f-0d8f6a2b1c11"

func TestSameMessageWithAPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("naïve café"))
	body := marshal(map[string]any{"content": "a", "client_message_id": someID})
	events := h.call(http.MethodPost, firstPath, body).events(t)
	id, _ := events[0].data["message_id"].(string)
	after := h.call(http.MethodPost, firstPath, body, "Last-Event-ID", id+":6").events(t)
	assert.Truef(t, spoken(after) == "café" && after[0].data["offset"] == 6.0, "went on with %v", after)
	whole := h.call(http.MethodPost, firstPath, body, "Last-Event-ID", id+":6", "Accept", "application/json")
	assert.Truef(t, bytes.Contains(whole.body, []byte(`"content":"naïve café"`)),
		"one object is not the whole reply: %s", whole.body)
	for _, accept := range []string{"text/event-stream", "application/json"} {
		end := h.call(http.MethodPost, firstPath, body, "Last-Event-ID", last(events).id, "Accept", accept)
		assert.Truef(t, end.status == 204 && len(end.body) == 0, "after the end: %d %s", end.status, end.body)
	}
	bad := h.call(http.MethodPost, firstPath, body, "Last-Event-ID", "nonsense")
	assert.Truef(t, bad.status == 400 && errorCode(bad.body) == "bad_request",
		"a malformed place: %d %s", bad.status, bad.body)
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	send := func(headers ...string) string {
		id, _ := h.first("a", headers...).events(t)[0].data["message_id"].(string)
		return id
	}
	first := send("Idempotency-Key", "order 1")
	assert.Equal(t, first, send("Idempotency-Key", "order 1"), "the same key starts another reply")
	assert.True(t, send("Idempotency-Key", "order 2") != first, "another key joins the same reply")
	assert.True(t, send("Idempotency-Key", "order 1", "Authorization", token(uuid.New())) != first,
		"another user's key joins the same reply")
	asKey := send("Idempotency-Key", someID)
	inBody := h.call(http.MethodPost, firstPath, marshal(map[string]any{"content": "a", "client_message_id": someID}), "Idempotency-Key", "ignored").events(t)
	assert.True(t, inBody[0].data["message_id"] == asKey, "a uuid as key is not the client message id")
	for name, key := range map[string]string{"256 characters": strings.Repeat("k", 256), "a tab": "a\tb", "invalid UTF-8": "a\xffb"} {
		assert.Equalf(t, 400, h.first("a", "Idempotency-Key", key).status, "%s", name)
	}
	request := h.request(http.MethodPost, firstPath, hello)
	request.Header["Idempotency-Key"] = []string{""}
	assert.Equal(t, 400, h.do(request, hello).status, "an empty key")
	assert.Equal(t, 200, h.first("a", "Idempotency-Key", strings.Repeat("ü", 255)).status, "255 characters")
}

// A message that replaces another, or that follows what the client shows, is answered in each form as any other.
func TestReplacingReachesTheStore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	events := h.call(http.MethodPost, firstPath, marshal(map[string]any{"content": "a"})).events(t)
	asked, replied, chatID, content := events[0].data["user_message_id"], events[0].data["message_id"], events[0].data["chat_id"], "a"
	for name, form := range map[string][]string{
		"events": {"Accept", "text/event-stream"}, "json": {"Accept", "application/json"}, "ui": {"x-vercel-ai-ui-message-stream", "v1"},
	} {
		send := func(body map[string]any) chat.NewTurn {
			t.Helper()
			answer := h.call(http.MethodPost, nextPath, marshal(body), form...)
			require.Equalf(t, 200, answer.status, "%s: %s", name, answer.body)
			return h.lastTurn()
		}
		again := send(map[string]any{"replaces": replied, "last_message_id": replied})
		assert.Truef(t, again.Replacement.Again && again.UserMessageID.String() == asked && again.Content == content && again.Last.String() == replied,
			"%s: %+v", name, again)
		edit := send(map[string]any{"replaces": asked, "content": "b", "chat_id": chatID, "files": []any{}})
		assert.Truef(t, !edit.Replacement.Again && edit.Content == "b" && edit.UserMessageID.String() != asked && !edit.Replacement.KeepsFiles,
			"%s: %+v", name, edit)
		asked, replied, content = edit.UserMessageID.String(), edit.MessageID.String(), edit.Content
		for sent, want := range map[any]*uuid.UUID{nil: {}, someID: new(uuid.MustParse(someID))} {
			next := send(map[string]any{"chat_id": chatID, "content": "c", "last_message_id": sent})
			assert.Truef(t, next.Replacement == nil && *next.Last == *want, "%s: %+v", name, next)
		}
		assert.Nil(t, send(map[string]any{"chat_id": chatID, "content": "c"}).Last)
	}
}

// What a message brings reaches the store.
func TestMessageReachesTheStore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	h.call(http.MethodPost, firstPath, `{"content":" hi ","model_variant":"deep-dive","client_message_id":"`+someID+`","metadata":{"n":9007199254740993},
		"sources":[{"title":"t"}],"tool_name":"debug","files":[{"path":"a.go","content":"package a\n"},{"path":"b/empty.txt","content":""}],
		"importance":0.25,"topics":"on","remember":false}`)
	turn := h.lastTurn()
	if turn.Content != "hi" || turn.Variant != "deep-dive" || turn.ClientMessageID.String() != someID || turn.Metadata["n"] != int64(9007199254740993) {
		t.Errorf("stored %+v", turn)
	}
	assert.Truef(t, turn.ToolName == "debug" && turn.TTLHours == memory.ToolTTLHours && turn.MaxTurns == memory.ToolMaxTurns,
		"not a tool's: %+v", turn)
	if len(turn.Files) != 2 || turn.Files[0].File != (memory.File{Path: "a.go", Content: "package a\n"}) ||
		turn.Files[1].File != (memory.File{Path: "b/empty.txt"}) {
		t.Errorf("stored files %+v", turn.Files)
	}
	assert.Truef(t, *turn.Importance == .25 && turn.Topics == "on" && turn.Temporary,
		"stored %v, %q, temporary %v", *turn.Importance, turn.Topics, turn.Temporary)
	h.call(http.MethodPost, nextPath, nextBody(turn.ChatID, "more"))
	if turn := h.lastTurn(); turn.Importance != nil || turn.Temporary || turn.Topics != "" {
		t.Errorf("stored %+v", turn)
	}
	h.call(http.MethodPost, firstPath, `{"content":"hi","title":"Cello","system_prompt":"Speak of music.","tags":[" cello ","cello"],
		"memory_strategy":"hybrid","ttl_hours":24,"max_turns":9,"recall":"chat"}`)
	want := chat.Settings{Title: "Cello", SystemPrompt: new("Speak of music."), Tags: []string{"cello"}, Strategy: memory.StrategyHybrid, TTLHours: 24,
		MaxTurns: 9, Topics: "auto", Recall: "chat"}
	assert.Equal(t, "", cmp.Diff(want, h.lastTurn().Settings))
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	for kind, want := range map[string]int{
		"application/json; charset=utf-8": 200, "Application/JSON": 200, "application/json;": 200,
		"text/plain": 415, "": 415, "application/x-www-form-urlencoded": 415, "application/jsonx": 415, "json": 415,
	} {
		assert.Equalf(t, want, h.call(http.MethodPost, firstPath, hello, "Content-Type", kind).status, "%q", kind)
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	assert.Equal(t, 200, h.call(http.MethodPost, firstPath, bodyOf(maxBody)).status, "1 MiB")
	for name, change := range map[string]func(*http.Request){
		"with its length":    func(*http.Request) {},
		"without its length": func(r *http.Request) { r.ContentLength = -1 },
	} {
		for _, size := range []int{maxBody + 1, maxMessage + 1} {
			body := bodyOf(size)
			request := h.request(http.MethodPost, firstPath, body)
			change(request)
			if answer := h.do(request, body); answer.status != 413 || errorCode(answer.body) != "body_too_large" {
				t.Errorf("%d bytes %s: %d %s", size, name, answer.status, answer.body)
			}
		}
	}
	assert.Equal(t, 401, h.call(http.MethodPost, firstPath, bodyOf(8*maxBody), "Authorization", "").status,
		"a long body without a token")
}

func TestResume(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("naïve café"))
	events := h.first("a").events(t)
	chatID, _ := events[0].data["chat_id"].(string)
	messageID, _ := events[0].data["message_id"].(string)
	for _, test := range []struct {
		name, query, header string
		status              int
		want                string
	}{
		{"nothing is running", "", "", 204, ""},
		{"from the beginning", "?after=0", "", 200, "naïve café"},
		{"from a place", "?after=6", "", 200, "café"},
		{"past the end", "?after=99999999999999999999", "", 200, ""},
		{"the end", "?after=end", "", 204, ""},
		{"no place", "?after=", "", 400, ""},
		{"a bad place", "?after=-1", "", 400, ""},
		{"by event id", "", messageID + ":7", 200, "afé"},
		{"the event id wins", "?after=0", messageID + ":10", 200, ""},
		{"the last event id", "?after=0", messageID + ":end", 204, ""},
		{"a bad event id", "?after=0", "nonsense", 400, ""},
		{"an unknown reply", "", uuid.NewString() + ":0", 404, ""},
	} {
		answer := h.call(http.MethodGet, "/v1/message/"+chatID+"/stream"+test.query, "", "Last-Event-ID", test.header)
		if answer.status != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, answer.status, answer.body, test.status)
			continue
		}
		if test.status != 200 {
			continue
		}
		got := answer.events(t)
		assert.Truef(t, spoken(got) == test.want && got[0].data["resumed"] == true && last(got).name == streaming.EventCompleted,
			"%s: %v", test.name, got)
	}
	if answer := h.call(http.MethodGet, "/v1/message/nonsense/stream", ""); answer.status != 400 || errorCode(answer.body) != "bad_uuid" {
		t.Errorf("a bad uuid: %d %s", answer.status, answer.body)
	}
}

// lastTurn is what the store was asked to keep last.
func (h *harness) lastTurn() chat.NewTurn {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	require.True(h.t, len(h.store.turns) != 0, "no turn was stored")
	return h.store.turns[len(h.store.turns)-1].NewTurn
}

// A message with files may be longer than one without, and only by its files.
func TestBodyLimitOfFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	file := marshal(map[string]string{"path": "a.txt", "content": strings.Repeat("a\n", chat.MaxFileBytes/2)})
	files := "[" + file + strings.Repeat(","+file, chat.MaxFiles-1) + "]"
	if answer := h.call(http.MethodPost, firstPath, `{"content": "all of them", "files": `+files+`}`, "Accept", "application/json"); answer.status != 200 {
		t.Errorf("20 files of 256 KiB: %d %s", answer.status, answer.body)
	}
	got := len(h.lastTurn().Files)
	assert.Truef(t, got == chat.MaxFiles, "%d files were taken", got)
	long := `{"content": "a", "files": ` + files + `, "metadata": {"x": "` + strings.Repeat("y", maxBody) + `"}}`
	assert.Equal(t, 413, h.call(http.MethodPost, firstPath, long).status, "files beside a long body")
}

func TestContinuationIDIsTheChatID(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	var first struct {
		ChatID uuid.UUID `json:"chat_id"`
	}
	h.call(http.MethodPost, firstPath, hello, "Accept", "application/json").decode(t, &first)
	id := first.ChatID.String()
	for body, want := range map[string]int{
		`{"continuation_id": "` + id + `", "content": "a"}`:                                           200,
		`{"chat_id": "` + id + `", "continuation_id": "` + strings.ToUpper(id) + `", "content": "b"}`: 200,
		`{"chat_id": "` + id + `", "continuation_id": "` + uuid.NewString() + `", "content": "c"}`:    422,
		`{"continuation_id": "nonsense", "content": "d"}`:                                             400,
		`{"continuation_id": null, "content": "e"}`:                                                   422,
		`{"continuation_id": "` + uuid.NewString() + `", "content": "f"}`:                             404,
		`{"chat_id": "` + id + `", "content": "g", "revive": true}`:                                   200,
		`{"chat_id": "` + id + `", "content": "g", "revive": "yes"}`:                                  422,
	} {
		if answer := h.call(http.MethodPost, nextPath, body, "Accept", "application/json"); answer.status != want {
			t.Errorf("%s: %d %s", body, answer.status, answer.body)
		}
	}
}
