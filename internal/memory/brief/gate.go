package brief

import (
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Refusal is the reason why the gate refused a summary. The zero Refusal means that the summary passed.
type Refusal struct {
	// Key is stable, for logs and metrics: empty, none, refusal, task_talk, repetition, shrunk.
	Key string
	// Sentence is for the instructions of the second try. It holds no content.
	Sentence string
}

// The reasons for which the gate refuses a summary.
var (
	refusedEmpty    = Refusal{"empty", "Your previous answer was empty."}
	refusedNone     = Refusal{"none", "Your previous answer said that there is nothing to summarize, but there are turns."}
	refusedRefusal  = Refusal{"refusal", "Your previous answer declined the task; summarizing a conversation is always allowed."}
	refusedTaskTalk = Refusal{"task_talk", "Your previous answer talked about the task or repeated its input's markers instead of being only the summary."}
	refusedLoop     = Refusal{"repetition", "Your previous answer repeated the same words over and over."}
	refusedShrunk   = Refusal{"shrunk", "Your previous answer lost most of the existing summary; keep what it holds and add the new turns."}
)

// A summary over shrinkFloor tokens may lose at most 60 % of them in one fold.
const (
	shrinkFloor   = 200
	shrinkPercent = 40
)

// Judge is the gate: it returns true when next may replace previous. It refuses a text that is empty, is only NONE or a
// phrase to that effect, declines the task or talks about it, repeats itself (the same eight words more than three
// times), or lost more than 60 % of a summary of over 200 tokens.
//
// It does not check the length: see text.FitCap. When the cap may have been lowered since previous was written, pass
// text.FitCap(previous, cap), so that a summary is not refused for obeying.
func Judge(previous, next string) (Refusal, bool) {
	opening := openingOf(next)
	switch {
	case strings.TrimSpace(next) == "":
		return refusedEmpty, false
	case saysNothing(next):
		return refusedNone, false
	case begins(opening, refusals) || declines(opening):
		return refusedRefusal, false
	case begins(opening, taskTalk) || hasFence(next):
		return refusedTaskTalk, false
	case repeatsItself(next):
		return refusedLoop, false
	case shrank(previous, next):
		return refusedShrunk, false
	}
	return Refusal{}, true
}

func shrank(previous, next string) bool {
	before := text.Tokens(strings.TrimSpace(previous))
	return before > shrinkFloor && text.Tokens(strings.TrimSpace(next))*100 < before*shrinkPercent
}

func hasFence(content string) bool {
	for start := 0; start < len(content); {
		end, next := text.LineSpan(content, start)
		if looksLikeFence(content[start:end]) {
			return true
		}
		start = next
	}
	return false
}

// openingRunes is how much of a text is compared with the phrase tables.
const openingRunes = 120

// openingOf returns the beginning of text in lower case, without quotes and markup, its words one space apart.
func openingOf(text string) string {
	var b strings.Builder
	runes, gap := 0, false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			gap = runes > 0
			continue
		case strings.ContainsRune("\"`*_#>“”„‘«»「」『』()[]{}¡", r), r == '\'' && runes == 0:
			continue
		case r == '’':
			r = '\''
		}
		if gap {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
		gap = false
		if runes++; runes == openingRunes {
			break
		}
	}
	return b.String()
}

func begins(opening string, phrases []string) bool {
	for _, phrase := range phrases {
		if strings.HasPrefix(opening, phrase) {
			return true
		}
	}
	return false
}

// declines reports whether an opening declines in the first person: "I cannot help with that".
func declines(opening string) bool {
	for _, phrase := range firstPerson {
		if rest, ok := strings.CutPrefix(opening, phrase); ok && begins(rest, taskVerbs) {
			return true
		}
	}
	return false
}

// saysNothing reports whether a text only says that there is no summary. A longer text with such a beginning may be a
// real summary.
func saysNothing(text string) bool {
	opening := openingOf(text)
	for _, label := range []string{"updated summary:", "new summary:", "summary:"} {
		opening = strings.TrimSpace(strings.TrimPrefix(opening, label))
	}
	bare := strings.TrimFunc(opening, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if bare == "" || emptyAnswers[bare] {
		return true
	}
	return len(text) < 2*openingRunes && begins(bare, emptyOpenings)
}
