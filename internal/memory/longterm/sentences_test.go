package longterm

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
)

// sentence is one of testdata/sentences: what a user writes, the words that a model quotes, and the fact that it makes of them.
type sentence struct{ language, kind, said, quote, fact string }

// ownKind is what users say of themselves. Facts of the other kinds must not become active memories; those of openKind do as yet.
const ownKind, openKind = "own", "open"

func sentences(t testing.TB) []sentence {
	files, err := filepath.Glob("testdata/sentences/*.txt")
	require.Truef(t, err == nil && len(files) != 0, "%v %v", "there are no sentences:", err)
	var all []sentence
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for block := range strings.SplitSeq(strings.TrimSpace(string(content)), "\n\n") {
			lines := strings.Split(block, "\n")
			kind, said, _ := strings.Cut(lines[0], ": ")
			require.Truef(t, len(lines) == 3 && said != "" && strings.HasPrefix(lines[1], "  ") && strings.HasPrefix(lines[2], "  = "),
				"%s: %q is not a sentence, its quote and its fact", file, block)
			language := strings.TrimSuffix(filepath.Base(file), ".txt")
			all = append(all, sentence{language, kind, strings.ReplaceAll(said, `\n`, "\n"), lines[1][2:], lines[2][4:]})
		}
	}
	return all
}

// judged is what the gate makes of a sentence: "active", "inbox" or "dropped", and why.
func (s sentence) judged() (outcome string, reason Reason) {
	confidence := .9
	at := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	in := Input{New: []memory.Message{{ID: uuid.New(), Seq: 1, Role: memory.RoleUser, Content: s.said, CreatedAt: at}}}
	v := Gate(in, []Finding{{Fact: s.fact, Quote: s.quote, Type: "fact", Confidence: &confidence, Horizon: "lasting", Evidence: []string{"U1"}}})
	switch {
	case len(v.Candidates) == 0:
		return "dropped", slices.Collect(maps.Keys(v.Dropped))[0]
	case v.Candidates[0].Inbox:
		return "inbox", v.Candidates[0].Doubt
	}
	return "active", ""
}

// Right proposals about what users say of themselves are kept, in every language, and wrong ones never become active. What each
// rule stops of the wrong and costs of the right is in the log.
func TestGateOnSentences(t *testing.T) {
	t.Parallel()
	own, wrong, open, inbox := map[string]int{}, 0, 0, 0
	stops, costs := map[Reason]int{}, map[Reason]int{}
	for _, s := range sentences(t) {
		outcome, reason := s.judged()
		if s.kind != ownKind {
			wrong++
			stops[reason]++
			if isOpen := s.kind == openKind; isOpen != (outcome == "active") {
				t.Errorf("%s: %q makes %q %s, and is said to be of kind %q", s.language, s.said, s.fact, outcome, s.kind)
			} else if isOpen {
				open++
			}
			continue
		}
		own[s.language]++
		switch outcome {
		case "dropped":
			costs[reason]++
			t.Errorf("%s: %q is dropped as %s", s.language, s.said, reason)
		case "inbox":
			costs[reason]++
			inbox++
			t.Logf("%s: %q is doubted as %s", s.language, s.said, reason)
		}
	}
	for reason, count := range stops {
		t.Logf("%-14s stops %2d, costs %d", reason, count, costs[reason])
	}
	sum := 0
	for language, count := range own {
		if sum += count; count < 5 {
			t.Errorf("only %d sentences in %s", count, language)
		}
	}
	const mostDoubted, mostOpen = 5, 1 // in a hundred
	assert.Truef(t, sum >= 560 && len(own) >= 26 && wrong >= 630 && inbox*100 <= sum*mostDoubted && open*100 <= wrong*mostOpen,
		"%d sentences about oneself in %d languages, of which %d are doubted; %d wrong facts", sum, len(own), inbox, wrong)
	t.Logf("%d sentences about oneself in %d languages, %d in the inbox; %d wrong facts, %d active", sum, len(own), inbox, wrong, open)
}
