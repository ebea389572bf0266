package system

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

const topicHeading = "TOPIC (the conversation has come back to it): "

// concepts makes vectors: texts with words of one concept are alike, and all others are as unlike as texts are. An answer
// of after, if there is one, comes before the vectors.
func concepts(after func(w http.ResponseWriter, r *http.Request) (answered bool)) http.Handler {
	words := []*regexp.Regexp{regexp.MustCompile(`(?i)molar|dentist|teeth|physician`), regexp.MustCompile(`(?i)etude|practise|bow arm`)}
	vector := func(content string, size int) []float64 {
		seed := fnv.New64a()
		_, _ = seed.Write([]byte(content))
		random := rand.New(rand.NewPCG(seed.Sum64(), 1))
		values, length := make([]float64, size), 0.
		for n := range values {
			values[n] = random.NormFloat64() / math.Sqrt(float64(size))
		}
		for n, concept := range words {
			if concept.MatchString(content) {
				values[n] += 3
			}
		}
		for _, v := range values {
			length += v * v
		}
		for n := range values {
			values[n] /= math.Sqrt(length)
		}
		return values
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if after != nil && after(w, r) {
			return
		}
		var asked struct {
			Input      []string `json:"input"`
			Dimensions int      `json:"dimensions"`
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		data := make([]any, len(asked.Input))
		for n, content := range asked.Input {
			data[n] = map[string]any{"object": "embedding", "index": n, "embedding": vector(content, cmp.Or(asked.Dimensions, 512))}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"object": "list", "model": "m", "data": data, "usage": map[string]any{"prompt_tokens": 1, "total_tokens": 1},
		})
	})
}

// topical has chats with topics, told apart by an embedder, and memories.
func topical(t *testing.T, embedder http.Handler) env {
	t.Helper()
	vectors := httptest.NewServer(embedder)
	t.Cleanup(vectors.Close)
	return smallMemory.And(patient).And(longTerm).And(env{"TOPICS": "on", "EMBEDDING_MODEL": "an-embedder", "EMBEDDING_BASE_URL": vectors.URL + "/v1"})
}

// leaveTopic tells of the dentist in three turns and then of something else, until that is in the brief, and each is a topic.
func (r *rig) leaveTopic() (chatID string) {
	r.t.Helper()
	chatID = r.Say("", oldFact).ChatID
	r.Say(chatID, "The dentist wants to see my molar again in April.")
	r.Say(chatID, "Her practice for teeth has moved to Maple Street.")
	r.practise(chatID, 14)
	r.awaitFolds()
	testkit.Eventually(r.t, "the turns have their topics", func() bool {
		return r.count("select count(*) from topics where chat_id = $1 and message_count >= 6", chatID) == 2 &&
			r.count("select count(*) from turn_index where chat_id = $1 and topic_id is null", chatID) == 0
	})
	return chatID
}

// topicIn returns what a prompt says of a topic.
func topicIn(prompt string) string {
	_, section, _ := strings.Cut(prompt, "\n\n"+topicHeading)
	section, _, _ = strings.Cut(section, "\n\n")
	return section
}

// receiptOf returns the receipt of a reply.
func (r *rig) receiptOf(messageID string) (receipt struct {
	Topic    string  `json:"topic"`
	Recall   string  `json:"recall"`
	Recalled []int64 `json:"recalled"`
},
) {
	r.t.Helper()
	raw := testkit.Ask[string](r.t, r.pool, "select (metadata -> 'memory')::text from messages where id = $1", messageID)
	if err := json.Unmarshal([]byte(raw), &receipt); err != nil {
		r.t.Fatal(err)
	}
	return receipt
}

func TestTopicsInPrompts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, topical(t, concepts(nil)))
	r.checkNoReturn(r.leaveTopic())
	chatID := r.leaveTopic()
	r.checkReturn(chatID)
	r.checkNoneTwice(chatID)
}

// checkReturn comes back to a topic by words, by meaning and in short.
func (r *rig) checkReturn(chatID string) {
	t := r.t
	t.Helper()
	dentist := testkit.Ask[string](t, r.pool, "select id::text from topics where chat_id = $1 and number = 1", chatID)
	testkit.Exec(t, r.pool, "update topics set summary = 'Dr. Okonkwo treats a molar.', summary_tokens = 8 where id = $1", dentist)
	for _, question := range []string{oldQuestion, "Which physician cares for me nowadays?", "And the molar?"} {
		said := r.Say(chatID, question)
		got := topicIn(r.lastPrompt())
		if !strings.HasPrefix(got, "Dentist, called Wilhelmina Okonkwo, since ") || !strings.HasSuffix(got, " turns\nDr. Okonkwo treats a molar.") {
			t.Errorf("%s: the topic is %q in\n%s", question, got, r.lastPrompt())
		}
		if quoted := recalledIn(r.lastPrompt()); strings.Contains(quoted, "etude") || !strings.Contains(quoted, "Okonkwo") {
			t.Errorf("%s: recalled %q", question, quoted)
		}
		receipt := r.receiptOf(said.MessageID)
		if receipt.Topic != dentist || len(receipt.Recalled) == 0 || slices.Max(receipt.Recalled) > 5 {
			t.Errorf("%s: the receipt has %+v", question, receipt)
		}
		why := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/messages/"+said.MessageID+"/why", nil)["topic"])
		if !strings.Contains(why, dentist) || !strings.Contains(why, "Okonkwo treats") {
			t.Errorf("why: %s", why)
		}
	}
	preview := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+chatID+"/memory?content="+url.QueryEscape(oldQuestion), nil))
	if !strings.Contains(preview, topicHeading) || !strings.Contains(preview, `"topic":"`+dentist) || !strings.Contains(preview, "come back to is named") {
		t.Errorf("the preview is %s", preview)
	}
	found := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/recall?q=molar+practised&topic_id="+dentist, nil)["results"])
	if strings.Contains(found, "practised") || !strings.Contains(found, "molar") {
		t.Errorf("within the topic: %s", found)
	}
}

// checkNoReturn says what is no return to a topic: small talk, the subject of the moment, and a new one; and asks for a topic
// that is no more, in a chat without topics, and one that was cleared.
func (r *rig) checkNoReturn(chatID string) {
	t := r.t
	t.Helper()
	check := func(content string) {
		t.Helper()
		said := r.Say(chatID, content)
		if got, receipt := topicIn(r.lastPrompt()), r.receiptOf(said.MessageID); got != "" || receipt.Topic != "" {
			t.Errorf("%s: %q, %+v", content, got, receipt)
		}
	}
	for _, content := range []string{
		"ok, thanks", "And now?", "Shall I practise this etude with another bow arm?", "Whales migrate thousands of kilometres every winter.",
	} {
		check(content)
	}
	for _, change := range [][2]string{
		{"update topics set state = 'merged', merged_into = (select id from topics where chat_id = $1 and number = 2) where chat_id = $1 and number = 1",
			"update topics set state = 'active', merged_into = null where chat_id = $1 and number = 1"},
		{"update chats set topics = 'off' where id = $1", "update chats set topics = 'auto' where id = $1"},
		{"update conversation_briefs set cleared_seq = 6 where chat_id = $1", "update conversation_briefs set cleared_seq = 0 where chat_id = $1"},
	} {
		testkit.Exec(t, r.pool, change[0], chatID)
		check(oldQuestion)
		testkit.Exec(t, r.pool, change[1], chatID)
	}
}

// checkNoneTwice holds that no turn that is recalled for a topic is in the prompt word for word as well.
func (r *rig) checkNoneTwice(chatID string) {
	t := r.t
	t.Helper()
	recalled := 0
	for n := range 8 {
		said := r.Say(chatID, fmt.Sprintf("My dentist Okonkwo, was her molar visit number %d in Maple Street?", n))
		prompt := r.lastPrompt()
		_, visible, _ := strings.Cut(prompt, "RECENT CONVERSATION (oldest first):\n")
		visible, _, _ = strings.Cut(visible, "\n\n"+topicHeading)
		visible, _, _ = strings.Cut(visible, "\n\n"+recallHeading)
		for _, seq := range r.receiptOf(said.MessageID).Recalled {
			recalled++
			content := testkit.Ask[string](t, r.pool, "select content from messages where chat_id = $1 and seq = $2", chatID, seq)
			if strings.Contains("\n"+visible, "\nUser: "+content+"\n") {
				t.Errorf("%q is recalled and visible in\n%s", content, prompt)
			}
		}
		if strings.Count(prompt, topicHeading) > 1 {
			t.Error("two topics in " + prompt)
		}
	}
	if recalled == 0 {
		t.Error("nothing was recalled")
	}
}
