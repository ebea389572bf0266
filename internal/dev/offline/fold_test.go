package offline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
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
		Instructions: fmt.Sprintf("Update the summary. It has at most %d tokens.", limit),
	})
}

func TestFoldIsNeverEmpty(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", "👍", fenceTurnsEnd, strings.Repeat("a", 100_000), strings.Repeat("哈", 5000)} {
		if got := foldOnce(16, "", [2]string{said, said}); got == "" || memorytext.Tokens(got) > 16 {
			t.Errorf("%.50q: %d tokens: %q", said, memorytext.Tokens(got), got)
		}
	}
	assert.True(t, summarize(&Request{Kind: KindSummary}) != "", "nothing becomes an empty summary")
}

func TestCondensingKeepsSentences(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var long []string
	for range 100 {
		long = append(long, "It was "+chatter(random, 12)+".")
	}
	got := summarize(&Request{Kind: KindSummary, Text: strings.Join(long, " "), Instructions: "It has at most 120 tokens."})
	n := memorytext.Tokens(got)
	assert.Truef(t, n <= 120 && n >= 80, "%d tokens", n)
	for line := range strings.SplitSeq(got, "\n") {
		assert.Truef(t, slices.Contains(long, line), "%q is no sentence of the text", line)
	}
}

// chatter is text that carries little: words in lower case without numbers.
func chatter(random *rand.Rand, count int) string {
	list := strings.Fields("river stone window paper garden quiet light table morning cloud bread corner silver ocean simple forest letter " +
		"market winter yellow music kitchen bridge summer shoulder mirror narrow button engine carpet")
	var said []string
	for range count {
		said = append(said, list[random.IntN(len(list))])
	}
	return strings.Join(said, " ")
}

func TestFactsSurviveTwoHundredFolds(t *testing.T) {
	t.Parallel()
	const limit = 500
	facts := []string{
		"My sister Ana was born on 4 May 1991 in Porto.", "I am allergic to peanuts and must avoid them.",
		"We decided to launch Kestrel on 12 March because Berlin is booked.",
	}
	random := rand.New(rand.NewPCG(1, 2))
	summary := foldOnce(limit, "", [2]string{strings.Join(facts, " "), "I will go by that from here on."})
	for n := range 200 {
		var turns [][2]string
		for range 1 + random.IntN(4) {
			turns = append(turns, [2]string{chatter(random, 5+random.IntN(60)) + ".", chatter(random, 20+random.IntN(150))})
		}
		had := memorytext.Tokens(summary)
		again := foldOnce(limit, summary, turns...)
		require.Truef(t, n%20 != 0 || again == foldOnce(limit, summary, turns...), "fold %d is not deterministic", n)
		summary = again
		has := memorytext.Tokens(summary)
		require.Truef(t, !repeats(summary) && has <= limit && has != 0 && (had <= 200 || has*10 >= had*4),
			"fold %d: %d tokens after %d: %s", n, has, had, summary)
	}
	for _, fact := range facts {
		assert.Containsf(t, summary, fact, "lost: %s", fact)
	}
	got := reply(prompt(summary, "", "", "When was my sister born?"))
	assert.Containsf(t, got, "4 May 1991", "recalled: %s", got)
}
