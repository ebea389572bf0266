package clients_test

import (
	"flag"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
)

var rounds = flag.Int("rounds", 16, "how often two devices change a chat at once")

// TestVersions edits messages, asks for other replies and goes back, with the store that apps use: over a network that cuts, and on
// two devices at once.
func TestVersions(t *testing.T) {
	t.Parallel()
	requireBuild(t)
	noticeScripts(t)
	r := newRig(t)
	network := newProxy(t, r.here)
	cues := startCues(t, map[string]func(){
		"cutAtOnce": func() { network.CutAfter(1) },
		"cutSoon":   func() { network.CutAfter(1500) },
	})
	t.Log(r.runNode("testdata/versions.js", env{"NETWORK": network.base, "CUES": cues, "ROUNDS": strconv.Itoa(*rounds)}))
}

// edits shows the tail leave at once, and come back where the server refuses.
func (h hooks) edits() {
	first, second, edited := "Wie heißt sie? "+uuid.NewString(), uuid.NewString(), "彼女の名前は? "+uuid.NewString()
	goOn := h.hold(edited, reply, half)
	h.plays.add(edited, offline.Answer{Text: "Ada."})
	chatID := h.say("", first)
	h.say(chatID, second)
	p := h.launch(h.here.base, chatID)
	before := []string{first, "Re: " + first, second, "Re: " + second}
	p.awaitSaid("ready", before...)
	p.do("edit", map[string]any{"at": 0, "content": " "})
	refused := p.awaitSaid("ready", before...)
	if assert.NotNil(h.t, refused.Refused, "nothing is said of an edit without a word") {
		assert.Equal(h.t, "validation_failed", refused.Refused.Code)
	}
	p.do("edit", map[string]any{"at": 0, "content": edited})
	p.awaitSaid("streaming", edited, said(half))
	goOn()
	p.awaitSaid("ready", edited, reply)
	p.do("regenerate", nil)
	p.awaitPlaces("2/2", "2/2", edited, "Ada.")
	p.do("goBack", map[string]any{"at": 1})
	p.awaitPlaces("2/2", "1/2", edited, reply)
	p.do("goBack", map[string]any{"at": 0})
	p.awaitSaid("ready", before...)
}

// awaitPlaces waits until a message and its reply are shown, with their places among their versions.
func (p shown) awaitPlaces(ofMessage, ofReply string, texts ...string) {
	p.t.Helper()
	p.await("the versions "+ofMessage+" and "+ofReply, func(now hooked) bool {
		places := now.Chat.Places
		return now.Chat.Status == "ready" && len(places) == 2 && places[0] != nil && *places[0] == ofMessage && places[1] != nil && *places[1] == ofReply
	})
	p.awaitSaid("ready", texts...)
}

// changes presses long on a message; what another device has said meanwhile takes neither the text nor the messages.
func (s sample) changes() {
	content, network, goOn := s.hears()
	goOn()
	s.replied(content)
	edited := "別の質問 " + uuid.NewString()
	s.plays.add(edited, offline.Answer{Text: "Ada."})
	s.plays.add(edited, offline.Answer{Text: "Bea."})
	s.do("hold", map[string]any{"text": content})
	s.fill("Your message", edited)
	hooks{recipe: s.recipe}.say(s.chatOf(content), "Meanwhile")
	s.press("Change")
	s.shows("The conversation has changed meanwhile.")
	s.shows("Re: Meanwhile", "Another reply", "Meanwhile", reply)
	s.press("Change") // now that it was seen
	s.shows("Ada.", "Another reply", edited, "‹", "2/2")
	network.CutNow()
	s.press("Another reply")
	s.shows("Bea.", "Another reply", "‹", "2/2", edited, "‹", "2/2")
	s.press("‹")
	s.shows("Ada.", "Another reply", "1/2", "›", edited, "‹", "2/2")
}
