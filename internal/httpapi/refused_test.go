package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// refusedCase is a request that is refused, with its code and, where that is told, the field.
type refusedCase struct {
	method, path, body, code, field string
}

const (
	post, get, patch, remove = http.MethodPost, http.MethodGet, http.MethodPatch, http.MethodDelete
	badField, badBody, badID = "validation_failed", "bad_request", "bad_uuid"
	unknownField             = "unknown_fields"
)

// What a request may be, internal/api and internal/chat check and their tests hold. These hold that routes tell it.
// CHAT, EMPTY, MESSAGE, MEMORY, TOPIC and MERGED stand for ids, NOWHERE for one of nothing.
var refusedCases = []refusedCase{
	{post, firstPath, `{}`, badField, "content"},
	{post, firstPath, `{"content": "x", "memory_strategy": "forget"}`, badField, "memory_strategy"},
	{post, firstPath, `{"content": "x", "tags": ["` + strings.Repeat("ä", 65) + `"]}`, badField, "tags[0]"},
	{post, firstPath, `{"content": "x", "system_prompt": "a\u0000b"}`, badField, "system_prompt"},
	{post, firstPath, `{"content": "x", "client_message_id": "abc"}`, badField, "client_message_id"},
	{post, firstPath, `{"content": "x", "client_message_id": "00000000-0000-0000-0000-000000000000"}`, badField, "client_message_id"},
	{post, firstPath, `{"content": "x", "sources": [{"content": "` + strings.Repeat("é", 8001) + `"}]}`, badField, "sources[0].content"},
	{post, firstPath, `{"content": "x", "metadata": {"a": "\u0000"}}`, badField, "metadata"},
	{post, firstPath, `{"content": "x", "importance": 1.5}`, badField, "importance"},
	{post, firstPath, `{"content": "x", "files": [{"path": "a.png", "content": "\u0089PNG\u0000"}]}`, badField, "files[0]"},
	{post, nextPath, hello, badField, "chat_id"},
	{post, nextPath, `{"content": "x", "chat_id": ""}`, badID, ""},
	{post, nextPath, `{"content": "x", "chat_id": "{CHAT}"}`, badID, ""},
	{post, nextPath, `{"content": "x", "chat_id": "00000000-0000-0000-0000-000000000000"}`, "chat_not_found", ""},
	{post, nextPath, `{"chat_id": "CHAT"}`, badField, "content"},
	{post, nextPath, `{"chat_id": "CHAT", "content": "x", "last_message_id": "x"}`, badField, "last_message_id"},
	{post, nextPath, `{"replaces": "x", "content": "x"}`, badField, "replaces"},
	{post, nextPath, `{"replaces": "NOWHERE", "content": " "}`, badField, "content"},
	{post, nextPath, `{"replaces": "NOWHERE", "files": [{"path": "a", "content": "x"}]}`, badField, "files"},
	{post, nextPath, `{"replaces": "NOWHERE"}`, "message_not_found", ""},
	{post, nextPath, `{"replaces": "NOWHERE", "chat_id": "00000000-0000-0000-0000-000000000000"}`, "chat_not_found", ""},

	{post, "/v1/chats", `{`, badBody, ""},
	{post, "/v1/chats", `{"tags": ["x", " "]}`, badField, "tags[1]"},
	{patch, "/v1/chats/CHAT", ``, "unsupported_media_type", ""},
	{patch, "/v1/chats/CHAT", `{"remember": null}`, badField, "remember"},
	{patch, "/v1/chats/CHAT", `{"title": "Changed", "max_turns": -1}`, badField, "max_turns"},
	{get, "/v1/chats/CHAT/memory?model_variant=nobody", "", "unknown_model_variant", ""},
	{post, "/v1/chats/prune", `{}`, badField, "older_than_days"},
	{post, "/v1/chats/prune", ``, "unsupported_media_type", ""},
	{post, "/v1/chats/CHAT/standalone", `{"content": " "}`, badField, "content"},

	{post, "/v1/chats/CHAT/messages", `{"messages": [{"role": "tool"}, {"role": "robot", "content": "x"}]}`, badField, "messages[1].role"},
	{post, "/v1/chats/CHAT/messages", `{"messages": [{"role": "assistant", "tool_calls": ["x"]}]}`, badField, "messages[0].tool_calls[0]"},
	{post, "/v1/chats/CHAT/messages", `{"messages": [{"role": "tool", "client_message_id": "x"}]}`, badField, "messages[0].client_message_id"},
	{get, "/v1/chats/CHAT/messages?before_seq=5&after_seq=1", "", badField, "after_seq"},
	{get, "/v1/chats/CHAT/messages?versions=some", "", badField, "versions"},
	{patch, "/v1/messages/MESSAGE", `{"pinned": null}`, badField, "pinned"},
	{post, "/v1/messages/MESSAGE/select", `{"last_message_id": "x"}`, badField, "last_message_id"},
	{post, "/v1/messages/MESSAGE/feedback", `{"rating": 0.5}`, badField, "rating"},

	{post, "/v1/memories", `{}`, badField, "content"},
	{patch, "/v1/memories/MEMORY", `{"status": "superseded"}`, badField, "status"},
	{get, "/v1/memories?q=a%00", "", badField, "q"},
	{post, "/v1/memories/forget", `{"query": "a", "token": "b"}`, badField, ""},
	{patch, "/v1/memories/settings", `{"enabled": null}`, badField, "enabled"},

	{get, "/v1/chats/EMPTY/topics/current", "", "topic_not_found", ""},
	{get, "/v1/chats/CHAT/topics/CURRENT", "", badID, ""},
	{get, "/v1/chats/7/topics/TOPIC", "", badID, ""},
	{patch, "/v1/chats/CHAT/topics/TOPIC", `{"tags": [""]}`, badField, "tags[0]"},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{}`, badField, "into"},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{"into": "current"}`, badID, ""},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{"into": "NOWHERE"}`, "topic_not_found", ""},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{"into": "TOPIC"}`, badField, "into"},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{"into": "MERGED"}`, badField, "into"},

	{get, "/v1/search", "", badField, "q"},
	{get, "/v1/search?q=a&chat_id=00000000-0000-0000-0000-000000000000", "", "chat_not_found", ""},
	{get, "/v1/recall", "", badField, "q"},
	{get, "/v1/recall?q=a&topic_id=7", "", badID, ""},
	{get, "/v1/recall?q=a&chat_id=00000000-0000-0000-0000-000000000000", "", badID, ""},
	{get, "/v1/graph?as_of=2026-02-30", "", badField, "as_of"},
}

func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.server.config.Rewriter = rewriter{}
	chat := k.newChat(`{"title": "Unchanged"}`)
	message := k.talk(chat.ID, 2)[0]
	last := func(path string) string { return path[strings.LastIndex(path, "/")+1:] }
	topic, merged := last(k.newTopic(chat.ID, "Bows")), last(k.newTopic(chat.ID, "Merged"))
	testkit.Exec(t, k.pool, "update topics set state = 'merged', merged_into = $1 where title = 'Merged'", topic)
	ids := strings.NewReplacer("CHAT", chat.ID.String(), "EMPTY", k.newChat("").ID.String(), "MESSAGE", message.String(), "TOPIC", topic, "MERGED", merged,
		"MEMORY", last(k.remember("Plays the cello.")), "NOWHERE", uuid.NewString())
	before := testkit.Ask[string](t, k.pool, rowsOfUsers)
	for _, c := range refusedCases {
		answer := k.call(c.method, ids.Replace(c.path), ids.Replace(c.body))
		refused := answer.error(t)
		if _, named := refused.Details[c.field]; refused.Code != c.code || c.field != "" && !named {
			t.Errorf("%s %s %.60s: %d %+v", c.method, c.path, c.body, answer.status, refused)
		}
	}
	after := testkit.Ask[string](t, k.pool, rowsOfUsers)
	assert.Truef(t, after == before && len(k.store.turns) == 0, "what was refused changed %s to %s", before, after)
}

// Each route reads all of its query and body, and tells which of their fields is none.
func TestFieldsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	parameter := regexp.MustCompile(`\{\w+\}`)
	refuses := func(r route, field, query, body string, codes ...string) {
		t.Helper()
		refused := h.call(r.method, parameter.ReplaceAllString(r.path, exampleChat)+query, body).error(t)
		named := slices.ContainsFunc(slices.Collect(maps.Keys(refused.Details)), func(name string) bool { return strings.HasPrefix(name, field) })
		assert.Truef(t, slices.Contains(codes, refused.Code) && (refused.Code == badID || refused.Code == badBody || named),
			"%s %s, %s: %+v", r.method, r.path, field, refused)
	}
	for _, r := range routes() {
		if r.body() != nil {
			refuses(r, unknownField, "", `{"surprise": 1}`, badBody)
			for field, as := range fieldsByTag(r.body(), "json") {
				if as.Type == reflect.TypeFor[api.Field[json.RawMessage]]() {
					continue // any value is one
				}
				refuses(r, field, "", `{"`+field+`": [[]]}`, badField)
			}
		}
		if r.query() != nil {
			for field := range fieldsByTag(r.query(), "query") {
				refuses(r, field, "?"+field+"=%ff%fe&q=a", "", badField, badID, badBody)
			}
		}
	}
}

const rowsOfUsers = `select concat_ws(' ', (select string_agg(md5(c::text), ' ' order by id) from chats c), (select count(*) from messages),
	(select string_agg(md5(m::text), ' ' order by id) from memories m), (select string_agg(title, ' ' order by number) from topics))`

// Each route that names something tells when that is no id, or one of nothing.
func TestPathsAreRefused(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.server.config.Rewriter, k.server.config.Extracts = rewriter{fault.NoChat()}, extractor{fails: fault.NoChat()}
	k.server.config.Chat = &calls{Chat: k.chat, fails: api.NoMessage()}
	chat := k.newChat("").ID.String()
	lastOfPath := regexp.MustCompile(`^(.*)\{(\w+)\}(.*)$`)
	for _, r := range routes() {
		parts := lastOfPath.FindStringSubmatch(strings.NewReplacer("{chat_id}/topics/", chat+"/topics/", "{call_id}", "call_1").Replace(r.path))
		if parts == nil {
			continue
		}
		for id, want := range map[string]fault.Code{"7": fault.BadUUID, uuid.NewString(): pathIDs[parts[2]]} {
			if answer := k.call(r.method, parts[1]+id+parts[3], string(routeDocs()[r.id].example)); errorCode(answer.body) != string(want) {
				t.Errorf("%s %s with %s: %d %s", r.method, r.path, id, answer.status, answer.body)
			}
		}
	}
}

// Each route of users' data wants a token, before it looks at anything else.
func TestRoutesNeedAToken(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), withTools(echoBody))
	parameter := regexp.MustCompile(`\{\w+\}`)
	for _, r := range routes() {
		if r.public {
			continue
		}
		answer := h.call(r.method, parameter.ReplaceAllString(r.path, "nonsense"), "{", "Content-Type", "text/plain", "Authorization", "")
		assert.Equalf(t, http.StatusUnauthorized, answer.status, "%s %s", r.method, r.path)
	}
}
