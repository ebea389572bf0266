package system

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// wanted sends a request, checks its status, and returns the answer's object, nil if it has no body.
func (r *rig) wanted(status int, method, path string, payload testkit.Body, headers ...string) map[string]any {
	r.t.Helper()
	answer := r.Call(method, path, payload, headers...)
	if answer.Status != status {
		r.t.Fatalf("%s %s: %d %s", method, path, answer.Status, answer.Text)
	}
	if answer.Text == "" {
		return nil
	}
	return answer.JSON(r.t)
}

// lastPrompt is what the model was asked last.
func (r *rig) lastPrompt() string {
	r.t.Helper()
	asked := r.model.Asked(offline.KindReply)
	return asked[len(asked)-1].Text
}

// A chat's life over HTTP: made, talked to, found again, renamed, cleared, deleted.
func TestChatsFromFirstToLast(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	made := r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", testkit.Body{"title": "Lessons", "system_prompt": "Speak of music.",
		"tags": []string{"cello"}})
	chatID := made["id"].(string)
	path := "/v1/chats/" + chatID
	said := r.Say(chatID, "My cello teacher is called Ilse.")
	other := r.Say("", "Hello there.")
	page := r.wanted(http.StatusOK, http.MethodGet, "/v1/chats?limit=1", nil)
	if first := page["chats"].([]any)[0].(map[string]any); first["id"] != other.ChatID || page["next_cursor"] == nil {
		t.Errorf("the list begins with %v", page)
	}
	page = r.wanted(http.StatusOK, http.MethodGet, "/v1/chats?tag=cello", nil)
	if found := page["chats"].([]any); len(found) != 1 || found[0].(map[string]any)["turn_count"] != 1.0 || found[0].(map[string]any)["message_count"] != 2.0 {
		t.Errorf("tagged: %v", page)
	}
	messages := r.wanted(http.StatusOK, http.MethodGet, path+"/messages", nil)["messages"].([]any)
	if reply := messages[1].(map[string]any); reply["id"] != said.MessageID || reply["content"] != said.Text || reply["status"] != "complete" {
		t.Errorf("the reply is listed as %v", reply)
	}
	if got := r.wanted(http.StatusOK, http.MethodPatch, path, testkit.Body{"title": "Cello"}); got["title"] != "Cello" ||
		got["system_prompt"] != "Speak of music." {
		t.Errorf("renamed: %v", got)
	}
	if got := r.wanted(http.StatusOK, http.MethodPost, path+"/clear", nil); got["cleared_seq"] != 2.0 || got["brief_version"] != 1.0 {
		t.Errorf("cleared: %v", got)
	}
	after := r.Say(chatID, "What is my teacher called?")
	if receipt := after.End.Data["memory"].(map[string]any); strings.Contains(r.lastPrompt(), "Ilse") || receipt["covered_through_seq"] != 2.0 ||
		receipt["tail_turns"] != 0.0 {
		t.Errorf("after clearing the receipt is %v", receipt)
	}
	if kept := r.wanted(http.StatusOK, http.MethodGet, path+"/messages?limit=200", nil)["messages"].([]any); len(kept) != 4 {
		t.Errorf("%d messages are stored", len(kept))
	}
	r.wanted(http.StatusNoContent, http.MethodDelete, path, nil)
	if got := r.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": chatID, "content": "Hello?"}); got.Code() != "chat_not_found" {
		t.Errorf("a message to the deleted chat: %d %s", got.Status, got.Text)
	}
}

// A first message sets up its chat as POST /v1/chats would, and its own prompt obeys the settings already.
func TestFirstMessageSetsUpItsChat(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	first := testkit.Body{
		"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString(), "title": "Cello", "system_prompt": "Speak of music.",
		"tags": []string{" cello ", "cello"}, "memory_strategy": "hybrid", "ttl_hours": 24, "max_turns": 9,
	}
	answer := r.wanted(http.StatusOK, http.MethodPost, "/v1/message/first", first, "Accept", "application/json")
	again := r.wanted(http.StatusOK, http.MethodPost, "/v1/message/first", first, "Accept", "application/json")
	if again["message_id"] != answer["message_id"] {
		t.Errorf("sent again it is answered by another reply: %v", again)
	}
	chat := r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+answer["chat_id"].(string), nil)
	if tags, _ := chat["tags"].([]any); chat["title"] != "Cello" || chat["memory_strategy"] != "hybrid" || chat["ttl_hours"] != 24.0 ||
		chat["max_turns"] != 9.0 || chat["expires_at"] == nil || len(tags) != 1 || tags[0] != "cello" {
		t.Errorf("the chat is %v", chat)
	}
	if asked := r.model.Asked(offline.KindReply); len(asked) != 1 || !strings.HasSuffix(asked[0].Instructions, "Speak of music.") {
		t.Errorf("%d prompts, the first with the instructions %q", len(asked), asked[0].Instructions)
	}
}

// Of two contents under one path in one message the later one is the latest, for the prompt and in the list.
func TestLaterContentOfAPathIsTheLatest(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	file := func(content string) testkit.Body { return testkit.Body{"path": "score.txt", "content": content} }
	said := r.wanted(http.StatusOK, http.MethodPost, "/v1/message/first", testkit.Body{
		"content": "Look.", "files": []any{file("first try"), file("second try")},
	}, "Accept", "application/json")
	chatID := said["chat_id"].(string)
	const want = "=== score.txt ===\nsecond try\n\n=== score.txt (an earlier version) ===\nfirst try"
	if r.Say(chatID, "Again."); !strings.Contains(r.lastPrompt(), want) {
		t.Errorf("the prompt is %s", r.lastPrompt())
	}
	files := r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+chatID+"/files?include=content", nil)["files"].([]any)
	if latest := files[0].(map[string]any); len(files) != 2 || latest["content"] != "second try" {
		t.Errorf("the files are %v", files)
	}
}

// What an app's own tools were asked and answered is in the next prompt, once it is stored.
func TestStoredToolMessagesAreInTheNextPrompt(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.Say("", "My cello teacher is called Ilse.").ChatID
	path, round := "/v1/chats/"+chatID+"/messages", testkit.Body{"messages": []any{
		testkit.Body{"role": "assistant", "tool_calls": []any{testkit.Body{"id": "c1", "function": testkit.Body{"name": "tuner", "arguments": "A"}}}},
		testkit.Body{"role": "tool", "name": "tuner", "tool_call_id": "c1", "content": "441 Hz"},
	}}
	r.wanted(http.StatusOK, http.MethodPost, path, round)
	r.Say(chatID, "Is it in tune?")
	if got := r.lastPrompt(); !strings.Contains(got, "Assistant: [calls tuner(A)]\nTool: [tuner] 441 Hz\n") {
		t.Errorf("the prompt is %s", got)
	}
}

func (r *rig) summaries(chatID string) []string {
	r.t.Helper()
	return testkit.Ask[[]string](r.t, r.pool, `select array_agg(brief ->> 'global_summary') ||
		(select coalesce(array_agg(r.global_summary), '{}') from conversation_brief_revisions r where r.chat_id = $1 and r.global_summary is not null)
		from conversation_briefs where chat_id = $1`, uuid.MustParse(chatID))
}

// Cleared messages do not come back with the summary that the model was writing meanwhile.
func TestClearDuringAFoldOverHTTP(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindReply {
			return offline.Answer{Text: "Keep your bow arm loose and count aloud."}
		}
		return offline.Answer{Gate: gate}
	}, smallMemory)
	scales := strings.Repeat("I practised scales slowly today. ", 20)
	chatID := r.Say("", "My cello teacher is called Ilse. "+scales).ChatID
	for range 4 {
		r.Say(chatID, scales)
	}
	r.model.AwaitRequest(t, "a fold", func(request offline.Request) bool { return request.Kind != offline.KindReply })
	r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+chatID+"/clear", nil)
	close(gate)
	r.awaitFolds()
	if got := r.summaries(chatID); slices.ContainsFunc(got, func(text string) bool { return text != "" }) {
		t.Errorf("summaries after clearing: %q", got)
	}
	r.Say(chatID, "Hello again.")
	if strings.Contains(r.lastPrompt(), "Ilse") {
		t.Error("the prompt holds what was cleared")
	}
}

// A deleted message is removed from the brief and its revisions, without waiting for the sweep.
func TestDeletedMessageLeavesTheBrief(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, smallMemory)
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	for range 8 {
		r.Say(chatID, strings.Repeat("I practised scales slowly today. ", 15))
	}
	r.awaitFolds()
	holds := func(text string) bool { return strings.Contains(text, "Ilse") }
	if !slices.ContainsFunc(r.summaries(chatID), holds) {
		t.Fatalf("nothing to delete in %q", r.summaries(chatID))
	}
	messages := testkit.Ask[[]uuid.UUID](t, r.pool, "select array_agg(id) from messages where content like '%Ilse%'")
	for _, id := range messages {
		r.wanted(http.StatusNoContent, http.MethodDelete, "/v1/messages/"+id.String(), nil)
	}
	if n := r.count("select count(*) from river.river_job where kind = 'rebuild_brief' and args ->> 'chat_id' = $1", chatID); n == 0 {
		t.Error("no rebuild was enqueued")
	}
	testkit.Eventually(t, "the words are gone", func() bool {
		return !slices.ContainsFunc(r.summaries(chatID), holds) && testkit.Ask[bool](t, r.pool, "select not stale from conversation_briefs")
	})
}
