package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestBadRequestsAboutChatsAreRefused(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chat := k.newChat(`{"title": "Unchanged"}`)
	one, message := "/v1/chats/"+chat.ID.String(), "/v1/messages/"+k.talk(chat.ID, 1)[0].String()
	post, get, patch, remove := http.MethodPost, http.MethodGet, http.MethodPatch, http.MethodDelete
	long := func(n int) string { return strings.Repeat("ä", n) }
	for _, c := range []struct {
		method, path, body, code, detail string
	}{
		{post, "/v1/chats", `{"titel": "x"}`, "bad_request", "unknown_fields"},
		{post, "/v1/chats", `{"revive": true}`, "bad_request", "unknown_fields"},
		{post, "/v1/chats", `{`, "bad_request", ""},
		{post, "/v1/chats", `[]`, "bad_request", ""},
		{post, "/v1/chats", `{"title": 1}`, "validation_failed", "title"},
		{post, "/v1/chats", `{"title": "` + long(501) + `"}`, "validation_failed", "title"},
		{post, "/v1/chats", `{"title": "a\u0000b"}`, "validation_failed", "title"},
		{post, "/v1/chats", `{"system_prompt": "` + long(32001) + `"}`, "validation_failed", "system_prompt"},
		{post, "/v1/chats", `{"metadata": []}`, "validation_failed", "metadata"},
		{post, "/v1/chats", `{"metadata": {"a": "\u0000"}}`, "validation_failed", "metadata"},
		{post, "/v1/chats", `{"tags": "x"}`, "validation_failed", "tags"},
		{post, "/v1/chats", `{"tags": ["x", null]}`, "validation_failed", "tags"},
		{post, "/v1/chats", `{"tags": ["x", " "]}`, "validation_failed", "tags[1]"},
		{post, "/v1/chats", `{"tags": ["` + long(65) + `"]}`, "validation_failed", "tags[0]"},
		{post, "/v1/chats", `{"tags": ["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17","18","19","20","21"]}`, "validation_failed", "tags"},
		{post, "/v1/chats", `{"memory_strategy": "forget"}`, "validation_failed", "memory_strategy"},
		{post, "/v1/chats", `{"ttl_hours": 0}`, "validation_failed", "ttl_hours"},
		{post, "/v1/chats", `{"ttl_hours": 87601}`, "validation_failed", "ttl_hours"},
		{post, "/v1/chats", `{"ttl_hours": 1.5}`, "validation_failed", "ttl_hours"},
		{post, "/v1/chats", `{"ttl_hours": 1e99}`, "validation_failed", "ttl_hours"},
		{post, "/v1/chats", `{"max_turns": "3"}`, "validation_failed", "max_turns"},
		{post, "/v1/chats", `{"max_turns": 100001}`, "validation_failed", "max_turns"},
		{post, "/v1/chats", `{"tool_name": ""}`, "validation_failed", "tool_name"},
		{post, "/v1/chats", `{"tool_name": "` + long(65) + `"}`, "validation_failed", "tool_name"},
		{post, firstPath, `{"content": "x", "memory_strategy": "forget"}`, "validation_failed", "memory_strategy"},
		{post, firstPath, `{"content": "x", "ttl_hours": 0}`, "validation_failed", "ttl_hours"},
		{post, firstPath, `{"content": "x", "max_turns": "3"}`, "validation_failed", "max_turns"},
		{post, firstPath, `{"content": "x", "title": "` + long(501) + `"}`, "validation_failed", "title"},
		{post, firstPath, `{"content": "x", "tags": ["` + long(65) + `"]}`, "validation_failed", "tags[0]"},
		{post, firstPath, `{"content": "x", "system_prompt": "a\u0000b"}`, "validation_failed", "system_prompt"},
		{post, nextPath, `{"chat_id": "` + chat.ID.String() + `", "content": "x", "title": "y"}`, "bad_request", "unknown_fields"},
		{post, one + "/messages", `{}`, "validation_failed", "messages"},
		{post, one + "/messages", `{"messages": []}`, "validation_failed", "messages"},
		{post, one + "/messages", `{"messages": [` + strings.Repeat(`{"role": "tool"},`, 100) + `{"role": "tool"}]}`, "validation_failed", "messages"},
		{post, one + "/messages", `{"messages": ["x"]}`, "validation_failed", "messages[0]"},
		{post, one + "/messages", `{"messages": [{"content": "x"}]}`, "validation_failed", "messages[0].role"},
		{post, one + "/messages", `{"messages": [{"role": "tool"}, {"role": "robot", "content": "x"}]}`, "validation_failed", "messages[1].role"},
		{post, one + "/messages", `{"messages": [{"role": "user", "content": " \n"}]}`, "validation_failed", "messages[0].content"},
		{post, one + "/messages", `{"messages": [{"role": "assistant", "tool_calls": []}]}`, "validation_failed", "messages[0].content"},
		{post, one + "/messages", `{"messages": [{"role": "system", "content": "` + strings.Repeat("x", 262_145) + `"}]}`, "validation_failed", "messages[0].content"},
		{post, one + "/messages", `{"messages": [{"role": "system", "content": "a\u0000"}]}`, "validation_failed", "messages[0].content"},
		{post, one + "/messages", `{"messages": [{"role": "system", "content": "x", "tool_calls": [{}]}]}`, "validation_failed", "messages[0].tool_calls"},
		{post, one + "/messages", `{"messages": [{"role": "assistant", "tool_calls": {}}]}`, "validation_failed", "messages[0].tool_calls"},
		{post, one + "/messages", `{"messages": [{"role": "assistant", "tool_calls": ["x"]}]}`, "validation_failed", "messages[0].tool_calls[0]"},
		{post, one + "/messages", `{"messages": [{"role": "assistant", "tool_calls": [null]}]}`, "validation_failed", "messages[0].tool_calls[0]"},
		{post, one + "/messages", `{"messages": [{"role": "assistant", "tool_calls": [{"a": "\u0000"}]}]}`, "validation_failed", "messages[0].tool_calls"},
		{post, one + "/messages", `{"messages": [{"role": "assistant", "tool_calls": [{"a": 1e999}]}]}`, "validation_failed", "messages[0].tool_calls[0]"},
		{post, one + "/messages", `{"messages": [{"role": "assistant", "tool_calls": [` + strings.Repeat(`{"a":`, 33) + `1` + strings.Repeat(`}`, 33) + `]}]}`, "validation_failed", "messages[0].tool_calls[0]"},
		{post, one + "/messages", `{"messages": [{"role": "user", "content": "x", "tool_call_id": "c"}]}`, "validation_failed", "messages[0].tool_call_id"},
		{post, one + "/messages", `{"messages": [{"role": "tool", "name": "` + long(257) + `"}]}`, "validation_failed", "messages[0].name"},
		{post, one + "/messages", `{"messages": [{"role": "tool", "client_message_id": "x"}]}`, "validation_failed", "messages[0].client_message_id"},
		{post, one + "/messages", `{"messages": [{"role": "tool", "client_message_id": "` + exampleRequest + `"}, {"role": "tool", "client_message_id": "` + exampleRequest + `"}]}`, "validation_failed", "messages[1].client_message_id"},
		{post, one + "/messages", `{"messages": [{"role": "tool", "metadata": {"a": "\u0000"}}]}`, "validation_failed", "messages[0].metadata"},
		{post, one + "/messages", `{"messages": [{"role": "tool", "status": "streaming"}]}`, "bad_request", "unknown_fields"},
		{post, "/v1/chats/" + uuid.NewString() + "/messages", `{"messages": [{"role": "tool"}]}`, "chat_not_found", ""},
		{get, "/v1/chats?limit=0", "", "validation_failed", "limit"},
		{get, "/v1/chats?limit=101", "", "validation_failed", "limit"},
		{get, "/v1/chats?limit=many", "", "validation_failed", "limit"},
		{get, "/v1/chats?include_expired=1", "", "validation_failed", "include_expired"},
		{get, "/v1/chats?tag=" + strings.Repeat("x", 65), "", "validation_failed", "tag"},
		{get, "/v1/chats?tag=%00", "", "validation_failed", "tag"},
		{get, "/v1/chats?tag=%ff", "", "validation_failed", "tag"},
		{get, "/v1/chats?cursor=x", "", "bad_request", ""},
		{get, "/v1/chats/x", "", "bad_uuid", ""},
		{patch, "/v1/chats/x", `{}`, "bad_uuid", ""},
		{patch, one, `{"tool_name": "x"}`, "bad_request", "unknown_fields"},
		{patch, one, ``, "unsupported_media_type", ""},
		{patch, one, ` `, "bad_request", ""},
		{patch, one, `{"revive": "yes"}`, "validation_failed", "revive"},
		{patch, one, `{"title": "Changed", "max_turns": -1}`, "validation_failed", "max_turns"},
		{remove, "/v1/chats/x", "", "bad_uuid", ""},
		{post, "/v1/chats/x/clear", "", "bad_uuid", ""},
		{get, "/v1/chats/x/files", "", "bad_uuid", ""},
		{get, one + "/files?include=everything", "", "validation_failed", "include"},
		{get, one + "/files?sha256=abc", "", "validation_failed", "sha256"},
		{get, "/v1/chats/x/messages", "", "bad_uuid", ""},
		{get, one + "/messages?limit=201", "", "validation_failed", "limit"},
		{get, one + "/messages?limit=", "", "validation_failed", "limit"},
		{get, one + "/messages?before_seq=-1", "", "validation_failed", "before_seq"},
		{get, one + "/messages?after_seq=99999999999999999999", "", "validation_failed", "after_seq"},
		{get, one + "/messages?before_seq=5&after_seq=1", "", "validation_failed", "after_seq"},
		{patch, "/v1/messages/x", `{}`, "bad_uuid", ""},
		{patch, message, `{"content": "Never said."}`, "bad_request", "unknown_fields"},
		{patch, message, `{"pinned": null}`, "validation_failed", "pinned"},
		{patch, message, `{"pinned": 1}`, "validation_failed", "pinned"},
		{patch, message, `{"importance": 1.01}`, "validation_failed", "importance"},
		{patch, message, `{"importance": -0.01}`, "validation_failed", "importance"},
		{patch, message, `{"importance": "high"}`, "validation_failed", "importance"},
		{remove, "/v1/messages/x", "", "bad_uuid", ""},
		{post, "/v1/chats/prune", `{}`, "validation_failed", "older_than_days"},
		{post, "/v1/chats/prune", `{"older_than_days": null}`, "validation_failed", "older_than_days"},
		{post, "/v1/chats/prune", `{"older_than_days": 0}`, "validation_failed", "older_than_days"},
		{post, "/v1/chats/prune", `{"older_than_days": 36501}`, "validation_failed", "older_than_days"},
		{post, "/v1/chats/prune", `{"older_than_days": 9, "dry_run": "true"}`, "validation_failed", "dry_run"},
		{post, "/v1/chats/prune", ``, "unsupported_media_type", ""},
	} {
		refused := k.call(c.method, c.path, c.body).error(t)
		if _, named := refused.Details[c.detail]; refused.Code != c.code || c.detail != "" && !named {
			t.Errorf("%s %.60s %.60s: %+v", c.method, c.path, c.body, refused)
		}
	}
	if n := testkit.Ask[int](t, k.pool, "select count(*) from chats where title = 'Unchanged' and max_turns is null"); n != 1 {
		t.Error("a refused request changed something")
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

func TestChatsOfOthersAreNotThere(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chat := k.newChat("")
	message := k.talk(chat.ID, 1)[0]
	owner := k.user
	k.user = testkit.NewUser(t, k.db)
	for _, route := range pathsOfChat(chat.ID, message) {
		want := "chat_not_found"
		if strings.HasPrefix(route[1], "/v1/messages") {
			want = "message_not_found"
		}
		if got := k.call(route[0], route[1], route[2]).error(t); got.Code != want || got.Details != nil {
			t.Errorf("%s %s: %+v", route[0], route[1], got)
		}
	}
	k.user = owner
	var still history.MessagePage
	if k.want(http.StatusOK, http.MethodGet, "/v1/chats/"+chat.ID.String()+"/messages", "", &still); len(still.Messages) != 1 || still.Messages[0].Pinned {
		t.Errorf("%s", marshal(still))
	}
}

func TestChatsNeedAToken(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	routes := append(pathsOfChat(uuid.New(), uuid.New()), [3]string{http.MethodGet, "/v1/chats", ""}, [3]string{http.MethodPost, "/v1/chats", ""},
		[3]string{http.MethodPost, "/v1/chats/prune", `{"older_than_days": 1}`})
	for _, route := range routes {
		if answer := k.call(route[0], route[1], route[2], "Authorization", ""); answer.status != http.StatusUnauthorized {
			t.Errorf("%s %s: %d", route[0], route[1], answer.status)
		}
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
		if answer.status != http.StatusGone || refused.Code != "chat_expired" || refused.Details["chat_id"] != chat.ID.String() || refused.Details["expired_at"] == nil {
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
	running := testkit.Ask[uuid.UUID](t, k.pool, `insert into messages (chat_id, role, status, lease_until) values ($1, 'assistant', 'streaming', now() + interval '1 minute') returning id`, chat.ID)
	for _, route := range [][2]string{{http.MethodPost, "/v1/chats/" + chat.ID.String() + "/clear"}, {http.MethodDelete, "/v1/messages/" + running.String()}} {
		answer := k.call(route[0], route[1], "")
		if refused := answer.error(t); answer.status != http.StatusConflict || refused.Code != "generation_in_progress" || refused.Details["message_id"] != running.String() {
			t.Errorf("%s %s: %d %s", route[0], route[1], answer.status, answer.body)
		}
	}
	k.want(http.StatusNoContent, http.MethodDelete, "/v1/chats/"+chat.ID.String(), "", nil)
}
