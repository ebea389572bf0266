package system

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const (
	recallHeading = "RELEVANT EARLIER TURNS (oldest first, quoted in part):\n"
	oldFact       = "My dentist is called Wilhelmina Okonkwo, she fixed the molar."
	oldQuestion   = "Who was it that fixed my molar?"
)

// patient waits for recalled turns also on a loaded machine.
var patient = env{"RECALL_DEADLINE": "20s"}

// tellAndForget tells a fact and goes on until it is in the brief.
func (r *rig) tellAndForget(fact string) (chatID string) {
	r.t.Helper()
	chatID = r.Say("", fact).ChatID
	r.practise(chatID, 14)
	r.awaitFolds()
	covered := testkit.Ask[int64](r.t, r.pool, "select covered_seq from conversation_briefs where chat_id = $1", chatID)
	require.Truef(r.t, covered >= 2, "the brief covers messages up to %d", covered)
	return chatID
}

// recalledIn returns what a prompt quotes of earlier turns.
func recalledIn(prompt string) string {
	_, section, _ := strings.Cut("\n\n"+prompt, "\n\n"+recallHeading)
	section, _, _ = strings.Cut(section, "\n\nCURRENT MESSAGE:")
	return section
}

// A fact that the prompt no longer holds comes back with the question about it, in every way in.
func TestFactThatLeftThePromptComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, smallMemory.And(patient))
	chatID := r.tellAndForget(oldFact)

	preview := r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+chatID+"/memory?content="+url.QueryEscape(oldQuestion), nil)
	got := marshal(preview)
	assert.Truef(t, strings.Contains(got, "Okonkwo") && strings.Contains(got, `"recall":"words"`) && strings.Contains(got, "quoted for the question"),
		"the preview is %s", got)
	got = marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+chatID+"/memory", nil))
	assert.NotContainsf(t, got, `"recall"`, "the preview without a message is %s", got)

	said := r.Say(chatID, oldQuestion)
	if got := recalledIn(r.lastPrompt()); !strings.Contains(got, "] User: "+oldFact) || strings.Contains(got, oldQuestion) {
		t.Errorf("recalled %q in\n%s", got, r.lastPrompt())
	}
	assert.Containsf(t, said.Text, "Okonkwo", "the reply is %q", said.Text)
	stored := testkit.Ask[string](t, r.pool, "select (metadata -> 'memory')::text from messages where id = $1", said.MessageID)
	assert.Truef(t, strings.Contains(stored, `"recalled": [1`) && strings.Contains(stored, `"recall": "words"`) && !strings.Contains(stored, "Okonkwo"),
		"the receipt is %s", stored)
	why := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/messages/"+said.MessageID+"/why", nil))
	assert.Truef(t, strings.Contains(why, "Okonkwo") && strings.Contains(why, `"kind":"fold"`), "why: %s", why)
	for _, path := range []string{"/v1/recall?q=" + url.QueryEscape(oldQuestion), "/v1/recall?limit=1&chat_id=" + chatID + "&q=molar"} {
		found := r.wanted(http.StatusOK, http.MethodGet, path, nil)["results"].([]any)
		assert.Truef(t, len(found) != 0 && strings.Contains(marshal(found), "Okonkwo"), "%s: %v", path, found)
	}

	r.Say(chatID, "ok, thanks")
	assert.Equal(t, "", recalledIn(r.lastPrompt()), "small talk recalls")
	other := r.stranger().Call(http.MethodGet, "/v1/recall?q=molar+dentist", nil)
	assert.Truef(t, other.Status == http.StatusOK && !strings.Contains(other.Text, "seq"),
		"another user finds %s", other.Text)

	r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+chatID+"/clear", nil) // nothing comes back after that
	r.Say(chatID, "On another day I went to the sea.")
	r.Say(chatID, oldQuestion)
	assert.Equal(t, "", recalledIn(r.lastPrompt()), "recalled cleared turns")
}

const (
	rosinFact     = "For my cello bow I chose the amber rosin by Hidersine."
	rosinQuestion = "Which rosin did I choose for my cello bow?"
)

// saysIn starts a chat with settings, and says which chat it is.
func (r *rig) saysIn(settings testkit.Body, content string) (chatID string) {
	r.t.Helper()
	chatID = r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", settings)["id"].(string)
	r.Say(chatID, content)
	return chatID
}

// A user without rights is told nothing, and a hidden turn is told to no one.
func TestTurnsOfOtherChatsAreOnlyQuotedWhereTheyMay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, patient.And(longTerm))
	chatID := r.saysIn(nil, rosinFact)
	found := func(settings testkit.Body) bool {
		t.Helper()
		asking := r.saysIn(settings, rosinQuestion)
		found := strings.Contains(recalledIn(r.lastPrompt()), "Hidersine")
		r.wanted(http.StatusNoContent, http.MethodDelete, "/v1/chats/"+asking, nil)
		return found
	}
	for settings, want := range map[string]bool{"": true, `"recall": "all"`: true, `"recall": "chat"`: false, `"remember": false`: false} {
		var body testkit.Body
		require.NoError(t, json.Unmarshal([]byte("{"+settings+"}"), &body))
		assert.Equalf(t, want, found(body), "a chat with %q", settings)
	}
	for _, c := range []struct{ name, change, back string }{
		{"a temporary chat", "update chats set remember = false where id = $1", "update chats set remember = true where id = $1"},
		{"an expired chat", "update chats set ttl_hours = 1, created_at = now() - interval '2 hours', last_message_at = null where id = $1",
			"update chats set ttl_hours = null where id = $1"},
		{"a cleared chat", "update conversation_briefs set cleared_seq = 2 where chat_id = $1", "update conversation_briefs set cleared_seq = 0 where chat_id = $1"},
		{"an excluded subject", `insert into memory_users (user_id, excluded) select user_id, '{rosin}' from chats where id = $1
			on conflict (user_id) do update set excluded = '{rosin}'`,
			"update memory_users set excluded = '{}' where user_id = (select user_id from chats where id = $1)"},
		{"memories switched off", "update memory_users set enabled = false where user_id = (select user_id from chats where id = $1)",
			"update memory_users set enabled = true where user_id = (select user_id from chats where id = $1)"},
	} {
		testkit.Exec(t, r.pool, c.change, chatID)
		assert.Falsef(t, found(nil), "%s is quoted", c.name)
		testkit.Exec(t, r.pool, c.back, chatID)
		assert.Truef(t, found(nil), "%s: not found afterwards", c.name)
	}
}

// An embedder that is away fails no reply: turns, topics and memories are found by their words. What words do not find is
// missing, and the receipt says so. A topic whose vector is another model's is found by words as well.
func TestLookupsWithoutTheEmbedder(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	r := newRig(t, nil, topical(t, concepts(func(w http.ResponseWriter, _ *http.Request) bool {
		if away.Load() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return away.Load()
	})))
	chatID := r.leaveTopic()
	r.remembers(keptFact)
	r.remembersMuch()
	testkit.Exec(t, r.pool, "update topics set embedding_model = 'another' where chat_id = $1", chatID)
	if r.Say(chatID, oldQuestion); topicIn(r.lastPrompt()) == "" {
		t.Errorf("vectors of another model: no topic in\n%s", r.lastPrompt())
	}
	away.Store(true)
	if said := r.Say(chatID, "Who fixed my molar in those days?"); topicIn(r.lastPrompt()) == "" || r.receiptOf(said.MessageID).Recall != "words" {
		t.Errorf("without an embedder: no topic in\n%s", r.lastPrompt())
	}
	said := r.Say(chatID, "Which physician mended something for me, back then?")
	receipt := r.receiptOf(said.MessageID)
	assert.Truef(t, receipt.Topic == "" && (receipt.Recall == "failed" || receipt.Recall == "late") && topicIn(r.lastPrompt()) == "",
		"what words do not find: %+v", receipt)
	if failure, shown := r.howRemembered(r.Say("", keptQuestion).MessageID); failure != "" || shown != 2 { // one is durable
		t.Errorf("memories by words: %q, %d shown", failure, shown)
	}
	failure, shown := r.howRemembered(r.Say("", "Which string instrument do I practise?").MessageID)
	assert.Truef(t, (failure == "late" || failure == "failed") && shown == 1,
		"memories by meaning: %q, %d shown", failure, shown)
	for path, want := range map[string]string{"/v1/recall?q=molar": "Okonkwo", "/v1/memories?q=violoncello": keptFact} {
		found := r.Call(http.MethodGet, path, nil)
		assert.Truef(t, found.Status == http.StatusOK && strings.Contains(found.Text, want),
			"%s: %d %s", path, found.Status, found.Text)
	}
}

// A turn that is deleted while a message about it is on its way is in no prompt that is built after the deletion.
func TestDeletionRacesTheLookup(t *testing.T) {
	t.Parallel()
	races := 100
	if testing.Short() {
		races = 25
	}
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "Fine."} },
		patient.And(env{"MEMORY_MAX_HISTORY_TOKENS": "60"}))
	made := r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", testkit.Body{"memory_strategy": "simple"})
	chatID := made["id"].(string)
	for n := range races {
		r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+chatID+"/messages", testkit.Body{"messages": []testkit.Body{
			{"role": "user", "content": fmt.Sprintf("The locker quokka%d holds a wombat%d.", n, n)}, {"role": "assistant", "content": "I see."},
		}})
	}
	r.Say(chatID, "That was all of them, for now and for a while, I should think.")
	testkit.Eventually(t, "the turns are indexed", func() bool {
		return r.count("select count(*) from turn_index where chat_id = $1 and seq <= $2", chatID, 2*races) == races
	})
	ids := testkit.Ask[[]string](t, r.pool, "select array_agg(id::text order by seq) from messages where chat_id = $1 and content like 'The locker%'", chatID)
	recalled := 0
	for n, id := range ids {
		question := fmt.Sprintf("What is in the locker quokka%d?", n)
		var both sync.WaitGroup
		both.Go(func() {
			if n%2 == 0 {
				time.Sleep(time.Duration(n%10) * time.Millisecond) // sometimes after the lookup
			}
			got := r.Call(http.MethodDelete, "/v1/messages/"+id, nil)
			assert.Truef(t, got.Status == http.StatusNoContent, "%d %s", got.Status, got.Text)
		})
		both.Go(func() { r.Say(chatID, question) })
		both.Wait()
		canary := fmt.Sprintf("wombat%d.", n)
		if strings.Contains(r.lastPrompt(), canary) {
			recalled++
		}
		r.Say(chatID, question)
		if strings.Contains(r.lastPrompt(), canary) {
			t.Fatalf("deleted words are in the prompt\n%s", r.lastPrompt())
		}
	}
	t.Logf("%d of %d prompts were built before the deletion", recalled, races)
	n := r.count("select count(*) from turn_index where tsv::text like '%wombat%'")
	assert.Truef(t, n == 0, "%d turns of the index hold deleted words", n)
}

// With RECALL=off turns are indexed for search alone: nothing is looked up, and the embedder is never asked.
func TestRecallThatIsOffDoesNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	embedder := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(embedder.Close)
	r := newRig(t, nil, smallMemory.And(env{"RECALL": "off", "EMBEDDING_MODEL": "an-embedder", "EMBEDDING_BASE_URL": embedder.URL}))
	chatID := r.tellAndForget(oldFact)
	said := r.Say(chatID, oldQuestion)
	if got := testkit.Ask[bool](t, r.pool, "select metadata -> 'memory' ?| '{recall,recalled,recall_tokens}' from messages where id = $1", said.MessageID); got {
		t.Error("the receipt speaks of recall")
	}
	if strings.Contains(r.lastPrompt(), recallHeading) {
		t.Errorf("recalled:\n%s", r.lastPrompt())
	}
	got := r.Call(http.MethodGet, "/v1/recall?q=molar", nil)
	assert.Truef(t, got.Status == http.StatusConflict && got.Code() == "recall_off", "%d %s", got.Status, got.Text)
	assert.True(t, r.count("select count(*) from turn_index") != 0, "no turn is indexed for search")
	if n := r.count("select count(*) from river.river_job where kind = 'embed_turns'"); n != 0 || asked.Load() != 0 {
		t.Errorf("%d jobs for vectors, the embedder was asked %d times", n, asked.Load())
	}
}
