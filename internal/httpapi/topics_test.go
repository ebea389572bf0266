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
	id := testkit.Ask[uuid.UUID](k.t, k.pool, `with made as (insert into topics (chat_id, user_id, number, title, message_count, created_at, last_active_at, first_seq, last_seq)
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
		{k.keys(path + "/stats"), "access_count active_messages age_seconds compressed_messages half_life_days has_summary importance_score inactive_seconds memory_type topic_id topic_title total_messages"},
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
	if got := k.want(http.StatusOK, http.MethodGet, path, "", nil); !strings.Contains(string(got.body), `"importance":0.8,`) {
		t.Errorf("read: %s", got.body)
	}
}

func TestTopicRefusals(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chatID, empty := k.newChat("").ID, k.newChat("").ID
	said := k.talk(chatID, 2)
	path := k.newTopic(chatID, "Bows")
	id := path[strings.LastIndex(path, "/")+1:]
	list := "/v1/chats/" + chatID.String() + "/topics"
	unknown, noChat := list+"/"+uuid.NewString(), "/v1/chats/"+uuid.NewString()+"/topics"
	long, message := strings.Repeat("東", 81), "/v1/messages/"+said[0].String()+"/feedback"
	merged := k.newTopic(chatID, "Merged")
	testkit.Exec(t, k.pool, "update topics set state = 'merged', merged_into = $1 where title = 'Merged'", id)
	mergedID := merged[strings.LastIndex(merged, "/")+1:]
	for _, c := range []struct {
		method, path, body string
		want               fault.Code
	}{
		{"GET", noChat, "", fault.ChatNotFound},
		{"GET", noChat + "/current", "", fault.ChatNotFound},
		{"GET", noChat + "/current/context", "", fault.ChatNotFound},
		{"GET", "/v1/chats/7/topics", "", fault.BadUUID},
		{"GET", list + "?state=gone", "", fault.ValidationFailed},
		{"GET", list + "?limit=0", "", fault.ValidationFailed},
		{"GET", list + "?limit=1001", "", fault.ValidationFailed},
		{"GET", list + "?cursor=x", "", fault.BadRequest},
		{"GET", list + "?q=" + strings.Repeat("x", 501), "", fault.ValidationFailed},
		{"GET", list + "?q=a%00", "", fault.ValidationFailed},
		{"GET", list + "?tag=" + strings.Repeat("x", 65), "", fault.ValidationFailed},
		{"GET", unknown, "", fault.TopicNotFound},
		{"GET", unknown + "/history", "", fault.TopicNotFound},
		{"GET", unknown + "/stats", "", fault.TopicNotFound},
		{"GET", unknown + "/archive", "", fault.TopicNotFound},
		{"GET", unknown + "/context", "", fault.TopicNotFound},
		{"PATCH", unknown, "{}", fault.TopicNotFound},
		{"POST", unknown + "/merge", `{"into": "` + id + `"}`, fault.TopicNotFound},
		{"GET", "/v1/chats/" + empty.String() + "/topics/current", "", fault.TopicNotFound},
		{"GET", "/v1/chats/" + empty.String() + "/topics/" + id, "", fault.TopicNotFound},
		{"GET", list + "/" + uuid.Nil.String(), "", fault.TopicNotFound},
		{"GET", list + "/CURRENT", "", fault.BadUUID},
		{"GET", list + "/7", "", fault.BadUUID},
		{"GET", "/v1/chats/7/topics/" + id, "", fault.BadUUID},
		{"GET", path + "/history?include_compressed=yes", "", fault.ValidationFailed},
		{"PATCH", path, `{"title": " \n"}`, fault.ValidationFailed},
		{"PATCH", path, `{"title": null}`, fault.ValidationFailed},
		{"PATCH", path, `{"title": "` + long + `"}`, fault.ValidationFailed},
		{"PATCH", path, `{"title": "a\u0000"}`, fault.ValidationFailed},
		{"PATCH", path, `{"tags": [""]}`, fault.ValidationFailed},
		{"PATCH", path, `{"tags": null}`, fault.ValidationFailed},
		{"PATCH", path, `{"importance": 1.0001}`, fault.ValidationFailed},
		{"PATCH", path, `{"importance": -0.0001}`, fault.ValidationFailed},
		{"PATCH", path, `{"importance": null}`, fault.ValidationFailed},
		{"PATCH", path, `{"importance": "1"}`, fault.ValidationFailed},
		{"PATCH", path, `{"state": "archived"}`, fault.BadRequest},
		{"POST", path + "/merge", `{}`, fault.ValidationFailed},
		{"POST", path + "/merge", `{"into": ""}`, fault.ValidationFailed},
		{"POST", path + "/merge", `{"into": 7}`, fault.ValidationFailed},
		{"POST", path + "/merge", `{"into": "current"}`, fault.BadUUID},
		{"POST", path + "/merge", `{"into": "` + uuid.NewString() + `"}`, fault.TopicNotFound},
		{"POST", path + "/merge", `{"into": "` + id + `"}`, fault.ValidationFailed},
		{"POST", list + "/current/merge", `{"into": "` + id + `"}`, fault.ValidationFailed},
		{"POST", path + "/merge", `{"into": "` + mergedID + `"}`, fault.ValidationFailed},
		{"POST", merged + "/merge", `{"into": "` + id + `"}`, fault.ValidationFailed},
		{"POST", message, `{}`, fault.ValidationFailed},
		{"POST", message, `{"rating": 2}`, fault.ValidationFailed},
		{"POST", message, `{"rating": -2}`, fault.ValidationFailed},
		{"POST", message, `{"rating": 0.5}`, fault.ValidationFailed},
		{"POST", message, `{"rating": null}`, fault.ValidationFailed},
		{"POST", message, `{"rating": 1, "why": "x"}`, fault.BadRequest},
		{"POST", "/v1/messages/" + uuid.NewString() + "/feedback", `{"rating": 1}`, fault.MessageNotFound},
		{"POST", "/v1/messages/7/feedback", `{"rating": 1}`, fault.BadUUID},
		{"POST", "/v1/chats", `{"topics": "maybe"}`, fault.ValidationFailed},
		{"PATCH", "/v1/chats/" + chatID.String(), `{"topics": "maybe"}`, fault.ValidationFailed},
		{"POST", "/v1/chats/" + chatID.String() + "/standalone", `{"content": " "}`, fault.ValidationFailed},
		{"POST", "/v1/chats/" + chatID.String() + "/standalone", `{"content": "` + strings.Repeat("x", 32_001) + `"}`, fault.ValidationFailed},
		{"POST", "/v1/chats/7/standalone", `{"content": "a"}`, fault.BadUUID},
	} {
		answer := k.call(c.method, c.path, c.body)
		var failure errorBody
		answer.decode(t, &failure)
		if failure.Code != string(c.want) || answer.status != statusOf(c.want) {
			t.Errorf("%s %s %.60s: %d %s, want %s", c.method, c.path, c.body, answer.status, answer.body, c.want)
		}
	}
	k.expire(chatID)
	for _, path := range []string{list, path, list + "/current", path + "/history", path + "/stats", path + "/archive", path + "/context"} {
		k.want(http.StatusGone, http.MethodGet, path, "", nil)
	}
	k.want(http.StatusGone, http.MethodPatch, path, `{}`, nil)
	k.want(http.StatusGone, http.MethodPost, message, `{"rating": 1}`, nil)
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chatID := k.newChat("").ID
	said := k.talk(chatID, 2)
	path := k.newTopic(chatID, "Bows")
	var rated history.Message
	k.want(http.StatusOK, http.MethodPost, "/v1/messages/"+said[1].String()+"/feedback", `{"rating": -1}`, &rated)
	if rated.ID != said[1] || rated.Rating == nil || *rated.Rating != -1 {
		t.Errorf("rated: %+v", rated)
	}
	var topic history.OneTopic
	k.want(http.StatusOK, http.MethodGet, path, "", &topic)
	if topic.Importance != .8 {
		t.Errorf("the importance is %v", topic.Importance)
	}
	var page history.MessagePage
	k.want(http.StatusOK, http.MethodGet, "/v1/chats/"+chatID.String()+"/messages", "", &page)
	if page.Messages[0].Rating != nil || *page.Messages[1].Rating != -1 {
		t.Errorf("the messages are %+v", page.Messages)
	}
}

func TestChatSaysWhetherItHasTopics(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	if made := k.newChat(`{"topics": null}`); made.Topics != "auto" {
		t.Errorf("made with %q", made.Topics)
	}
	made := k.newChat(`{"topics": "on"}`)
	var changed history.Chat
	for _, c := range []struct{ body, want string }{{`{"title": "x"}`, "on"}, {`{"topics": "off"}`, "off"}, {`{"topics": null}`, "auto"}} {
		if k.want(http.StatusOK, http.MethodPatch, "/v1/chats/"+made.ID.String(), c.body, &changed); changed.Topics != c.want {
			t.Errorf("%s: %q", c.body, changed.Topics)
		}
	}
}

// Importance and the choice of topics come with a message, too.
func TestMessageSaysHowImportantItIs(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	h.call(http.MethodPost, "/v1/message/first", `{"content": "Hello.", "importance": 0.25, "topics": "on"}`)
	h.call(http.MethodPost, "/v1/message", fmt.Sprintf(`{"content": "And?", "chat_id": %q, "importance": 0}`, h.store.turns[0].ChatID))
	h.call(http.MethodPost, "/v1/message", fmt.Sprintf(`{"content": "So?", "chat_id": %q, "importance": null}`, h.store.turns[0].ChatID))
	var got []*float64
	for _, turn := range h.store.turns {
		got = append(got, turn.Importance)
	}
	if diff := cmp.Diff([]*float64{new(.25), new(0.0), nil}, got); diff != "" || h.store.turns[0].Topics != "on" {
		t.Errorf("%s\n%q", diff, h.store.turns[0].Topics)
	}
	for _, body := range []string{`"importance": 1.5`, `"importance": -1`, `"importance": "high"`, `"topics": "yes"`} {
		answer := h.call(http.MethodPost, "/v1/message/first", `{"content": "Hello.", `+body+`}`)
		if answer.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, answer.status, answer.body)
		}
	}
	if len(h.store.turns) != 3 {
		t.Errorf("%d turns are stored", len(h.store.turns))
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
	if got := h.call(http.MethodPost, path, `{"content": " And the second string "}`); string(got.body) != `{"content":"And the second string of the cello","rewritten":true}`+"\n" {
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
