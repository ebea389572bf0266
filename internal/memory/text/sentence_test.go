package text

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

// The bar marks where a sentence ends.
func TestSentenceEnds(t *testing.T) {
	t.Parallel()
	for _, marked := range []string{
		"",
		"no stop at all",
		"One.| Two!| Three?|",
		"He said \"Stop.\"| Then he left.|",
		"It costs 3.5 euros.| So what?!| Really…| Yes.|",
		"See e.g. Bach, i.e. the suites.| Dr. Wu agrees.| J. S. Bach too.|",
		"The recital is on June 12.| The user dislikes scales.|",
		"Das Konzert ist am 12. Juni.| Die Probe ist am 3. und 4. Mai.|",
		"1. First item.| It goes on",
		"weiter. klein geschrieben",
		"利用者は弾く。|演奏会だ！|「嫌いだ。」|はい",
		"वह बजाता है।| ठीक है॥|",
		"متى؟| الآن.|",
		"- practise the long scales|\n- learn the prelude|\nShort\nA heading of some length:\n# Another heading here\nEnd.|",
	} {
		text := strings.ReplaceAll(marked, "|", "")
		got, from := "", 0
		for _, end := range sentenceEnds(text) {
			got += text[from:end] + "|"
			from = end
		}
		assert.Equal(t, "", cmp.Diff(marked, got+text[from:]), "(-want +got):\n")
	}
}

func TestCharacterEndSplitsNoCharacter(t *testing.T) {
	t.Parallel()
	text := "aé👩\u200d🎤👍🏽हि"
	var borders []string
	for at := range len(text) + 1 {
		if at > 0 && characterEnd(text, at-1, at) == at {
			borders = append(borders, text[:at])
		}
	}
	want := []string{"a", "aé", "aé👩\u200d🎤", "aé👩\u200d🎤👍🏽", text}
	assert.Equal(t, "", cmp.Diff(want, borders), "borders (-want +got):\n")
}

func TestSentencesAreTheWholeText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "One.", "One. Two!  Three", "Dr. Wu saw it on 3.5 km.\n\nThen\nit rained. ", "東京です。はい。"} {
		parts := Sentences(text)
		assert.Truef(t, strings.Join(parts, "") == text, "%q became %q", text, parts)
	}
	got := Sentences("One. Two!  Three")
	assert.Truef(t, slices.Equal(got, []string{"One. ", "Two!  ", "Three"}), "%q", got)
}
