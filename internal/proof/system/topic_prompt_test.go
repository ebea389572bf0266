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
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/arcoscribe/throughline/internal/app"
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

// topical is a server whose chats have topics, told apart by an embedder.
func topical(t *testing.T, embedder http.Handler, more env) *rig {
	t.Helper()
	vectors := httptest.NewServer(embedder)
	t.Cleanup(vectors.Close)
	return newRig(t, nil, smallMemory.and(patient).and(env{"TOPICS": "on", "EMBEDDING_MODEL": "an-embedder", "EMBEDDING_BASE_URL": vectors.URL + "/v1"}).and(more))
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

func TestConversationComesBackToATopic(t *testing.T) {
	t.Parallel()
	r := topical(t, concepts(nil), nil)
	chatID := r.leaveTopic()
	dentist := testkit.Ask[string](t, r.pool, "select id::text from topics where chat_id = $1 and number = 1", chatID)
	testkit.Exec(t, r.pool, "update topics set summary = 'Dr. Okonkwo treats a molar.', summary_tokens = 8 where id = $1", dentist)

	for _, question := range []string{oldQuestion, "Which physician cares for me nowadays?", "And the molar?"} { // by words, by meaning, in short
		said := r.Say(chatID, question)
		want := oldFact + ", since "
		got := topicIn(r.lastPrompt())
		if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, ", 3 turns\nDr. Okonkwo treats a molar.") {
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
	found := r.wanted(http.StatusOK, http.MethodGet, "/v1/recall?q=molar+practised&topic_id="+dentist, nil)["results"].([]any)
	if got := marshal(found); len(found) == 0 || strings.Contains(got, "practised") || !strings.Contains(got, "molar") {
		t.Errorf("within the topic: %s", got)
	}
	if other := r.stranger().Call(http.MethodGet, "/v1/recall?q=molar&topic_id="+dentist, nil); other.Status != http.StatusOK || strings.Contains(other.Text, "seq") {
		t.Errorf("another user finds %s", other.Text)
	}
}

// What is not a return to a topic names none: small talk, the subject of the moment, a new one, and a chat without topics,
// also one that had some.
func TestNoReturnToATopic(t *testing.T) {
	t.Parallel()
	r := topical(t, concepts(nil), nil)
	chatID := r.leaveTopic()
	for _, content := range []string{"ok, thanks", "And now?", "Shall I practise this etude with another bow arm?", "Whales migrate thousands of kilometres every winter."} {
		said := r.Say(chatID, content)
		if got, receipt := topicIn(r.lastPrompt()), r.receiptOf(said.MessageID); got != "" || receipt.Topic != "" {
			t.Errorf("%s: %q, %+v", content, got, receipt)
		}
	}
	for name, change := range map[string]string{
		"merged":  "update topics set state = 'merged', merged_into = (select id from topics where chat_id = $1 and number = 2) where chat_id = $1 and number = 1",
		"off":     "update chats set topics = 'off' where id = $1",
		"cleared": "update conversation_briefs set cleared_seq = 6 where chat_id = $1",
	} {
		tx := "update topics set state = 'active', merged_into = null where chat_id = $1 and number = 1"
		testkit.Exec(t, r.pool, tx, chatID)
		testkit.Exec(t, r.pool, "update chats set topics = 'auto' where id = $1", chatID)
		testkit.Exec(t, r.pool, change, chatID)
		said := r.Say(chatID, oldQuestion)
		if got, receipt := topicIn(r.lastPrompt()), r.receiptOf(said.MessageID); got != "" || receipt.Topic != "" {
			t.Errorf("%s: %q, %+v", name, got, receipt)
		}
		testkit.Exec(t, r.pool, "update conversation_briefs set cleared_seq = 0 where chat_id = $1", chatID)
	}
}

// No turn that is recalled for a topic is in the prompt word for word as well.
func TestTopicRepeatsNoVisibleTurn(t *testing.T) {
	t.Parallel()
	r := topical(t, concepts(nil), nil)
	chatID := r.leaveTopic()
	duplicates, recalled := 0, 0
	for n := range 12 {
		said := r.Say(chatID, fmt.Sprintf("My dentist Okonkwo, was her molar visit number %d in Maple Street?", n))
		prompt := r.lastPrompt()
		_, visible, _ := strings.Cut(prompt, "RECENT CONVERSATION (oldest first):\n")
		visible, _, _ = strings.Cut(visible, "\n\n"+topicHeading)
		visible, _, _ = strings.Cut(visible, "\n\n"+recallHeading)
		for _, seq := range r.receiptOf(said.MessageID).Recalled {
			recalled++
			content := testkit.Ask[string](t, r.pool, "select content from messages where chat_id = $1 and seq = $2", chatID, seq)
			if strings.Contains("\n"+visible, "\nUser: "+content+"\n") {
				duplicates++
				t.Errorf("%q is recalled and visible in\n%s", content, prompt)
			}
		}
		if strings.Count(prompt, topicHeading) > 1 {
			t.Error("two topics in " + prompt)
		}
	}
	t.Log(strconv.Itoa(duplicates) + " of " + strconv.Itoa(recalled) + " recalled turns are visible as well")
	if recalled == 0 {
		t.Error("nothing was recalled")
	}
}

// An embedder that is away fails no reply: the topic is found by what words find. What they do not find is missing, and so is
// a topic then. A topic whose vector is another model's is found by words as well.
func TestTopicWithoutAnEmbedder(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	r := topical(t, concepts(func(w http.ResponseWriter, _ *http.Request) bool {
		if away.Load() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return away.Load()
	}), nil)
	chatID := r.leaveTopic()
	testkit.Exec(t, r.pool, "update topics set embedding_model = 'another' where chat_id = $1", chatID)
	if r.Say(chatID, oldQuestion); topicIn(r.lastPrompt()) == "" {
		t.Errorf("vectors of another model: no topic in\n%s", r.lastPrompt())
	}
	away.Store(true)
	if said := r.Say(chatID, "Who fixed my molar in those days?"); topicIn(r.lastPrompt()) == "" || r.receiptOf(said.MessageID).Recall != "words" {
		t.Errorf("without an embedder: no topic in\n%s", r.lastPrompt())
	}
	said := r.Say(chatID, "Which physician mended something for me, back then?")
	if receipt := r.receiptOf(said.MessageID); receipt.Topic != "" || receipt.Recall != "failed" && receipt.Recall != "late" || topicIn(r.lastPrompt()) != "" {
		t.Errorf("what words do not find: %+v", receipt)
	}
}

// A Postgres that is away when the topic is looked up costs the topic, and no reply.
func TestPostgresFailsTheLookupOfATopic(t *testing.T) {
	t.Parallel()
	vectors := httptest.NewServer(concepts(nil))
	t.Cleanup(vectors.Close)
	r := newNetworkRig(t, nil, smallMemory.and(env{"TOPICS": "on", "EMBEDDING_MODEL": "an-embedder", "EMBEDDING_BASE_URL": vectors.URL + "/v1"}))
	r.node = r.start(app.Role{API: true, Workers: true}, r.direct())
	chatID := r.leaveTopic()
	r.stopNow()
	o := outages[0]
	said := r.sayDuring(o, chatID, oldQuestion)
	receipt := r.receiptOf(said.MessageID)
	if said.End.Name != testkit.Completion || receipt.Topic != "" || receipt.Recall != "late" && receipt.Recall != "failed" || topicIn(r.lastPrompt()) != "" {
		t.Errorf("%s: %+v, %+v", o.name, said.End, receipt)
	}
}
