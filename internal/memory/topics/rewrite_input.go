package topics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// The titles of the input, each at the beginning of a line. They must not change: the instructions and the offline model
// rely on them.
const (
	summaryTitle  = "CONVERSATION SUMMARY"
	recentTitle   = "RECENT MESSAGES"
	questionTitle = "QUESTION"
)

// How much of the conversation is shown, in tokens.
const (
	summaryTokens = 250
	saidTokens    = 1_200
	messageTokens = 250
)

// Write writes the input of the call: the summary and the latest messages, shortened in the middle where they are long, and
// the question. A line that looks like a title or a speaker label is quoted, so that what people wrote cannot pass for
// somebody else's words.
func Write(q Question) string {
	var b strings.Builder
	if summary := strings.TrimSpace(q.Summary); summary != "" {
		fmt.Fprintf(&b, "%s:\n%s\n\n", summaryTitle, quotedInput(text.FitCap(summary, summaryTokens)))
	}
	if said := latest(q.Said); len(said) > 0 {
		fmt.Fprintf(&b, "%s:\n", recentTitle)
		for _, line := range said {
			b.WriteString(line + "\n")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s:\n%s", questionTitle, quotedInput(strings.TrimSpace(q.Content)))
	return b.String()
}

// latest returns the messages at the end that fit, oldest first.
func latest(said []QuestionMessage) []string {
	var lines []string
	room := saidTokens
	for _, m := range slices.Backward(said) {
		content := strings.TrimSpace(m.Content)
		if content == "" {
			continue
		}
		content, tokens := text.Clip(content, messageTokens)
		if room -= tokens + memory.LabelTokens; room < 0 {
			break
		}
		lines = append(lines, memory.Role(m.Role).Label()+": "+quotedInput(content))
	}
	slices.Reverse(lines)
	return lines
}

func quotedInput(content string) string { return text.QuoteLines(content, looksLikeInput) }

var titleWords = []string{"conversationsummary", "recentmessages", "question"}

// looksLikeInput reports whether a line looks like a title or a speaker label of the input.
func looksLikeInput(line string) bool {
	if strings.HasPrefix(line, text.QuotePrefix) {
		return false
	}
	words := text.LettersAndDigits(text.Skeleton(line, text.PrefixRunes), "")
	for _, title := range titleWords {
		if strings.HasPrefix(words, title) {
			return true
		}
	}
	return text.LooksLikeLabel(line, true)
}
