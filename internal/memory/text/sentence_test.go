package text

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		if diff := cmp.Diff(marked, got+text[from:]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
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
	if diff := cmp.Diff(want, borders); diff != "" {
		t.Errorf("borders (-want +got):\n%s", diff)
	}
}

func TestSentencesAreTheWholeText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "One.", "One. Two!  Three", "Dr. Wu saw it on 3.5 km.\n\nThen\nit rained. ", "東京です。はい。"} {
		parts := Sentences(text)
		if got := strings.Join(parts, ""); got != text {
			t.Errorf("%q became %q", text, parts)
		}
	}
	if got := Sentences("One. Two!  Three"); !slices.Equal(got, []string{"One. ", "Two!  ", "Three"}) {
		t.Errorf("%q", got)
	}
}
