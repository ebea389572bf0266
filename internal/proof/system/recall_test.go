package system

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

const (
	recallHeading = "RELEVANT EARLIER TURNS (oldest first, quoted in part):\n"
	oldFact       = "My dentist is called Wilhelmina Okonkwo, she fixed the molar."
	oldQuestion   = "Who was it that fixed my molar?"
)

// patient waits for what is recalled also on a loaded machine.
var patient = env{"RECALL_DEADLINE": "20s"}

// tellAndForget tells a fact and goes on until it is in the brief.
func (r *rig) tellAndForget(fact string) (chatID string) {
	r.t.Helper()
	chatID = r.Say("", fact).ChatID
	r.practise(chatID, 14)
	r.awaitFolds()
	if covered := testkit.Ask[int64](r.t, r.pool, "select covered_seq from conversation_briefs where chat_id = $1", chatID); covered < 2 {
		r.t.Fatalf("the brief covers messages up to %d", covered)
	}
	return chatID
}

// recalledIn returns what a prompt quotes of earlier turns.
func recalledIn(prompt string) string {
	_, section, _ := strings.Cut(prompt, "\n\n"+recallHeading)
	section, _, _ = strings.Cut(section, "\n\nCURRENT MESSAGE:")
	return section
}

// A fact that the prompt no longer holds comes back with the question about it, in every way in.
func TestFactThatLeftThePromptComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, smallMemory.And(patient))
	chatID := r.tellAndForget(oldFact)

	preview := r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+chatID+"/memory?content="+url.QueryEscape(oldQuestion), nil)
	if got := marshal(preview); !strings.Contains(got, "Okonkwo") || !strings.Contains(got, `"recall":"words"`) ||
		!strings.Contains(got, "quoted for the question") {
		t.Errorf("the preview is %s", got)
	}
	if got := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/chats/"+chatID+"/memory", nil)); strings.Contains(got, `"recall"`) {
		t.Errorf("the preview without a message is %s", got)
	}

	said := r.Say(chatID, oldQuestion)
	if got := recalledIn(r.lastPrompt()); !strings.Contains(got, "] User: "+oldFact) || strings.Contains(got, oldQuestion) {
		t.Errorf("recalled %q in\n%s", got, r.lastPrompt())
	}
	if !strings.Contains(said.Text, "Okonkwo") {
		t.Errorf("the reply is %q", said.Text)
	}
	stored := testkit.Ask[string](t, r.pool, "select (metadata -> 'memory')::text from messages where id = $1", said.MessageID)
	if !strings.Contains(stored, `"recalled": [1`) || !strings.Contains(stored, `"recall": "words"`) || strings.Contains(stored, "Okonkwo") {
		t.Errorf("the receipt is %s", stored)
	}
	why := marshal(r.wanted(http.StatusOK, http.MethodGet, "/v1/messages/"+said.MessageID+"/why", nil))
	if !strings.Contains(why, "Okonkwo") || !strings.Contains(why, `"kind":"fold"`) {
		t.Errorf("why: %s", why)
	}
	for _, path := range []string{"/v1/recall?q=" + url.QueryEscape(oldQuestion), "/v1/recall?limit=1&chat_id=" + chatID + "&q=molar"} {
		found := r.wanted(http.StatusOK, http.MethodGet, path, nil)["results"].([]any)
		if len(found) == 0 || !strings.Contains(marshal(found), "Okonkwo") {
			t.Errorf("%s: %v", path, found)
		}
	}

	r.Say(chatID, "ok, thanks")
	if got := recalledIn(r.lastPrompt()); got != "" {
		t.Errorf("small talk recalls %q", got)
	}
	if other := r.stranger().Call(http.MethodGet, "/v1/recall?q=molar+dentist", nil); other.Status != http.StatusOK || strings.Contains(other.Text, "seq") {
		t.Errorf("another user finds %s", other.Text)
	}

	r.wanted(http.StatusOK, http.MethodPost, "/v1/chats/"+chatID+"/clear", nil) // nothing comes back after that
	r.Say(chatID, "On another day I went to the sea.")
	r.Say(chatID, oldQuestion)
	if got := recalledIn(r.lastPrompt()); got != "" {
		t.Errorf("recalled what was cleared: %q", got)
	}
}
