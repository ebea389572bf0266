package recall

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func TestTurnTextNamesTheSpeakers(t *testing.T) {
	t.Parallel()
	got, tokens := TurnText([]memory.Message{
		{Role: memory.RoleUser, Content: " Where is the key?\n"}, {Role: memory.RoleTool, Content: "\t"},
		{Role: memory.RoleTool, Content: "2 hits"}, {Role: memory.RoleAssistant, Content: "Under the mat."},
	})
	want := "User: Where is the key?\nTool: 2 hits\nAssistant: Under the mat."
	assert.Truef(t, got == want && tokens == text.Tokens(want), "%d tokens: %q", tokens, got)
	if got, _ := TurnText([]memory.Message{{Role: memory.RoleUser, Content: " "}}); got != "" {
		t.Errorf("of blank messages: %q", got)
	}
}

func TestTextsOfACallAreBounded(t *testing.T) {
	t.Parallel()
	long, tokens := TurnText([]memory.Message{{Role: memory.RoleUser, Content: strings.Repeat("word ", 10_000)}})
	turns := slices.Repeat([]Bare{{Text: long, Tokens: tokens}}, vectorsPerCall)
	assert.Truef(t, tokens <= turnTokens && len(oneCall(turns)) == tokensPerCall/tokens, "%d texts of %d tokens", len(oneCall(turns)), tokens)
	huge := []Bare{{Tokens: tokensPerCall + 1}, {Tokens: 1}}
	assert.Truef(t, len(oneCall(huge)) == 1, "%d texts, the first of which is too long", len(oneCall(huge)))
}

// A question about somebody is answered by what they say, not by what is said to them.
func TestWhatIsSaidToSomebodyIsNotTheirs(t *testing.T) {
	t.Parallel()
	toAnna := []string{"Thanks, Anna! My violin is old.", "Hey Anna, is it a violin?", "A violin suits you, Anna"}
	about := []string{"My dog, Bruno.", "Bruno ate.", "I feed Bruno twice.", "The vet saw Bruno.", "Bruno's bed is new."}
	for name, c := range map[string]struct {
		question string
		to, by   []string // of the assistant and of the user
		want     []float64
	}{
		"those who speak to her, and others of their role": {
			"Which violin does Anna play?", append(slices.Clone(toAnna), "It is an old violin."), []string{"A violin of 1890."}, []float64{1, 1, 1, 1. / 3, 0},
		},
		"both roles speak to her": {
			"Which violin does Anna play?", append(slices.Clone(toAnna), "It is old."), append(slices.Clone(toAnna), "A violin."), []float64{1, 1, 1, 0, 1, 1, 1, 0},
		},
		"too few to tell":              {"Which violin does Anna play?", toAnna[:2], []string{"A violin."}, []float64{0, 0, 0}},
		"one who is spoken of, not to": {"Who is Bruno?", about, []string{"Dear, Bruno."}, []float64{0, 0, 0, 0, 0, 0}},
		"in a script without two cases": {
			"ماذا تعزف سلمى؟", []string{"شكرا، سلمى!", "أهلا سلمى، كيف الحال؟", "نعم، سلمى"},
			[]string{"أعزف الكمان"}, []float64{1, 1, 1, 0},
		},
		"a question without an answer": {"Which violin does Anna play?", nil, nil, nil},
	} {
		finder := (&ranked{ranking: newRanking(Words(c.question), matchesOfAll(c.question))}).finder()
		var turns []Turn
		var quotes [][]quote
		for n, contents := range [][]string{c.to, c.by} {
			messages := make([]Message, len(contents))
			for m, content := range contents {
				messages[m] = Message{Role: []string{"assistant", "user"}[n], Content: content}
			}
			turns, quotes = append(turns, Turn{Messages: messages}), append(quotes, finder.quotes(messages))
		}
		callers := callersOf(turns, quotes)
		var got []float64
		for n := range turns {
			for m, q := range quotes[n] {
				got = append(got, callers.another(turns[n].Messages[m].Role, q))
			}
		}
		assert.Truef(t, slices.Equal(got, c.want), "%s: %v, want %v", name, got, c.want)
	}
}

// matchesOfAll has a match of each word, so that it counts.
func matchesOfAll(question string) Matches {
	matches := Matches{Turns: 100}
	for n := range Words(question) {
		matches.Found = append(matches.Found, Match{Place: Place{Size: 10}, Word: n, Own: 1})
	}
	return matches
}
