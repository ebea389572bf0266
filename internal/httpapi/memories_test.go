package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// remember stores what the user writes, and returns its path.
func (k keeper) remember(content string) string {
	k.t.Helper()
	var made history.Memory
	k.want(http.StatusCreated, http.MethodPost, "/v1/memories", marshal(map[string]any{"content": content}), &made)
	return "/v1/memories/" + made.ID.String()
}

// extractor answers with the same row for every chat.
type extractor struct {
	row   history.Extraction
	fails error
}

func (e extractor) Extract(_ context.Context, _ auth.Principal, chatID uuid.UUID) (history.Extraction, error) {
	e.row.ChatID = chatID
	return e.row, e.fails
}

// Every route of memories once.
func TestRoutesOfMemories(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	const all, settings = "/v1/memories", "/v1/memories/settings"
	k.walk(ask{get, all, "", 200, `{"memories":[],"next_cursor":null}`})
	answer := k.want(http.StatusCreated, post, all, `{"content": " Prefers oat milk. ", "type": "preference", "durable": true, "pinned": null}`, nil)
	milk := answer.header.Get("Location")
	said := k.talk(k.newChat("").ID, 1)
	testkit.Exec(t, k.pool, `insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		select $1, m.id, m.user_id, m.chat_id, m.seq, 'f', 'message', m.created_at from messages m where m.id = $2`, strings.TrimPrefix(milk, all+"/"), said[0])
	k.walk(
		ask{get, milk, "", 200, `"content":"Prefers oat milk."|"memory_type":"preference"|"durable":true|"origin":"user"|"quote":"message"|"seq":1`},
		ask{post, all, `{"content": "prefers oat milk"}`, 200, `"content":"Prefers oat milk."|"version":1`},
		ask{patch, milk, `{"content": "Prefers soy milk.", "pinned": true, "type": "fact", "status": "inbox"}`, 200,
			`"content":"Prefers soy milk."|"pinned":true|"memory_type":"fact"|"status":"inbox"|"edited":true|"version":2`},
		ask{get, milk + "/history", "", 200, `"action":"ADD","content":"Prefers oat milk."|"actor":"user"|"content":"Prefers soy milk."`},
		ask{remove, milk + "?also=summaries", "", 204, ""},
		ask{get, milk, "", 404, "memory_not_found"},
	)
	k.server.config.Extracts = extractor{row: history.Extraction{Result: "done", Dropped: json.RawMessage(`{"moment":1}`), Model: new("gpt")}}
	k.walk(ask{post, "/v1/chats/" + exampleChat + "/extract", "{}", 200, `"chat_id":"` + exampleChat + `"|"result":"done"|"dropped":{"moment":1}|"model":"gpt"`})
	k.remember("Her knee hurts <a lot>.")
	k.remember("Plays the cello.")
	var proposed struct{ Token string }
	k.want(http.StatusOK, post, all+"/forget", `{"query": "unicorns"}`, nil)
	if answer := k.want(http.StatusOK, post, all+"/forget", `{"query": "my knee"}`, &proposed); strings.Contains(string(answer.body), "forgotten") {
		t.Errorf("%s", answer.body)
	}
	file := k.want(http.StatusOK, get, all+"/export", "", nil)
	if got := file.header.Get("Content-Disposition"); got != `attachment; filename="memories.jsonl"` || file.header.Get("Content-Type") != mediaLines {
		t.Errorf("%q, %q", got, file.header.Get("Content-Type"))
	}
	k.walk(
		ask{get, all + "?limit=1", "", 200, `"content":"Plays the cello."|"next_cursor":"`},
		ask{get, all + "?q=knees&type=fact&status=active&as_of=" + time.Now().UTC().Format(time.DateOnly), "", 200, `"content":"Her knee hurts `},
		ask{get, all + "?as_of=2020-01-01", "", 200, `"memories":[]`},
		ask{post, all + "/forget", marshal(map[string]string{"token": proposed.Token}), 200, `{"forgotten":1}`},
		ask{get, settings, "", 200, `{"enabled":true,"time_zone":null,"language":null,"excluded":[]}`},
		ask{patch, settings, `{"enabled": false, "time_zone": "America/Lima", "language": "pt-BR", "excluded": [" a ", "a", "b"]}`, 200,
			`{"enabled":false,"time_zone":"America/Lima","language":"pt-BR","excluded":["a","b"]}`},
		ask{patch, settings, `{"time_zone": null}`, 200, `"time_zone":null,"language":"pt-BR"`},
		ask{remove, all, "", 200, `{"memories":1,"sources":0,"revisions":1,"entities":0,"relationships":0}`},
	)
	if !strings.Contains(string(file.body), `"content":"Her knee hurts <a lot>."`) {
		t.Errorf("exported %s", file.body)
	}
	k.user = testkit.NewUser(t, k.db)
	for _, c := range []struct {
		kind, body string
		status     int
		holds      string
	}{
		{mediaLines, string(file.body), 200, `{"format":"throughline","imported":2,"skipped":0,"refused":[]}`},
		{mediaLines, string(file.body), 200, `{"format":"throughline","imported":0,"skipped":2,"refused":[]}`},
		{"text/plain", "- Prefers tea\n- " + strings.Repeat("x", 501) + "\n", 200,
			`{"format":"list","imported":1,"skipped":0,"refused":[{"line":2,"reason":"bad_length"}]}`},
		{mediaLines, `{"content": "Good."}` + "\n" + `{"content": ""}`, 422, `"line":2`},
		{"image/png", "x", 415, "unsupported_media_type"},
		{mediaLines, strings.Repeat(" ", maxMemoryImport+1), 413, "body_too_large"},
	} {
		done := k.call(post, all+"/import", c.body, "Content-Type", c.kind)
		if done.status != c.status || !strings.Contains(string(done.body), c.holds) {
			t.Errorf("%s: %d %.200s", c.kind, done.status, done.body)
		}
	}
}

func TestMemoryOffIsToldOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	path := k.remember("Plays the cello.")
	k.server.config.Memories = postgres.NewUserMemories(k.pool, postgres.UserMemoriesOptions{Off: true})
	k.server.config.Extracts = extractor{fails: history.MemoryOff()}
	for path, body := range map[string]string{"/v1/memories": `{"content": "x"}`, "/v1/memories/import": `{"content": "x"}`,
		"/v1/chats/" + exampleChat + "/extract": ""} {
		if answer := k.call(http.MethodPost, path, body); answer.status != http.StatusConflict || answer.error(t).Code != "memory_off" {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
		}
	}
	k.want(http.StatusOK, http.MethodGet, path, "", nil)
	k.want(http.StatusOK, http.MethodGet, "/v1/memories/export", "", nil)
	k.want(http.StatusNoContent, http.MethodDelete, path, "", nil)
	k.want(http.StatusOK, http.MethodDelete, "/v1/memories", "", nil)
}

// newTopic gives all turns of a chat to a new topic, and returns its path.
func (k keeper) newTopic(chatID uuid.UUID, title string) string {
	k.t.Helper()
	testkit.Exec(k.t, k.pool, "select throughline.index_chat(id, last_seq) from chats where id = $1", chatID)
	id := testkit.Ask[uuid.UUID](k.t, k.pool,
		`with made as (insert into topics (chat_id, user_id, number, title, message_count, created_at, last_active_at, first_seq, last_seq)
		select chat_id, user_id, 1 + (select count(*) from topics t where t.chat_id = $1), $2, count(*), min(created_at), max(created_at), min(seq), max(seq)
		  from messages where chat_id = $1 group by chat_id, user_id returning id),
		given as (update turn_index i set topic_id = made.id from made where i.chat_id = $1 and i.topic_id is null)
		select id from made`, chatID, title)
	return fmt.Sprintf("/v1/chats/%s/topics/%s", chatID, id)
}

// Every route of a topic once.
func TestRoutesOfTopics(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chatID := k.newChat("").ID
	list := "/v1/chats/" + chatID.String() + "/topics"
	k.walk(ask{get, list, "", 200, `{"topics":[]}`})
	k.talk(chatID, 4)
	path := k.newTopic(chatID, "Bows")
	elsewhere := k.newChat("").ID
	k.talk(elsewhere, 2)
	other := k.newTopic(elsewhere, "Elsewhere")
	k.walk(
		ask{get, list, "", 200, `"title":"Bows"|"message_count":4`},
		ask{get, path, "", 200, `"title":"Bows"|"merged_into":null`},
		ask{get, path + "/history?include_compressed=true", "", 200, `"role":"user","content":"message 1","timestamp":`},
		ask{get, path + "/stats", "", 200, `"topic_title":"Bows"|"total_messages":4`},
		ask{get, path + "/archive", "", 200, `{"compressed_messages":null}`},
		ask{get, list + "/current/context", "", 200, `"content":"message 4"`},
		ask{patch, list + "/current", `{"title": " Bows\n and  strings ", "tags": ["cello", " cello"], "importance": 0.8}`, 200,
			`"title":"Bows and strings"|"tags":["cello"]|"importance":0.8,`},
		ask{get, path, "", 200, `"importance":0.8,`},
		ask{post, path + "/merge", `{"into": "` + other[strings.LastIndex(other, "/")+1:] + `"}`, 404, "topic_not_found"},
	)
	k.expire(chatID)
	k.walk(ask{get, list, "", 410, "chat_expired"}, ask{patch, path, `{}`, 410, "chat_expired"}, ask{get, path + "/context", "", 410, "chat_expired"})
}

// The graph is answered as JSON, or as a drawing's source.
func TestRoutesOfTheGraph(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	id := strings.TrimPrefix(k.remember("Ilse teaches the cello."), "/v1/memories/")
	testkit.Exec(t, k.pool, `
		with e as (insert into memory_entities (user_id, name, entity_type)
			values ($1, 'Ilse', 'person'), ($1, 'Cello', 'product') returning id, name),
		m as (insert into memory_mentions (user_id, memory_id, entity_id) select $1, $2, e.id from e)
		insert into memory_relationships (user_id, memory_id, source_entity_id, relationship, target_entity_id, valid_from)
		select $1, $2, i.id, 'teaches', o.id, '2026-03-01Z' from e i, e o where i.name = 'Ilse' and o.name = 'Cello'`, k.user, id)
	for format, want := range map[string][2]string{
		"":                                  {mediaJSON, `"target":"Cello","valid":true,"valid_from":"2026-03-01T00:00:00Z","valid_to":null`},
		"?format=json":                      {mediaJSON, `{"name":"Ilse","type":"person","mentions":1}`},
		"?entity=nobody":                    {mediaJSON, `{"entities":[],"relationships":[]}`},
		"?format=mermaid&entity=%20Ilse%20": {mediaMermaid + "; charset=utf-8", `-->|"teaches"|`},
		"?format=dot":                       {mediaDOT + "; charset=utf-8", `[label="teaches"]`},
	} {
		answer := k.want(http.StatusOK, get, "/v1/graph"+format, "", nil)
		if kind := answer.header.Get("Content-Type"); kind != want[0] || !strings.Contains(string(answer.body), want[1]) {
			t.Errorf("%s: %s %s", format, kind, answer.body)
		}
	}
}

// rewriter makes questions longer, or fails.
type rewriter struct{ fails error }

func (r rewriter) Standalone(_ context.Context, _ auth.Principal, _ uuid.UUID, content string) (history.Standalone, error) {
	return history.Standalone{Content: content + " of the cello", Rewritten: true}, r.fails
}

func TestQuestionIsRewritten(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), func(config *Config) { config.Rewriter, config.MessagesPerMinute = rewriter{}, 1 })
	path := "/v1/chats/" + uuid.NewString() + "/standalone"
	if got := h.call(http.MethodPost, path,
		`{"content": " And the second string "}`); string(got.body) != `{"content":"And the second string of the cello","rewritten":true}`+"\n" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := h.call(http.MethodPost, path, `{"content": "And?"}`); got.status != http.StatusTooManyRequests {
		t.Errorf("a second one in the same minute: %d %s", got.status, got.body)
	}
	failing := newHarness(t, says("x"), func(config *Config) {
		config.Rewriter = rewriter{fault.New(fault.UpstreamTimeout, "The model took too long.")}
	})
	if got := failing.call(http.MethodPost, path, `{"content": "And?"}`); got.status != http.StatusGatewayTimeout {
		t.Errorf("a model that is too slow: %d %s", got.status, got.body)
	}
}
