package brief

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

func TestJudgeKeys(t *testing.T) {
	t.Parallel()
	for key, answers := range map[string][]string{
		"empty": {"", " ", "\n\t\u3000"},
		"none": {
			"NONE", "none.", "\"None\"", "- N/A", "```\nnull\n```", "...", "—", "Summary: NONE", "Updated summary:\n\nNone.",
			"No meaningful information.", "There is nothing to summarize.", "There are no new turns.", "なし", "Es gibt nichts zusammenzufassen.",
		},
		"refusal": {
			"I'm sorry, but I can't assist with that request.", "I cannot summarize this conversation.", "I am unable to help with this.",
			"Sorry, I can't do that.", "As an AI language model, I have no memory.", "Lo siento, no puedo ayudar.", "Je suis désolé.",
			"Ich kann dabei nicht helfen.", "मुझे खेद है, मैं मदद नहीं कर सकता।",
			"对不起，我无法完成。", "**I’m sorry**, no.",
		},
		"task_talk": {
			"Here is the updated summary: The user plays.", "Sure, here's a summary.", "Certainly! Here is the summary:\nx", "Understood. The user plays.",
			"I have updated the summary.", "The existing summary is NONE and the new turns are about a cello.", "Please provide the turns.",
			"Hier ist die aktualisierte Zusammenfassung: Sie übt.", "以下は要約です。", "=== EXISTING_SUMMARY ===\nThe user plays.",
			"The user plays.\n=== END_NEW_TURNS ===", "EXISTING_SUMMARY: the user plays",
		},
		"repetition": {
			strings.Repeat("the user plays the cello in the big orchestra. ", 4), strings.Repeat("na ", 40), strings.Repeat("z", 500),
			strings.Repeat("音階を練習する。", 12),
			strings.Repeat("वह रोज़ दस मिनट चेलो का अभ्यास करता है। ", 4),
		},
		"": {
			"The user plays the cello.", "Anna spielt Cello und übt für das Konzert am 12. Juni.", "利用者はチェロを弾いている。",
			"None of the exercises helped the user's thumb.", "As an AI researcher, the user needs a short plan.", "I can't eat gluten.",
			"The user was told: \"I'm sorry, but I can't help with that.\"", "Als KI-Forscherin arbeitet sie in Köln.",
			"Nothing but Bach interests the user; the assistant suggested the suites, the user took the first and wants it by June. More of that.",
			"Goals:\n- recital on June 12\n- prelude by heart", "The user pasted a log with the line >>> === END ===.",
		},
	} {
		for _, answer := range answers {
			refusal, ok := Judge("", answer)
			assert.Truef(t, refusal.Key == key && ok == (key == ""), "%q is judged %q, want %q", answer, refusal.Key, key)
		}
	}
}

func TestJudgeShrinkingHasABorder(t *testing.T) {
	t.Parallel()
	words := numbered(0, 120) // two or three tokens each, none repeated
	previous, size := strings.Join(words, " "), text.Tokens(strings.Join(words, " "))
	for n := 1; n <= len(words); n++ {
		next := strings.Join(words[:n], " ")
		refusal, _ := Judge(previous, next)
		require.Equalf(t, (refusal.Key == "shrunk"), text.Tokens(next)*100 < size*40, "from %d to %d tokens: %q", size, text.Tokens(next), refusal.Key)
	}
	small := strings.Join(words[:60], " ")
	require.LessOrEqual(t, text.Tokens(small), 200, "tokens of the small summary")
	refusal, ok := Judge(small, words[0])
	assert.Truef(t, ok, "a summary of at most 200 tokens may shrink: %+v", refusal)
}

func numbered(from, to int) []string {
	var words []string
	for n := from; n < to; n++ {
		words = append(words, "item"+strings.Repeat("i", n%3)+string(rune('A'+n%26))+string(rune('a'+n/26)))
	}
	return words
}

func TestRepetitionNeedsMoreThanThree(t *testing.T) {
	t.Parallel()
	gram := "one two three four five six seven eight"
	for times, want := range []bool{false, false, false, false, true, true} {
		var parts []string
		for i := range times {
			parts = append(parts, gram, numbered(i, i+1)[0])
		}
		assert.Equalf(t, want, repeatsItself(strings.Join(parts, " ")), "%d times", times)
	}
	assert.False(t, repeatsItself(strings.Repeat("one two three four five six seven ", 1)+strings.Repeat("x", 64)),
		"seven words and a long one are no loop")
}

// Four sentences that begin alike are no loop: with "I'm" as two words they would share eight.
func TestApostropheDoesNotPartAWord(t *testing.T) {
	t.Parallel()
	for _, apostrophe := range []string{"'", "’"} {
		var text strings.Builder
		for _, subject := range []string{"cameras", "courses", "rangefinders", "techniques"} {
			text.WriteString("I" + apostrophe + "m interested in learning more about the " + subject + ". ")
		}
		refusal, passed := Judge("", text.String())
		assert.Truef(t, passed, "refused as %s", refusal.Key)
	}
}

//go:embed testdata/judged.txt
var judgedText string

// judged are the answers of a language by the key of their refusal; "good" ones have to pass.
type judged map[string][]string

// languages reads testdata/judged.txt: "# language" begins a language, "key: answer" is an answer of it.
func languages(t *testing.T) map[string]judged {
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
				assert.Truef(t, passed == (key == "good") && (passed || refusal.Key == key), "%s: %q is judged %q, want %q", language, answer, refusal.Key, key)
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
