package offline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ownSummary has the form in which folds are kept.
const ownSummary = labelSaid + "\n- My sister Ana works as a nurse in Porto.\n- I am allergic to peanuts.\n" + labelSuggested + "\n- Try the cello suites in the morning."

// prompt builds a main prompt from its parts; "" leaves a section out.
func prompt(background, recent, sources, current string) *Request {
	var parts []string
	for _, section := range [][2]string{{headBackground, background}, {headRecent, recent}, {headSources, sources}, {headCurrent, current}} {
		if section[1] != "" {
			parts = append(parts, section[0]+"\n"+section[1])
		}
	}
	return &Request{Kind: KindReply, Text: strings.Join(parts, "\n\n")}
}

func TestRepliesQuoteWhatThePromptHolds(t *testing.T) {
	t.Parallel()
	const recent = "User: My dog is called Biscuit. We walk at 7 every morning.\nAssistant: Noted: \"My dog is called Biscuit.\"\n\n" +
		"User: What is the name of my dog?\nAssistant: Earlier you said: \"My dog is called Biscuit.\"\n\n" +
		"User: I moved from Lisbon to Madrid last week.\nAssistant: I will go by that from here on."
	const sources = "[1] Opening hours, https://example.org/hours\nThe museum opens at 10 and closes at 18.\n[2] Prices\nA ticket costs 12 euros."
	for _, c := range []struct{ name, current, want string }{
		{"from the summary", "What does my sister do for work?", `From our conversation summary: "My sister Ana works as a nurse in Porto."`},
		{"from prose in the summary", "Remind me what I am allergic to", `From our conversation summary: "I am allergic to peanuts."`},
		{"from the user's own words", "What is my dog's name?", `Earlier you said: "My dog is called Biscuit."`},
		{"not from a question", "Do you remember the dog's name", `Earlier you said: "My dog is called Biscuit."`},
		{"by kin of a word", "Where do I live now?", `Earlier you said: "I moved from Lisbon to Madrid last week."`},
		{"from a source", "When does the museum open?", `Source [1] says: "The museum opens at 10 and closes at 18."`},
		{"from the second source", "How much is a ticket?", `Source [2] says: "A ticket costs 12 euros."`},
		{"from nowhere", "Which submarine sank in Kiel?", "Nothing in what I was given answers that."},
	} {
		got := reply(prompt(ownSummary, recent, sources, c.current))
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	plain := reply(prompt("The user plays the cello. Ana, the user's sister, lives in Porto.", "", "", "Where does Ana live?"))
	if !strings.HasPrefix(plain, `From our conversation summary: "Ana, the user's sister, lives in Porto."`) {
		t.Errorf("a summary in prose: %q", plain)
	}
}

func TestOfTwoFactsTheLaterOneCounts(t *testing.T) {
	t.Parallel()
	const recent = "User: My favourite colour is green.\nAssistant: I am here.\n\nUser: My favourite colour is orange.\nAssistant: I am here."
	if got := reply(prompt("", recent, "", "What is my favourite colour?")); !strings.Contains(got, "orange") {
		t.Errorf("%q", got)
	}
}

func TestStatementsAreAcknowledged(t *testing.T) {
	t.Parallel()
	got := reply(prompt("", "", "", "Hello! It rains here. My exam is on 12 March in Oslo."))
	if !strings.Contains(got, `"My exam is on 12 March in Oslo."`) {
		t.Errorf("%q", got)
	}
	if reply(prompt("", "", "", "👍")) == "" || reply(&Request{}) == "" {
		t.Error("a message without words gets no reply")
	}
}

func TestPromptIsParsedInItsSections(t *testing.T) {
	t.Parallel()
	p := parsePrompt(prompt("A brief.", "User: one\ntwo\nAssistant: three\n\nUser: four", "[1] a\nb\n[2] c", "Five\n\nsix").Text)
	want := mainPrompt{
		background: "A brief.",
		recent:     []utterance{{false, "one\ntwo"}, {true, "three"}, {false, "four"}},
		sources:    []string{"a\nb", "c"},
		current:    "Five\n\nsix",
	}
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(mainPrompt{}, utterance{})); diff != "" {
		t.Error(diff)
	}
	if p := parsePrompt("no headings"); p.current != "no headings" {
		t.Errorf("%+v", p)
	}
}

func TestRecalledTurnsAreParsedAndQuoted(t *testing.T) {
	t.Parallel()
	frame := prompt("They met.", "User: Hello.\nAssistant: Hello.", "", "Which string broke?").Text
	text := strings.Replace(frame, "\n\n"+headCurrent, "\n\n"+headRecall+"\n[2026-03-03] User: It was the A string that broke.\nSo I changed it. / Assistant: … I noted it.\n> RETRIEVED SOURCES:\n[2026-03-05] Assistant: Good morning.\n\n"+headCurrent, 1)
	p := parsePrompt(text)
	want := mainPrompt{
		background: "They met.",
		recent:     []utterance{{false, "Hello."}, {true, "Hello."}},
		recalled:   []utterance{{false, "It was the A string that broke.\nSo I changed it."}, {true, "… I noted it.\n> RETRIEVED SOURCES:"}, {true, "Good morning."}},
		current:    "Which string broke?",
	}
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(mainPrompt{}, utterance{})); diff != "" {
		t.Error(diff)
	}
	if got := reply(&Request{Kind: KindReply, Text: text}); !strings.HasPrefix(got, "From an earlier turn: \"It was the A string that broke.\"") {
		t.Error(got)
	}
}

func TestTheTopicsSummaryIsParsedAndQuoted(t *testing.T) {
	t.Parallel()
	frame := prompt("They met.", "", "", "Which rosin did I choose?").Text
	text := strings.Replace(frame, "\n\n"+headCurrent, "\n\n"+headMemories+"\n- Plays the cello\n\n"+headTopic+" Bows, since 3 March 2026, 18 turns\n"+
		labelSaid+"\n- I chose the dark rosin.\n\n"+headRecall+"\n[2026-03-03] User: Hello.\n\n"+headCurrent, 1)
	p := parsePrompt(text)
	if p.topic != labelSaid+"\n- I chose the dark rosin." || len(p.memories) != 1 || len(p.recalled) != 1 || p.background != "They met." {
		t.Errorf("%+v", p)
	}
	got := reply(&Request{Kind: KindReply, Text: text})
	if !strings.HasPrefix(got, "From the topic that we came back to: \"I chose the dark rosin.\"") || !quotation.MatchString(got) {
		t.Error(got)
	}
}

func TestCapIsReadFromTheInstructions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"at most 500 tokens":                           500,
		"Keep it under 1,200 tokens, please.":          1200,
		"You see 8000 tokens; write at most 90 tokens": 90,
		"a 250-token summary":                          250,
		"no more than about 70 tokens":                 70,
		"write little":                                 0,
	} {
		if got, _ := findCap(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := capOf(&Request{Kind: KindTopic}); got != 150 {
		t.Errorf("of a topic: %d", got)
	}
	if got := capOf(&Request{MaxOutputTokens: 100}); got != 100 {
		t.Errorf("max_output_tokens: %d", got)
	}
}
