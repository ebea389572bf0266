package system

import (
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// rewrites are the calls that made questions stand alone.
func (r *rig) rewrites() (found []offline.Request) {
	for _, request := range r.model.Requests() {
		if request.Kind == offline.KindRewrite {
			found = append(found, request)
		}
	}
	return found
}

// wantEachCallRecorded checks that what each call of a model cost is known that was not refused.
func (r *rig) wantEachCallRecorded() {
	r.t.Helper()
	made := map[string]int{}
	for _, request := range r.model.Requests() {
		if purpose := request.Metadata["purpose"]; purpose != "reply" && !strings.Contains(request.Text, "Fail.") {
			made[purpose]++
		}
	}
	if len(made) < 2 {
		r.t.Errorf("too few kinds of calls: %v", made)
	}
	for purpose, calls := range made {
		testkit.Eventually(r.t, purpose+" is recorded", func() bool {
			return r.count("select coalesce(sum(calls), 0)::int from inspect.tokens_by_day where input_tokens > 0 and purpose = $1", purpose) == calls
		})
	}
}

// A chat gets its topic, packs it, and tells it by every route.
func TestTopicIsSeenFromAllSides(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(request *offline.Request) offline.Answer {
		switch {
		case request.Kind == offline.KindTopic:
			return offline.Answer{Text: "The user practises etudes on a cello every day."}
		case request.Kind == offline.KindRewrite && strings.Contains(request.Text, "Fail."):
			return offline.Answer{Fault: offline.Fault500}
		case request.Kind == offline.KindRewrite:
			return offline.Answer{Text: "How many etudes did the user practise?"}
		}
		return offline.Answer{}
	}, env{"TOPICS": "on"})
	chatID := r.Say("", "My cello teacher gives me etudes.").ChatID
	path := "/v1/chats/" + chatID + "/topics"
	topic := func() map[string]any {
		found := r.wanted(http.StatusOK, http.MethodGet, path, nil)["topics"].([]any)
		if len(found) == 0 {
			return nil
		}
		return found[0].(map[string]any)
	}
	testkit.Eventually(t, "the first turn has a topic because somebody looks", func() bool { return topic() != nil })
	if got := topic()["title"]; got != "Cello teacher, etudes" {
		t.Errorf("the title is %v", got)
	}
	r.practise(chatID, 7)
	testkit.Eventually(t, "the topic is packed", func() bool {
		stats := r.wanted(http.StatusOK, http.MethodGet, path+"/current/stats", nil)
		return topic() != nil && stats["has_summary"] == true && stats["compressed_messages"] != 0.0
	})
	context := r.wanted(http.StatusOK, http.MethodGet, path+"/current/context", nil)["messages"].([]any)
	first, last := context[0].(map[string]any), context[len(context)-1].(map[string]any)
	if first["role"] != "system" || first["content"] != "Topic summary: The user practises etudes on a cello every day." || last["role"] != "assistant" {
		t.Errorf("the context is %v", context)
	}
	if all := r.wanted(http.StatusOK, http.MethodGet, path+"/current/history?include_compressed=true", nil)["messages"].([]any); len(all) < 10 {
		t.Errorf("the history is %v", all)
	}

	question := r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+chatID+"/standalone", testkit.Body{"content": "And how many was that?"})
	if question["content"] != "How many etudes did the user practise?" || question["rewritten"] != true {
		t.Errorf("the question is %v", question)
	}
	asked := r.rewrites()
	if len(asked) != 1 || !strings.Contains(asked[0].Text, "The user practises etudes on a cello every day.") ||
		!strings.Contains(asked[0].Text, "etude number 106") {
		t.Errorf("the model was asked %d times: %+v", len(asked), asked)
	}
	r.wanted(http.StatusBadGateway, http.MethodPost, "/v1/chats/"+chatID+"/standalone", testkit.Body{"content": "Fail."})
	empty := r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", nil)["id"].(string)
	alone := r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+empty+"/standalone", testkit.Body{"content": "And how many was that?"})
	if alone["content"] != "And how many was that?" || alone["rewritten"] != false {
		t.Errorf("without a conversation: %v", alone)
	}
	r.wantEachCallRecorded()
	if titles := r.count("select count(*) from messages where content like 'And how many%'"); titles != 0 {
		t.Error("a question to be rewritten was stored")
	}
}
