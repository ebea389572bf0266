package httpapi

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
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

// What a request may be, internal/history and internal/chat check and their tests hold. These hold that each route reads all
// of its body and query, and tells what is wrong with them. CHAT, EMPTY, MESSAGE, MEMORY, TOPIC and MERGED stand for
// ids, NOWHERE for one of nothing.
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
	{post, firstPath, `{"content": "x", "files": [{"path": 7, "content": "x"}]}`, badField, "files[0].path"},
	{post, firstPath, `{"content": "x", "chat_id": "CHAT"}`, badBody, unknownField},
	{post, nextPath, hello, badField, "chat_id"},
	{post, nextPath, `{"content": "x", "chat_id": ""}`, badID, ""},
	{post, nextPath, `{"content": "x", "chat_id": "{CHAT}"}`, badID, ""},
	{post, nextPath, `{"content": "x", "chat_id": "00000000-0000-0000-0000-000000000000"}`, "chat_not_found", ""},
	{post, nextPath, `{"content": "x", "chat_id": "CHAT", "title": "y"}`, badBody, unknownField},

	{post, "/v1/chats", `{"titel": "x"}`, badBody, unknownField},
	{post, "/v1/chats", `{`, badBody, ""},
	{post, "/v1/chats", `{"tags": ["x", " "]}`, badField, "tags[1]"},
	{post, "/v1/chats", `{"ttl_hours": 1.5}`, badField, "ttl_hours"},
	{get, "/v1/chats?limit=many", "", badField, "limit"},
	{get, "/v1/chats?include_expired=1", "", badField, "include_expired"},
	{get, "/v1/chats?tag=%ff", "", badField, "tag"},
	{get, "/v1/chats?cursor=x", "", badBody, ""},
	{patch, "/v1/chats/CHAT", `{"tool_name": "x"}`, badBody, unknownField},
	{patch, "/v1/chats/CHAT", ``, "unsupported_media_type", ""},
	{patch, "/v1/chats/CHAT", `{"revive": "yes"}`, badField, "revive"},
	{patch, "/v1/chats/CHAT", `{"remember": null}`, badField, "remember"},
	{patch, "/v1/chats/CHAT", `{"title": "Changed", "max_turns": -1}`, badField, "max_turns"},
	{remove, "/v1/chats/CHAT?keep_memories=yes", "", badField, "keep_memories"},
	{get, "/v1/chats/CHAT/files?include=everything", "", badField, "include"},
	{get, "/v1/chats/CHAT/files?sha256=abc", "", badField, "sha256"},
	{get, "/v1/chats/CHAT/memory?model_variant=nobody", "", "unknown_model_variant", ""},
	{post, "/v1/chats/prune", `{}`, badField, "older_than_days"},
	{post, "/v1/chats/prune", `{"older_than_days": 9, "dry_run": "true"}`, badField, "dry_run"},
	{post, "/v1/chats/prune", ``, "unsupported_media_type", ""},
	{get, "/v1/chats/CHAT/export?format=pdf", "", badField, "format"},
	{post, "/v1/chats/CHAT/standalone", `{"content": " "}`, badField, "content"},

	{post, "/v1/chats/CHAT/messages", `{"messages": ["x"]}`, badField, "messages[0]"},
	{post, "/v1/chats/CHAT/messages", `{"messages": [{"role": "tool"}, {"role": "robot", "content": "x"}]}`, badField, "messages[1].role"},
	{post, "/v1/chats/CHAT/messages", `{"messages": [{"role": "assistant", "tool_calls": ["x"]}]}`, badField, "messages[0].tool_calls[0]"},
	{post, "/v1/chats/CHAT/messages", `{"messages": [{"role": "tool", "client_message_id": "x"}]}`, badField, "messages[0].client_message_id"},
	{post, "/v1/chats/CHAT/messages", `{"messages": [{"role": "tool", "status": "streaming"}]}`, badBody, unknownField},
	{get, "/v1/chats/CHAT/messages?after_seq=99999999999999999999", "", badField, "after_seq"},
	{get, "/v1/chats/CHAT/messages?before_seq=5&after_seq=1", "", badField, "after_seq"},
	{patch, "/v1/messages/MESSAGE", `{"content": "Never said."}`, badBody, unknownField},
	{patch, "/v1/messages/MESSAGE", `{"pinned": null}`, badField, "pinned"},
	{patch, "/v1/messages/MESSAGE", `{"importance": "high"}`, badField, "importance"},
	{post, "/v1/messages/MESSAGE/feedback", `{"rating": 0.5}`, badField, "rating"},
	{post, "/v1/messages/MESSAGE/feedback", `{"rating": 1, "why": "x"}`, badBody, unknownField},

	{post, "/v1/memories", `{}`, badField, "content"},
	{post, "/v1/memories", `{"content": "a", "durable": "yes"}`, badField, "durable"},
	{post, "/v1/memories", `{"content": "a", "confidence": 1}`, badBody, unknownField},
	{patch, "/v1/memories/MEMORY", `{"status": "superseded"}`, badField, "status"},
	{remove, "/v1/memories/MEMORY?also=everything", "", badField, "also"},
	{get, "/v1/memories?limit=201", "", badField, "limit"},
	{get, "/v1/memories?as_of=yesterday", "", badField, "as_of"},
	{get, "/v1/memories?q=a%00", "", badField, "q"},
	{get, "/v1/memories?cursor=x", "", badBody, ""},
	{post, "/v1/memories/forget", `{"query": "a", "token": "b"}`, badField, ""},
	{patch, "/v1/memories/settings", `{"enabled": null}`, badField, "enabled"},
	{patch, "/v1/memories/settings", `{"version": 7}`, badBody, unknownField},

	{get, "/v1/chats/CHAT/topics?state=gone", "", badField, "state"},
	{get, "/v1/chats/CHAT/topics?cursor=x", "", badBody, ""},
	{get, "/v1/chats/EMPTY/topics/current", "", "topic_not_found", ""},
	{get, "/v1/chats/CHAT/topics/CURRENT", "", badID, ""},
	{get, "/v1/chats/7/topics/TOPIC", "", badID, ""},
	{get, "/v1/chats/CHAT/topics/TOPIC/history?include_compressed=yes", "", badField, "include_compressed"},
	{patch, "/v1/chats/CHAT/topics/TOPIC", `{"tags": [""]}`, badField, "tags[0]"},
	{patch, "/v1/chats/CHAT/topics/TOPIC", `{"importance": "1"}`, badField, "importance"},
	{patch, "/v1/chats/CHAT/topics/TOPIC", `{"state": "archived"}`, badBody, unknownField},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{}`, badField, "into"},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{"into": "current"}`, badID, ""},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{"into": "NOWHERE"}`, "topic_not_found", ""},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{"into": "TOPIC"}`, badField, "into"},
	{post, "/v1/chats/CHAT/topics/TOPIC/merge", `{"into": "MERGED"}`, badField, "into"},

	{get, "/v1/search", "", badField, "q"},
	{get, "/v1/search?q=a&chat_id=", "", badField, "chat_id"},
	{get, "/v1/search?q=a&after=2026-11-21", "", badField, "after"},
	{get, "/v1/search?q=a&chat_id=00000000-0000-0000-0000-000000000000", "", "chat_not_found", ""},
	{get, "/v1/recall", "", badField, "q"},
	{get, "/v1/recall?q=a&topic_id=7", "", badID, ""},
	{get, "/v1/recall?q=a&chat_id=00000000-0000-0000-0000-000000000000", "", badID, ""},
	{get, "/v1/graph?depth=", "", badField, "depth"},
	{get, "/v1/graph?format=svg", "", badField, "format"},
	{get, "/v1/graph?as_of=2026-02-30", "", badField, "as_of"},
	{get, "/v1/graph?entity=%ff%fe", "", badField, "entity"},
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
	if after := testkit.Ask[string](t, k.pool, rowsOfUsers); after != before || len(k.store.turns) > 0 {
		t.Errorf("what was refused changed %s to %s", before, after)
	}
}

const rowsOfUsers = `select concat_ws(' ', (select string_agg(md5(c::text), ' ' order by id) from chats c), (select count(*) from messages),
	(select string_agg(md5(m::text), ' ' order by id) from memories m), (select string_agg(title, ' ' order by number) from topics))`

// Each route that names something tells when that is no id, or one of nothing.
func TestPathsAreRefused(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.server.config.Rewriter, k.server.config.Extracts = rewriter{fault.NoChat()}, extractor{fails: fault.NoChat()}
	chat := k.newChat("").ID.String()
	lastOfPath := regexp.MustCompile(`^(.*)\{(\w+)\}(.*)$`)
	for _, r := range routes() {
		parts := lastOfPath.FindStringSubmatch(strings.Replace(r.path, "{chat_id}/topics/", chat+"/topics/", 1))
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
		if answer.status != http.StatusUnauthorized {
			t.Errorf("%s %s: %d", r.method, r.path, answer.status)
		}
	}
}

// pathsOfChat are all routes that name a chat or a message, with a body that they accept.
func pathsOfChat(chatID, messageID uuid.UUID) [][3]string {
	chat, message := "/v1/chats/"+chatID.String(), "/v1/messages/"+messageID.String()
	return [][3]string{
		{http.MethodGet, chat, ""}, {http.MethodPatch, chat, `{"title": "Mine"}`}, {http.MethodPost, chat + "/clear", ""},
		{http.MethodGet, chat + "/files", ""}, {http.MethodGet, chat + "/messages", ""}, {http.MethodPatch, message, `{"pinned": true}`},
		{http.MethodDelete, message, ""}, {http.MethodDelete, chat, ""},
	}
}

func TestExpiredChatsAreGone(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chat := k.newChat("")
	message := k.talk(chat.ID, 1)[0]
	k.expire(chat.ID)
	for _, route := range pathsOfChat(chat.ID, message) {
		answer := k.call(route[0], route[1], route[2])
		if route[0] == http.MethodDelete {
			if answer.status != http.StatusNoContent {
				t.Errorf("%s %s: %d", route[0], route[1], answer.status)
			}
			continue
		}
		refused := answer.error(t)
		if answer.status != http.StatusGone || refused.Code != "chat_expired" || refused.Details["chat_id"] != chat.ID.String() ||
			refused.Details["expired_at"] == nil {
			t.Errorf("%s %s: %d %+v", route[0], route[1], answer.status, refused)
		}
	}
	again := k.newChat("")
	k.expire(again.ID)
	var revived history.Chat
	k.want(http.StatusOK, http.MethodPatch, "/v1/chats/"+again.ID.String(), `{"revive": true}`, &revived)
	if revived.Expired || !revived.ExpiresAt.After(revived.CreatedAt) {
		t.Errorf("%s", marshal(revived))
	}
	k.want(http.StatusOK, http.MethodGet, "/v1/chats/"+again.ID.String(), "", nil)
}

func TestWhatMustWaitForARunningReply(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chat := k.newChat("")
	running := testkit.Ask[uuid.UUID](t, k.pool,
		`insert into messages (chat_id, role, status, lease_until) values ($1, 'assistant', 'streaming', now() + interval '1 minute') returning id`, chat.ID)
	for _, route := range [][2]string{{http.MethodPost, "/v1/chats/" + chat.ID.String() + "/clear"}, {http.MethodDelete, "/v1/messages/" + running.String()}} {
		answer := k.call(route[0], route[1], "")
		if refused := answer.error(t); answer.status != http.StatusConflict || refused.Code != "generation_in_progress" ||
			refused.Details["message_id"] != running.String() {
			t.Errorf("%s %s: %d %s", route[0], route[1], answer.status, answer.body)
		}
	}
	k.want(http.StatusNoContent, http.MethodDelete, "/v1/chats/"+chat.ID.String(), "", nil)
}
