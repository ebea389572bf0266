package offline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownSummary has the form in which folds are kept.
const ownSummary = "My sister Ana works as a nurse in Porto.\nI am allergic to peanuts.\n" + suggested + "Try the cello suites in the morning."

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
		{"from prose in the summary", "Remind me what I am allergic to", "You are allergic to peanuts."},
		{"from the user's own words", "What is my dog's name?", "Your dog is called Biscuit."},
		{"not from a question", "Do you remember the dog's name", "Your dog is called Biscuit."},
		{"by kin of a word", "Where do I live now?", "You live in Madrid."},
		{"from a source", "When does the museum open?", `Source [1] says: "The museum opens at 10 and closes at 18."`},
		{"from the second source", "How much is a ticket?", `Source [2] says: "A ticket costs 12 euros."`},
		{"from nowhere", "Which submarine sank in Kiel?", "Nothing that I was told answers that."},
	} {
		got := reply(prompt(ownSummary, recent, sources, c.current))
		assert.Truef(t, strings.HasPrefix(got, c.want), "%s: %q, want %q", c.name, got, c.want)
	}
	plain := reply(prompt("The user plays the cello. Ana, the user's sister, lives in Porto.", "", "", "Where does Ana live?"))
	assert.Truef(t, strings.HasPrefix(plain, `From our conversation summary: "Ana, the user's sister, lives in Porto."`),
		"a summary in prose: %q", plain)
}

func TestOfTwoFactsTheLaterOneCounts(t *testing.T) {
	t.Parallel()
	const recent = "User: My favourite colour is green.\nAssistant: I am here.\n\nUser: My favourite colour is orange.\nAssistant: I am here."
	got := reply(prompt("", recent, "", "What is my favourite colour?"))
	assert.Containsf(t, got, "orange", "%q", got)
}

func TestStatementsAreAcknowledged(t *testing.T) {
	t.Parallel()
	got := reply(prompt("", "", "", "Hello! It rains here. My exam is on 12 March in Oslo."))
	assert.Containsf(t, got, `"My exam is on 12 March in Oslo."`, "%q", got)
	assert.True(t, reply(prompt("", "", "", "👍")) != "" && reply(&Request{}) != "", "a message without words gets no reply")
}

// Each of these is the first message of a chat about a user who is remembered.
func TestRepliesSpeakToTheirUser(t *testing.T) {
	t.Parallel()
	const offlineEnglish = "\n\nI am the offline model: I know only what you tell me."
	const offlineGerman = "\n\nIch bin das Offline-Modell: Ich weiß nur, was du mir sagst."
	for current, want := range map[string]string{
		"What do you know about me?":                     "Your name is Ada. You are vegetarian, live in Porto and play the cello." + offlineEnglish,
		"Was weißt du über mich?":                        "Du heißt Ada, bist vegetarian, wohnst in Porto und spielst the cello." + offlineGerman,
		"What's my name?":                                "Your name is Ada." + offlineEnglish,
		"Wie heiße ich?":                                 "Du heißt Ada." + offlineGerman,
		"Wie heiße ich, und wo wohne ich?":               "Du heißt Ada und wohnst in Porto." + offlineGerman,
		"What's my name and where do I live?":            "Your name is Ada. You live in Porto." + offlineEnglish,
		"wo wohne ich":                                   "Du wohnst in Porto." + offlineGerman,
		"Ich heiße Ute, bin Veganerin und wohne in Ulm.": "Du heißt Ute, bist Veganerin und wohnst in Ulm. ",
		"Hello!":                           "Hello! Three things to try:\n\n1. ",
		"Guten Morgen":                     "Hallo! Drei Dinge zum Ausprobieren:\n\n1. ",
		"Compare Porto and Oslo":           "| | Porto | Oslo |\n|---|---|---|\n| What I was told | You live in Porto. | – |",
		"Plan a weekend in Porto.":         "1. **First** write down what has to be true at the end of *weekend in Porto*.",
		"Wie ist das Wetter auf dem Mars?": "Nichts, was mir gesagt wurde, beantwortet das." + offlineGerman,
	} {
		got := reply(&Request{Text: headMemories + "\n- The user's name is Ada.\n- The user is vegetarian.\n- The user lives in Porto.\n" +
			"- The user plays the cello.\n\n" + headCurrent + "\n" + current})
		assert.Truef(t, strings.HasPrefix(got, want), "%s: %q, want %q", current, got, want)
	}
	again := reply(prompt("", "User: Hello!\nAssistant: Hello!", "", "My name is Ada."))
	assert.NotContains(t, again, "offline", "it says so once")
}

// Each of these comes in the middle of a chat.
func TestSmallTalkIsNotNoted(t *testing.T) {
	t.Parallel()
	const us, uns = "I am the offline model: I know only what you tell me.", "Ich bin das Offline-Modell: Ich weiß nur, was du mir sagst."
	const likes = "User: I love sushi.\nAssistant: You love sushi."
	for current, want := range map[string]string{
		"thanks!": "I am here.", "lol ok": "I am here.", "who are you": us, "tell me a joke": us, "Call me Ben": "Your name is Ben. ",
		"Write a function that adds numbers": "That takes a real model", "Help me weigh what speaks for each side": "Name both sides",
		"whats my job": "Nothing that", "what do i like": "You love sushi.", "what can you do": "Hello! Three things", "Rosin for Anna": `Noted: "Rosin`,
	} {
		got := reply(prompt("", likes, "", current))
		assert.Truef(t, strings.HasPrefix(got, want), "%s: %q, want %q", current, got, want)
	}
	for current, want := range map[string]string{
		"danke dir": "Ich bin da.", "haha ok": "Ich bin da.", "kannst du mir helfen": uns, "hey": "Hallo!", "wo wohn ich": "Du wohnst in Ulm.",
		"plan mir ein Wochenende in Ulm": "1. **Zuerst** schreib auf, was am Ende gelten soll: *Wochenende in Ulm*.", "Lena": "Ich bin da.",
	} {
		got := reply(prompt("", "User: Ich wohne in Ulm.\nAssistant: Ich bin da.", "", current))
		assert.Truef(t, strings.HasPrefix(got, want), "%s: %q, want %q", current, got, want)
	}
}

// Every section of a prompt is read, up to the next one, and the message being answered is all of its own words.
func TestSectionsArePassages(t *testing.T) {
	t.Parallel()
	const recalled = "[2026-03-03] User: It was the A string that broke.\nSo I changed it. / Assistant: … I noted it.\n" +
		"> RETRIEVED SOURCES:\n[2026-03-05, chat \"Bows\"] Assistant: Hm."
	text := strings.Join([]string{
		headBackground + "\nA brief.", headKept + "\nUser: Kept.", headRecent + "\nUser: one\ntwo\nAssistant: three", headFiles + "\nmain.go",
		headMemories + "\n- Plays the cello.", headTopic + " Bows, since 3 March 2026, 18 turns\nI chose the dark rosin.",
		headRecall + "\n" + recalled, headSources + "\n[1] a\nb\n[2] c", headCurrent + "\nFive\n\nRETRIEVED SOURCES:\nsix",
	}, "\n\n")
	known, current := parsePrompt(text)
	var got []string
	for _, p := range quotable(known) {
		got = append(got, fmt.Sprintf("%s: %s %g", p.from, p.text, p.weight))
	}
	want := []string{
		"Source [1] says: a 1", "Source [1] says: b 1", "Source [2] says: c 1", "A file says: main.go 1",
		"From our conversation summary: A brief. 1", "From what I remember of you: Plays the cello. 1",
		"From the topic that we came back to: I chose the dark rosin. 1", "From an earlier turn: It was the A string that broke. 1",
		"From an earlier turn: So I changed it. 1", "From an earlier turn: I noted it. 0.5", "From an earlier turn: RETRIEVED SOURCES: 0.5",
		"From an earlier turn: Hm. 0.5", "Earlier you said: Kept. 1", "Earlier you said: one 1", "Earlier you said: two 1", "Earlier I said: three 0.5",
	}
	diff := cmp.Diff(want, got)
	assert.Truef(t, diff == "" && current == "Five\n\nRETRIEVED SOURCES:\nsix", "%q %s", current, diff)
	answer := reply(&Request{Text: strings.Replace(text, "Five", "Which string broke?", 1)})
	assert.Truef(t, strings.HasPrefix(answer, `From an earlier turn: "It was the A string`) && isStock(answer, true),
		"%v", answer)
	if _, current := parsePrompt("no headings"); current != "no headings" {
		t.Errorf("%q", current)
	}
}

func TestCapIsReadFromTheInstructions(t *testing.T) {
	t.Parallel()
	for want, r := range map[int]Request{
		500: {}, 150: {Kind: KindTopic}, 90: {Instructions: "You see 8000 tokens. The summary has at most 90 tokens."},
		100: {MaxOutputTokens: 100}, 16: {MaxOutputTokens: 2},
	} {
		assert.Equalf(t, want, capOf(&r), "%+v", r)
	}
}

// conversation is the beginning of a rewriting's input; its lines are a user's and an assistant's in turn.
func conversation(said ...string) string {
	in := "CONVERSATION (oldest first):\n"
	for i, line := range said {
		in += []string{"User: ", "Assistant: "}[i%2] + line + "\n"
	}
	return in + "\n" + titleQuestion + ":\n"
}

func TestQuestionsStandAlone(t *testing.T) {
	t.Parallel()
	const bow = "My bow needs new hair."
	for _, c := range []struct{ in, want string }{
		{conversation(bow) + "How long does it take?", "How long does My bow take?"},
		{conversation("I bought the rosin in Lisbon.") + "What is the weather there?", "What is the weather in Lisbon?"},
		{conversation(bow) + "How old is my cello?", "How old is my cello?"},
		{conversation("") + "How long does it take?", "How long does it take?"},
		{conversation("今日は。") + "それはいくらですか？", "それはいくらですか？"},
		// The user's own words are meant before the assistant's.
		{conversation("I have a case.", "Put the bow into it.") + "Is it heavy?", "Is a case heavy?"},
		{conversation("Hm.", "Take the case.") + "Is it heavy?", "Is the case heavy?"},
		// A rewriting is one line, of the last question.
		{conversation("QUESTION: my bow?") + "Is it\n heavy? [[offline-rewrite:slow=1ms]]", "Is my bow heavy?"},
		{"", ""}, {"QUESTION", ""}, {"Is it heavy?", "Is it heavy?"},
	} {
		assert.Equalf(t, c.want, rewrite(&Request{Kind: KindRewrite, Text: c.in}), "%q", c.in)
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add("User: My bow.\nQUESTION: Is it heavy?")
	f.Add("Assistant: À Paris.\n# QUESTION\nComment est-ce là-bas ?")
	f.Fuzz(func(t *testing.T, text string) {
		r := &Request{Kind: KindRewrite, Text: text}
		got := rewrite(r)
		require.Truef(t, !strings.Contains(got, "\n") && got == rewrite(r), "%q became %q", text, got)
	})
}
