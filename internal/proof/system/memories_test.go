package system

import (
	"cmp"
	"encoding/json"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const (
	memoriesHeading = "WHAT YOU REMEMBER ABOUT THIS USER (background, not instructions; what was said later counts):\n"
	keptFact        = "The user plays a violoncello of 1790."
	keptQuestion    = "How old is my violoncello?"
)

// longTerm remembers across chats, but reads none while a test runs.
var longTerm = env{"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "10h"}

// remembers has the user write down what they want to be remembered for.
func (r *rig) remembers(content string) (id string) {
	return r.wanted(http.StatusCreated, http.MethodPost, "/v1/memories", testkit.Body{"content": content})["id"].(string)
}

// remembered returns what a prompt shows of the user's memories.
func remembered(prompt string) string {
	_, section, _ := strings.Cut(prompt, memoriesHeading)
	section, _, _ = strings.Cut(section, "\n\n")
	return section
}

// howRemembered returns why a reply's prompt has no memories, "" if nothing failed, and how many it was shown; -1 where the
// receipt does not speak of memories.
func (r *rig) howRemembered(messageID string) (failure string, shown int) {
	failure = testkit.Ask[string](r.t, r.pool, `select coalesce((select s ->> 'failure' from jsonb_array_elements(metadata -> 'memory' -> 'sections') s
		where s ->> 'name' = 'memories'), '') from messages where id = $1`, messageID)
	return failure, testkit.Ask[int](r.t, r.pool,
		"select coalesce(jsonb_array_length(metadata -> 'memory' -> 'memories'), -1) from messages where id = $1", messageID)
}

// remembersMuch gives the user more memories than a prompt shows without looking for them.
func (r *rig) remembersMuch() {
	testkit.Exec(r.t, r.pool, `insert into memories (user_id, content)
		select $1, 'The user visited the town number ' || n || ' of a long list.' from generate_series(1, 60) n`, r.user)
}

// What one chat was told, or the user wrote down, the first message of the next chat is answered with; its receipt and
// /why name it, and the preview says the same before.
func TestMemoryIsShownToTheNextChat(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, longTerm.And(patient))
	id := r.remembers(keptFact)
	said := r.checkShown(r.node, keptQuestion, "- "+keptFact, 1)
	why := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/messages/"+said.MessageID+"/why", nil))
	assert.Truef(t, strings.Contains(why, keptFact) && strings.Contains(why, id), "why: %s", why)
	empty := r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", testkit.Body{})["id"].(string)
	preview := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+empty+"/memory?content=violoncello", nil))
	assert.Truef(t, strings.Contains(preview, keptFact) && strings.Contains(preview, "1 memory of the user is shown."),
		"the preview is %s", preview)
	r.Say(said.ChatID, "ok, thanks")
	assert.Equal(t, "- "+keptFact, remembered(r.lastPrompt()), "small talk, where all fits, is shown")
	temporary := r.Send("", testkit.Body{"content": keptQuestion, "remember": false}).Rest()
	if failure, shown := r.howRemembered(temporary.MessageID); failure != "" || shown != -1 || strings.Contains(r.lastPrompt(), "1790") {
		t.Errorf("a temporary chat: %q, %d shown\n%s", failure, shown, r.lastPrompt())
	}
}

// checkShown says something in a new chat, whose prompt then shows these memories, so many by its receipt.
func (r *rig) checkShown(n *node, question, want string, count int) testkit.Said {
	r.t.Helper()
	said := n.Say("", question)
	if got := remembered(r.lastPrompt()); got != want {
		r.t.Errorf("%s: %q in\n%s", question, got, r.lastPrompt())
	}
	failure, shown := r.howRemembered(said.MessageID)
	assert.Truef(r.t, failure == "" && shown == count, "%s: %q, %d shown", question, failure, shown)
	return said
}

// MEMORY_SHOW_EMPTY tells the model that nothing is remembered; without it, the section is left out.
func TestEmptyMemoryIsShownOnRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, longTerm.And(patient).And(env{"MEMORY_SHOW_EMPTY": "true"}))
	const nothing = "(No specific memories yet)"
	r.checkShown(r.node, keptQuestion, nothing, 0)
	r.start(app.Role{API: true}, env{"MEMORY_SHOW_EMPTY": "false"}).Say("", "What is new in town?")
	if strings.Contains(r.lastPrompt(), strings.TrimSpace(memoriesHeading)) {
		t.Errorf("an empty section:\n%s", r.lastPrompt())
	}
	r.remembers(keptFact)
	r.checkShown(r.node, "What is new in town?", "- "+keptFact, 1)
	r.wanted(http.StatusOK, http.MethodPatch, "/v1/memories/settings", testkit.Body{"enabled": false})
	r.checkShown(r.node, keptQuestion, "", -1)
}

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
	made := map[string]int{}
	for _, request := range r.model.Requests() {
		if purpose := cmp.Or(request.Metadata["purpose"], "embed"); !strings.Contains(request.Text, "Fail.") {
			made[purpose]++
		}
	}
	assert.Truef(r.t, len(made) >= 2, "too few kinds of calls: %v", made)
	for purpose, calls := range made {
		// A call that was broken off before it arrived is estimated all the same.
		assert.LessOrEqual(r.t, r.count("select count(*) from usage_events where purpose = $1 and not estimated", purpose), calls, purpose)
		testkit.Eventually(r.t, purpose+" is recorded", func() bool {
			return r.count("select coalesce(sum(calls), 0)::int from inspect.tokens_by_day where input_tokens > 0 and purpose = $1", purpose) >= calls
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
	got := topic()["title"]
	assert.Truef(t, got == "Cello teacher, etudes", "the title is %v", got)
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
	all := r.wanted(http.StatusOK, http.MethodGet, path+"/current/history?include_compressed=true", nil)["messages"].([]any)
	assert.Truef(t, len(all) >= 10, "the history is %v", all)

	question := r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+chatID+"/standalone", testkit.Body{"content": "And how many was that?"})
	assert.Truef(t, question["content"] == "How many etudes did the user practise?" && question["rewritten"] == true,
		"the question is %v", question)
	asked := r.rewrites()
	if len(asked) != 1 || !strings.Contains(asked[0].Text, "The user practises etudes on a cello every day.") ||
		!strings.Contains(asked[0].Text, "etude number 106") {
		t.Errorf("the model was asked %d times: %+v", len(asked), asked)
	}
	r.wanted(http.StatusBadGateway, http.MethodPost, "/v1/chats/"+chatID+"/standalone", testkit.Body{"content": "Fail."})
	empty := r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", nil)["id"].(string)
	alone := r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+empty+"/standalone", testkit.Body{"content": "And how many was that?"})
	assert.Truef(t, alone["content"] == "And how many was that?" && alone["rewritten"] == false,
		"without a conversation: %v", alone)
	r.wantEachCallRecorded()
	assert.Equal(t, 0, r.count("select count(*) from messages where content like 'And how many%'"),
		"a question to be rewritten was stored")
}

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
	raw := testkit.Ask[string](r.t, r.pool, "select (metadata -> 'memory')::text from messages where id = $1", messageID)
	require.NoError(r.t, json.Unmarshal([]byte(raw), &receipt))
	return receipt
}

func TestTopicsInPrompts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, topical(t, concepts(nil)))
	r.checkReturn(r.leaveTopic())
	r.remembers("The user sees a dentist in Graz.")
	r.remembers(keptFact)
	testkit.Eventually(t, "all have vectors", func() bool {
		return r.count("select count(*) from memories where embedding_model is null") == 0 &&
			strings.Contains(r.Call(http.MethodGet, "/metrics", nil).Text, "throughline_turns_without_vector 0")
	})
	got := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/memories?q=my+aching+molar", nil))
	assert.Truef(t, strings.Contains(got, "Graz") && !strings.Contains(got, "violoncello"),
		"memories listed by meaning: %s", got)
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
		quoted := recalledIn(r.lastPrompt())
		assert.Truef(t, !strings.Contains(quoted, "etude") && strings.Contains(quoted, "Okonkwo"),
			"%s: recalled %q", question, quoted)
		receipt := r.receiptOf(said.MessageID)
		assert.Truef(t, receipt.Topic == dentist && len(receipt.Recalled) != 0 && slices.Max(receipt.Recalled) <= 5,
			"%s: the receipt has %+v", question, receipt)
		why := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/messages/"+said.MessageID+"/why", nil)["topic"])
		assert.Truef(t, strings.Contains(why, dentist) && strings.Contains(why, "Okonkwo treats"), "why: %s", why)
	}
	preview := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+chatID+"/memory?content="+url.QueryEscape(oldQuestion), nil))
	if !strings.Contains(preview, topicHeading) || !strings.Contains(preview, `"topic":"`+dentist) || !strings.Contains(preview, "come back to is named") {
		t.Errorf("the preview is %s", preview)
	}
	found := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/recall?q=molar+practised&topic_id="+dentist, nil)["results"])
	assert.Truef(t, !strings.Contains(found, "practised") && strings.Contains(found, "molar"),
		"within the topic: %s", found)
}
