package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// keeper is a harness whose chats are kept in Postgres, with a user there.
type keeper struct {
	*harness
	db    testkit.Database
	pool  *pgxpool.Pool
	files transfer.Store
}

func newKeeper(t *testing.T, change ...func(*Config)) keeper {
	db := testkit.NewDatabase(t)
	k := keeper{db: db, pool: testkit.NewPool(t, db.DSN)}
	enqueued := func(context.Context, pgx.Tx, uuid.UUID) error { return nil }
	store := postgres.NewHistory(k.pool, memory.Limits{}, postgres.Enqueue{Fold: enqueued})
	memories := &postgres.UserMemories{Pool: k.pool, Options: postgres.UserMemoriesOptions{}}
	topics := &postgres.UserTopics{Pool: k.pool, Options: postgres.UserTopicsOptions{Settings: topics.Defaults()}}
	k.files = postgres.NewTransfer(k.pool, memory.DefaultLimits(), postgres.Enqueue{Fold: enqueued}, postgres.UserMemoriesOptions{})
	k.harness = newHarness(t, says("x"), append([]func(*Config){func(config *Config) {
		config.History, config.Memories, config.Topics, config.Graph = store, memories, topics, &postgres.Graph{Pool: k.pool}
		config.Transfer = transferOf(t, k.files)
	}}, change...)...)
	k.user = testkit.NewUser(t, db)
	return k
}

func transferOf(t *testing.T, store transfer.Store) *transfer.Service {
	return transfer.New(transfer.Config{Store: store, Logger: slog.New(slog.DiscardHandler), TempDir: t.TempDir()})
}

// in returns the keeper for a subtest, with a user of its own.
func (k keeper) in(t *testing.T) keeper {
	sub := *k.harness
	sub.t, sub.user = t, testkit.NewUser(t, k.db)
	return keeper{&sub, k.db, k.pool, k.files}
}

// want sends a request and wants a status; into takes the answer, if it is not nil.
func (k keeper) want(status int, method, path, body string, into any, headers ...string) answered {
	k.t.Helper()
	answer := k.call(method, path, body, headers...)
	require.Truef(k.t, answer.status == status, "%s %s: %d %s", method, path, answer.status, answer.body)
	if into != nil {
		answer.decode(k.t, into)
	}
	return answer
}

// newChat makes a chat over HTTP.
func (k keeper) newChat(body string) api.Chat {
	k.t.Helper()
	var made api.Chat
	k.want(http.StatusCreated, http.MethodPost, "/v1/chats", body, &made)
	return made
}

// talk stores messages as if they had been said: user, assistant, user …
func (k keeper) talk(chatID uuid.UUID, messages int) []uuid.UUID {
	return testkit.Ask[[]uuid.UUID](k.t, k.pool, `with said as (insert into messages (chat_id, role, content)
		select $1, case when n % 2 = 1 then 'user' else 'assistant' end, 'message ' || n from generate_series(1, $2) n order by n returning id, seq)
		select array_agg(id order by seq) from said`, chatID, messages)
}

func (k keeper) expire(chatID uuid.UUID) {
	testkit.Exec(k.t, k.pool, "update chats set ttl_hours = 1, created_at = now() - interval '3 hours', last_message_at = now() - interval '2 hours' "+
		"where id = $1", chatID)
}

// ask is a request and what its answer holds: parts of JSON, between bars.
type ask struct {
	method, path, body string
	status             int
	holds              string
}

// walk asks one after another.
func (k keeper) walk(asks ...ask) {
	k.t.Helper()
	for _, s := range asks {
		answer := k.want(s.status, s.method, s.path, s.body, nil)
		for part := range strings.SplitSeq(s.holds, "|") {
			assert.Containsf(k.t, string(answer.body), part,
				"%s %s %s: no %s in %s", s.method, s.path, s.body, part, answer.body)
		}
	}
}

// Every route of a chat once; what they do is tested where Postgres is.
func TestRoutesOfAChat(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	for name, body := range map[string]string{"no body": "", "blanks": " \n", "nulls": `{"title": null, "tags": null, "ttl_hours": null, "topics": null}`} {
		if made := k.newChat(body); made.Title != "" || made.TTLHours != nil || !made.Remember || made.Topics != "auto" {
			t.Errorf("%s: %s", name, marshal(made))
		}
	}
	var made api.Chat
	answer := k.want(http.StatusCreated, post, "/v1/chats", `{"title": "Scales", "system_prompt": "Be brief.", "metadata": {"a": [1]},
		"tags": ["cello"], "memory_strategy": "hybrid", "ttl_hours": 24, "max_turns": 9, "tool_name": "lookup"}`, &made)
	chat := "/v1/chats/" + made.ID.String()
	assert.Equal(t, chat, answer.header.Get("Location"), "Location")
	read := k.want(http.StatusOK, get, chat, "", nil)
	assert.Equalf(t, string(answer.body), string(read.body), "read %s, made %s", read.body, answer.body)
	id := uuid.NewString()
	call := `{"role": "assistant", "tool_calls": [{"id": "c1", "n": 12345678901234567}], "client_message_id": "` + id + `"}`
	messages := `{"messages": [{"role": "user", "content": "In tune?"}, ` + call + `, {"role": "tool", "content": "Half a pair: \ud800"}]}`
	k.walk(
		ask{patch, chat, `{"title": null, "system_prompt": null, "ttl_hours": null, "tags": ["a", "b"]}`, 200,
			`"title":""|"system_prompt":null|"ttl_hours":null|"tags":["a","b"]|"max_turns":9|"memory_strategy":"hybrid"`},
		ask{patch, chat, `{"metadata": null, "tags": null, "memory_strategy": null, "max_turns": null, "topics": "off", "remember": false}`, 200,
			`"metadata":{}|"tags":[]|"memory_strategy":"summary"|"max_turns":null|"topics":"off"|"remember":false`},
		ask{patch, chat, `{}`, 200, `"topics":"off"`},
		ask{get, "/v1/chats?limit=1", "", 200, `"id":"` + made.ID.String() + `"|"next_cursor":"`},
		ask{get, "/v1/chats?tag=none", "", 200, `{"chats":[],"next_cursor":null}`},
		ask{post, chat + "/messages", messages, 200, `"seq":1|"role":"tool"|12345678901234567|Half a pair: �|"client_message_id":"` + id},
		ask{get, chat + "/messages?limit=2&before_seq=3", "", 200, `"seq":1|"seq":2|"has_more":false`},
		ask{get, chat + "/messages?limit=1&after_seq=1", "", 200, `"seq":2|"has_more":true`},
		ask{get, chat + "/memory?content=tune", "", 404, "chat_not_found"}, // of which this store knows nothing
		ask{get, "/v1/search?q=tune&role=user&limit=1&chat_id=" + made.ID.String(), "", 200, `"seq":1|"snippet":"In tune"|"highlights":[{"start":3,"end":7}]`},
		ask{get, "/v1/search?q=tune&before=2020-01-01T00:00:00Z", "", 200, `{"results":[]}`},
		ask{get, "/v1/stats", "", 200, `{"chats":4,"expired_chats":0,"turns":1,"messages":3,"tokens":{"reply":{"input":0|"stored_bytes":{"messages":`},
	)
	message := testkit.Ask[uuid.UUID](t, k.pool, "select id from messages where chat_id = $1 and seq = 1", made.ID)
	answered := testkit.Ask[uuid.UUID](t, k.pool, `with other as (insert into messages (chat_id, role, content, superseded_by, parent_id)
		select chat_id, 'assistant', 'Once.', id, parent_id from messages where chat_id = $1 and seq = 2 returning id) select id from other`, made.ID)
	k.walk(
		ask{get, chat + "/messages", "", 200, `"seq":3,|"parent_id":null|"version":1,"versions":2|"has_more":false`},
		ask{get, chat + "/messages?versions=all", "", 200, `"content":"Once."|"version":2,"versions":2`},
		ask{get, "/v1/messages/" + answered.String() + "/versions", "", 200, `{"versions":[{|"content":"Once."|"selected":"`},
		ask{post, "/v1/messages/" + answered.String() + "/select", `{"last_message_id": null}`, 409, `conversation_changed|"last_message_id":"`},
		ask{post, "/v1/messages/" + answered.String() + "/select", "", 200,
			`"chat_id":"|"selected":"` + answered.String() + `","from_seq":2,"last_message_id":"` + answered.String()},
		ask{post, "/v1/messages/" + answered.String() + "/select", "{}", 200, `"from_seq":null`},
		ask{get, chat + "/messages", "", 200, `"content":"Once."|"has_more":false`},
	)
	testkit.Exec(t, k.pool, "insert into chat_files (chat_id, user_id, sha256, content, token_count) values ($1, $2, sha256('abc'), 'abc', 2)", made.ID, k.user)
	testkit.Exec(t, k.pool, `insert into message_files (message_id, place, chat_id, user_id, path, sha256) values ($1, 1, $2, $3, 'a.go', sha256('abc'))`,
		message, made.ID, k.user)
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	testkit.Exec(t, k.pool, "update chats set created_at = now() - interval '9 days', last_message_at = now() - interval '8 days' where id = $1", made.ID)
	k.walk(
		ask{get, chat + "/files", "", 200, `"path":"a.go"|"sha256":"` + sum + `"|"bytes":3`},
		ask{get, chat + "/files?include=content&sha256=" + sum, "", 200, `"content":"abc"`},
		ask{get, chat + "/messages", "", 200, `"files":[{|"path":"a.go"`},
		ask{patch, "/v1/messages/" + message.String(), `{"pinned": true, "importance": 0.5}`, 200, `"pinned":true|"importance":0.5|"content":"In tune?"`},
		ask{patch, "/v1/messages/" + message.String(), `{"importance": null}`, 200, `"pinned":true|"importance":null`},
		ask{post, "/v1/messages/" + message.String() + "/feedback", `{"rating": -1}`, 200, `"rating":-1`},
	)
	first := k.want(http.StatusOK, get, chat+"/messages", "", nil).header.Get("ETag")
	for _, tag := range []string{first, "W/" + first} {
		assert.Empty(t, k.want(http.StatusNotModified, get, chat+"/messages", "", nil, "If-None-Match", tag).body)
	}
	k.walk(
		ask{remove, "/v1/messages/" + message.String(), "", 204, ""},
		ask{remove, "/v1/messages/" + message.String(), "", 404, "message_not_found"},
	)
	assert.NotEqual(t, first, k.want(http.StatusOK, get, chat+"/messages", "", nil, "If-None-Match", first).header.Get("ETag"))
	k.walk(
		ask{post, chat + "/clear", "", 200, `"cleared_seq":4|"brief_version":1`},
		ask{post, "/v1/chats/prune", `{"older_than_days": 9}`, 200, `{"dry_run":false,"chats":0,"messages":0,"chat_ids":[]}`},
		ask{post, "/v1/chats/prune", `{"older_than_days": 8, "dry_run": true}`, 200, `"dry_run":true,"chats":1,"messages":3,"chat_ids":["` + made.ID.String()},
		ask{remove, chat + "?keep_memories=true", "", 204, ""},
		ask{get, chat, "", 404, "chat_not_found"},
		ask{remove, chat, "", 404, "chat_not_found"},
	)
}

// remember stores what the user writes, and returns its path.
func (k keeper) remember(content string) string {
	k.t.Helper()
	var made api.Memory
	k.want(http.StatusCreated, http.MethodPost, "/v1/memories", marshal(map[string]any{"content": content}), &made)
	return "/v1/memories/" + made.ID.String()
}

// extractor answers with the same row for every chat.
type extractor struct {
	row   api.Extraction
	fails error
}

func (e extractor) Extract(_ context.Context, _ auth.Principal, chatID uuid.UUID) (api.Extraction, error) {
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
	k.server.config.Extracts = extractor{row: api.Extraction{Result: "done", Dropped: json.RawMessage(`{"moment":1}`), Model: new("gpt")}}
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
	assert.Containsf(t, string(file.body), `"content":"Her knee hurts <a lot>."`, "exported %s", file.body)
	k.user = testkit.NewUser(t, k.db)
	for _, c := range []struct {
		kind, body string
		status     int
		holds      string
	}{
		{mediaLines, string(file.body), 200, `{"format":"throughline","imported":2,"skipped":0,"full":0,"refused":[]}`},
		{mediaLines, string(file.body), 200, `{"format":"throughline","imported":0,"skipped":2,"full":0,"refused":[]}`},
		{"text/plain", "- Prefers tea\n- " + strings.Repeat("x", 501) + "\n", 200,
			`{"format":"list","imported":1,"skipped":0,"full":0,"refused":[{"line":2,"reason":"bad_length"}]}`},
		{mediaLines, `{"content": "Good."}` + "\n" + `{"content": ""}`, 422, `"line":2`},
		{"image/png", "x", 415, "unsupported_media_type"},
		{mediaLines, strings.Repeat(" ", maxMemoryImport+1), 413, "body_too_large"},
	} {
		done := k.call(post, all+"/import", c.body, "Content-Type", c.kind)
		assert.Truef(t, done.status == c.status && strings.Contains(string(done.body), c.holds),
			"%s: %d %.200s", c.kind, done.status, done.body)
	}
	k.server.config.Memories = &postgres.UserMemories{Pool: k.pool, Options: postgres.UserMemoriesOptions{Off: true}}
	k.walk(ask{post, all, `{"content": "x"}`, 409, "memory_off"}, ask{post, all + "/import", `{"content": "x"}`, 409, "memory_off"}, ask{get, all, "", 200, "tea"})
}

// newTopic gives all turns of a chat to a new topic, and returns its path.
func (k keeper) newTopic(chatID uuid.UUID, title string) string {
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
		kind := answer.header.Get("Content-Type")
		assert.Truef(t, kind == want[0] && strings.Contains(string(answer.body), want[1]),
			"%s: %s %s", format, kind, answer.body)
	}
}

// rewriter makes questions longer, or fails.
type rewriter struct{ fails error }

func (r rewriter) Standalone(_ context.Context, _ auth.Principal, _ uuid.UUID, asked api.Question) (api.Standalone, error) {
	return api.Standalone{Content: asked.Content + " of the cello", Rewritten: true}, r.fails
}

func TestQuestionIsRewritten(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), func(config *Config) { config.Rewriter, config.MessagesPerMinute = rewriter{}, 1 })
	path := "/v1/chats/" + uuid.NewString() + "/standalone"
	if got := h.call(http.MethodPost, path,
		`{"content": " And the second string "}`); string(got.body) != `{"content":"And the second string of the cello","rewritten":true}`+"\n" {
		t.Errorf("%d %s", got.status, got.body)
	}
	got := h.call(http.MethodPost, path, `{"content": "And?"}`)
	assert.Truef(t, got.status == http.StatusTooManyRequests,
		"a second one in the same minute: %d %s", got.status, got.body)
	failing := newHarness(t, says("x"), func(config *Config) {
		config.Rewriter = rewriter{fault.New(fault.UpstreamTimeout, "The model took too long.")}
	})
	got = failing.call(http.MethodPost, path, `{"content": "And?"}`)
	assert.Truef(t, got.status == http.StatusGatewayTimeout, "a model that is too slow: %d %s", got.status, got.body)
}
