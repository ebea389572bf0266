package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/testkit"
)

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

// keys are the names of an object's members.
func (k keeper) keys(path string, members ...string) string {
	k.t.Helper()
	var found map[string]any
	k.want(http.StatusOK, http.MethodGet, path, "", nil).decode(k.t, &found)
	for _, name := range members {
		found = found[name].([]any)[0].(map[string]any)
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

// The shapes of topics are a contract.
func TestTopicHasItsFields(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chatID := k.newChat("").ID
	list := "/v1/chats/" + chatID.String() + "/topics"
	if got := string(k.want(http.StatusOK, http.MethodGet, list, "", nil).body); got != `{"topics":[]}`+"\n" {
		t.Errorf("no topics are %s", got)
	}
	k.talk(chatID, 4)
	path := k.newTopic(chatID, "Bows")
	const topic = "access_count created_at half_life_days id importance last_active_at memory_type message_count number priority state summary tags title"
	for _, c := range []struct{ got, want string }{
		{k.keys(list), "topics"},
		{k.keys(list, "topics"), topic},
		{k.keys(path), strings.Replace(topic, "message_count", "merged_into message_count", 1)},
		{k.keys(list + "/current"), strings.Replace(topic, "message_count", "merged_into message_count", 1)},
		{k.keys(path + "/history"), "messages"},
		{k.keys(path+"/history?include_compressed=true", "messages"), "content role timestamp"},
		{k.keys(path + "/stats"), "access_count active_messages age_seconds compressed_messages half_life_days has_summary importance_score " +
			"inactive_seconds memory_type topic_id topic_title total_messages"},
		{k.keys(path + "/archive"), "compressed_messages"},
		{k.keys(list+"/current/context", "messages"), "content role"},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Error(diff)
		}
	}
	var changed history.OneTopic
	k.want(http.StatusOK, http.MethodPatch, list+"/current", `{"title": " Bows\n and  strings ", "tags": ["cello", " cello"], "importance": 0.8}`, &changed)
	if changed.Title != "Bows and strings" || !slices.Equal(changed.Tags, []string{"cello"}) || changed.Importance != .8 {
		t.Errorf("changed: %+v", changed)
	}
	elsewhere := k.newChat("").ID
	k.talk(elsewhere, 2)
	other := k.newTopic(elsewhere, "Elsewhere")
	k.walk(
		ask{get, path, "", 200, `"importance":0.8,`},
		ask{post, path + "/merge", `{"into": "` + other[strings.LastIndex(other, "/")+1:] + `"}`, 404, "topic_not_found"},
	)
	k.expire(chatID)
	k.walk(ask{get, list, "", 410, "chat_expired"}, ask{patch, path, `{}`, 410, "chat_expired"}, ask{get, path + "/context", "", 410, "chat_expired"})
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
