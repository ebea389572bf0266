package brief

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/judged.txt
var judgedText string

// judged are the answers of a language by the key of their refusal; "good" ones have to pass.
type judged map[string][]string

// languages reads testdata/judged.txt: "# language" begins a language, "key: answer" is an answer of it.
func languages(t *testing.T) map[string]judged {
	t.Helper()
	all := map[string]judged{}
	var answers judged
	for line := range strings.SplitSeq(strings.TrimSpace(judgedText), "\n") {
		if language, ok := strings.CutPrefix(line, "# "); ok {
			answers = judged{}
			all[language] = answers
		} else if key, answer, ok := strings.Cut(line, ": "); ok && answers != nil {
			answers[key] = append(answers[key], answer)
		}
	}
	require.Truef(t, len(all) >= 20, "only %d languages", len(all))
	return all
}

func TestJudgeInEveryLanguage(t *testing.T) {
	t.Parallel()
	for language, answers := range languages(t) {
		for _, key := range []string{"good", "refusal", "none", "task_talk", "repetition"} {
			assert.Truef(t, len(answers[key]) != 0, "%s: nothing is judged %q", language, key)
			for _, answer := range answers[key] {
				refusal, passed := Judge("", answer)
				assert.Truef(t, passed == (key == "good") && (passed || refusal.Key == key),
					"%s: %q is judged %q, want %q", language, answer, refusal.Key, key)
			}
		}
	}
}

// A summary is not refused for what it reports, wherever in it that is said.
func TestJudgeReadsNoFurtherThanTheFirstSentence(t *testing.T) {
	t.Parallel()
	for language, answers := range languages(t) {
		for _, said := range append(answers["refusal"], answers["task_talk"]...) {
			refusal, passed := Judge("", answers["good"][0]+"\n"+said)
			assert.Truef(t, passed, "%s: with %q further on it is judged %q", language, said, refusal.Key)
		}
	}
}
