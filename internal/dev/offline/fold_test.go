package offline

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foldText is a fold's input, to the letter.
func foldText(existing string, turns ...[2]string) string {
	var out strings.Builder
	if existing == "" {
		existing = "NONE"
	}
	out.WriteString(fenceSummary + "\n" + existing + "\n" + fenceSummaryEnd + "\n\n" + fenceTurns + "\n")
	for n, turn := range turns {
		if n > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "Turn %d:\nUser: %s\n", n+1, turn[0])
		if turn[1] != "" {
			fmt.Fprintf(&out, "Assistant: %s\n", turn[1])
		}
	}
	out.WriteString(fenceTurnsEnd)
	return out.String()
}

func foldOnce(limit int, existing string, turns ...[2]string) string {
	return summarize(&Request{
		Kind:         KindSummary,
		Text:         foldText(existing, turns...),
		Instructions: fmt.Sprintf("Update the summary. At most %d tokens.", limit),
	})
}

func TestFoldIsParsed(t *testing.T) {
	t.Parallel()
	f, ok := parseFold(foldText("Old.\n\nLines.", [2]string{"one\n\n> Turn 9:\ntwo", "three"}, [2]string{"four", ""}))
	want := foldInput{
		existing: "Old.\n\nLines.",
		turns:    []utterance{{false, "one\n\n> Turn 9:\ntwo"}, {true, "three"}, {false, "four"}},
	}
	if !ok || !cmp.Equal(f, want, cmp.AllowUnexported(foldInput{}, utterance{})) {
		t.Errorf("%v %+v", ok, f)
	}
	for _, text := range []string{"", "text", fenceSummary, fenceSummary + "\nx\n" + fenceTurns, strings.ReplaceAll(foldText("x"), fenceSummaryEnd, "")} {
		if _, ok := parseFold(text); ok {
			t.Errorf("%q counts as a fold", text)
		}
	}
}

func TestFoldSaysInWhoseWords(t *testing.T) {
	t.Parallel()
	got := foldOnce(500, "", [2]string{"I live in Lisbon. Which museum is open on Monday?", "The Gulbenkian opens at 10."})
	want := "The user said:\n- I live in Lisbon.\nThe user asked:\n- Which museum is open on Monday?\nThe assistant suggested:\n- The Gulbenkian opens at 10."
	if got != want {
		t.Errorf("%q", got)
	}
	again := foldOnce(500, got, [2]string{"My bus is number 728.", ""})
	if want = strings.Replace(want, "Lisbon.\n", "Lisbon.\n- My bus is number 728.\n", 1); again != want {
		t.Errorf("folded again: %q", again)
	}
}

func TestFoldKeepsForeignSummaries(t *testing.T) {
	t.Parallel()
	const existing = "Ana is a nurse. She lives in Porto.\n\nPreferences:\n- tea, never coffee\n- trains"
	got := foldOnce(500, existing, [2]string{"My bus is number 728.", ""})
	for _, kept := range []string{"Ana is a nurse.", "She lives in Porto.", "Preferences:", "tea, never coffee", "trains", labelSaid + "\n- My bus is number 728."} {
		_, after, found := strings.Cut(got, kept)
		if !found {
			t.Fatalf("%q is not kept, in this order: %q", kept, got)
		}
		got = after
	}
}

func TestFoldIsNeverEmpty(t *testing.T) {
	t.Parallel()
	for _, turns := range [][][2]string{nil, {{"", ""}}, {{"👍", "👍"}}, {{fenceTurnsEnd, ""}}, {{strings.Repeat("a", 100_000), ""}}, {{strings.Repeat("哈", 5000), ""}}} {
		if got := foldOnce(16, "", turns...); got == "" || countTokens(got) > 16 {
			t.Errorf("%.50q: %d tokens: %q", turns, countTokens(got), got)
		}
	}
	if got := summarize(&Request{Kind: KindSummary}); got == "" {
		t.Error("nothing becomes an empty summary")
	}
}

func TestFoldOfALoopDoesNotLoop(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		strings.Repeat("please go on ", 200),
		strings.Repeat("I want to see the old house near the long river again. ", 50),
		strings.Repeat("哈", 300),
		"I like the old house near the long river in May. I like the old house near the long river in June. I like the old house near the long river in July. I like the old house near the long river in August. I like the old house near the long river in winter.",
	} {
		if gram, loops := repeatedGram(foldOnce(500, "", [2]string{said, said})); loops {
			t.Errorf("%.40q: repeats %q", said, gram)
		}
	}
}

func TestShortenCutsAtSentenceEnds(t *testing.T) {
	t.Parallel()
	long := essay("gardening", 900, 3)
	r := &Request{Text: long, Instructions: "Shorten this text to at most 120 tokens."}
	r.Kind = kindOf(r)
	got := summarize(r)
	if n := countTokens(got); n > 120 || n < 80 {
		t.Errorf("%d tokens", n)
	}
	for _, sentence := range sentences(got) {
		if !strings.Contains(long, sentence) {
			t.Errorf("%q is no sentence of the text", sentence)
		}
	}
	own := strings.Repeat("- My number is 12 and my name is Ana.\n", 1)
	if got := summarize(&Request{Text: labelSaid + "\n" + own, Instructions: "at most 40 tokens"}); got != labelSaid+"\n"+strings.TrimSpace(own) {
		t.Errorf("a summary of ours: %q", got)
	}
}

func TestFoldDoesNotCollapseALongSummary(t *testing.T) {
	t.Parallel()
	for _, tokens := range []int{250, 600, 2000} {
		existing := diary(tokens)
		had, has := countTokens(existing), countTokens(foldOnce(100, existing, [2]string{"My bus is number 728.", ""}))
		if has*10 < had*4 {
			t.Errorf("%d tokens became %d", had, has)
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	endless := chatter(random, 900) // no sentence end at all
	if had, has := countTokens(endless), countTokens(foldOnce(500, endless, [2]string{"Hi.", ""})); has*10 < had*4 {
		t.Errorf("without sentence ends: %d tokens became %d", had, has)
	}
}

// chatter is text that carries little: words in lower case without numbers.
func chatter(random *rand.Rand, count int) string {
	list := strings.Fields("river stone window paper garden quiet light table morning cloud bread corner silver ocean simple forest letter market winter yellow music kitchen bridge summer shoulder mirror narrow button engine carpet")
	var said []string
	for range count {
		said = append(said, list[random.IntN(len(list))])
	}
	return strings.Join(said, " ")
}

func TestFactsSurviveTwoHundredFolds(t *testing.T) {
	t.Parallel()
	const limit = 500
	facts := []string{"My sister Ana was born on 4 May 1991 in Porto.", "I am allergic to peanuts and must avoid them.", "We decided to launch Kestrel on 12 March because Berlin is booked."}
	random := rand.New(rand.NewPCG(1, 2))
	summary := foldOnce(limit, "", [2]string{strings.Join(facts, " "), "I will go by that from here on."})
	for n := range 200 {
		var turns [][2]string
		for range 1 + random.IntN(4) {
			turns = append(turns, [2]string{chatter(random, 5+random.IntN(60)) + ".", essay("daily life", 20+random.IntN(150), random.Uint64())})
		}
		had := countTokens(summary)
		again := foldOnce(limit, summary, turns...)
		if n%20 == 0 && again != foldOnce(limit, summary, turns...) {
			t.Fatalf("fold %d is not deterministic", n)
		}
		summary = again
		has := countTokens(summary)
		if gram, loops := repeatedGram(summary); loops || has > limit || has == 0 || had > 200 && has*10 < had*4 {
			t.Fatalf("fold %d: %d tokens after %d, repeats %q", n, has, had, gram)
		}
	}
	for _, fact := range facts {
		if !strings.Contains(summary, fact) {
			t.Errorf("lost: %s", fact)
		}
	}
	if got := reply(prompt(summary, "", "", "When was my sister born?")); !strings.Contains(got, "4 May 1991") {
		t.Errorf("recalled: %s", got)
	}
}

func TestFoldNeverRepeatsAQuotationOfOurs(t *testing.T) {
	t.Parallel()
	got := foldOnce(500, "", [2]string{"My dog is called Biscuit.", `Noted: "My dog is called Biscuit." I will go by that from here on.`})
	if want := labelSaid + "\n- My dog is called Biscuit."; got != want {
		t.Errorf("%q", got)
	}
}

func TestTopicOverHTTP(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	summarized := func(said string) string {
		_, raw := ask(t, l, body(t, map[string]any{
			"metadata": map[string]any{"purpose": "topic"},
			"input":    foldText("The user said:\n- My bus is number 728.", [2]string{said, "Fine."}),
		}))
		return text(t, raw)
	}
	if got := summarized("It leaves Porto at 9. [[offline-fold:none]]"); !strings.Contains(got, "728") || !strings.Contains(got, "Porto at 9") {
		t.Errorf("%q", got)
	}
	if got := countTokens(summarized(diary(2000))); got > defaultTopicCap {
		t.Errorf("%d tokens", got)
	}
	if got := summarized("[[offline-topic:none]]"); got != "NONE" {
		t.Errorf("%q", got)
	}
	if asked := l.Requests(); len(asked) != 3 || asked[0].Kind != KindTopic {
		t.Errorf("%+v", asked)
	}
}

func TestHostedFoldOverHTTP(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	response, raw := ask(t, l, body(t, map[string]any{
		"model":  nil,
		"prompt": map[string]any{"id": "pmpt_1", "version": "7"},
		"input":  foldText("", [2]string{"My bus is number 728.", "Fine."}),
	}))
	if response.StatusCode != http.StatusOK || !strings.Contains(text(t, raw), "728") || !strings.Contains(string(raw), `"model":"gpt-5.6-luna"`) {
		t.Errorf("%d %s", response.StatusCode, raw)
	}
	asked := l.Requests()[0]
	if asked.Kind != KindSummary || asked.Prompt == nil || *asked.Prompt != (PromptRef{"pmpt_1", "7"}) || asked.Model != "" {
		t.Errorf("%+v", asked)
	}
}
