package brief

import (
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/text"
	"golang.org/x/text/unicode/norm"
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
	first := sentenceOf(next)
	switch {
	case strings.TrimSpace(next) == "":
		return refusedEmpty, false
	case saysNothing(next):
		return refusedNone, false
	case phrases.refusal.MatchString(first):
		return refusedRefusal, false
	case phrases.talk.MatchString(first) || hasFence(next):
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

// sentenceOf returns the first sentence of a text as the phrases of the gate are written: in lower case, its words one
// space apart, without punctuation, markup and quotes. A line's end, but no colon, ends a sentence.
func sentenceOf(text string) string {
	const mostBytes = 600 // no phrase is longer
	s := sentence{most: mostBytes}
	for _, r := range norm.NFC.String(text[:min(len(text), 4*mostBytes)]) {
		if !s.add(r) {
			break
		}
	}
	return s.String()
}

// wordsOf returns all words of a text in this form, as if it were one sentence.
func wordsOf(text string) string {
	s := sentence{most: len(text), whole: true}
	for _, r := range norm.NFC.String(text) {
		s.add(r)
	}
	return s.String()
}

// sentence collects the words of a sentence.
type sentence struct {
	strings.Builder

	most  int
	whole bool // the text is one sentence
	gap   bool
}

// add adds a character. It returns false at the end of the sentence.
func (s *sentence) add(r rune) bool {
	switch {
	case unicode.IsLetter(r) || unicode.IsNumber(r) || isMark(r) || strings.ContainsRune(apostrophes, r) && s.Len() > 0 && !s.gap:
		if s.gap && s.Len() > 0 {
			s.WriteByte(' ')
		}
		if strings.ContainsRune(apostrophes, r) {
			r = '\''
		}
		s.WriteRune(unicode.ToLower(r))
		s.gap = false
	case strings.ContainsRune(sentenceEnds, r):
		s.gap = true
		return s.whole || s.Len() == 0
	case !strings.ContainsRune(markup, r) && !unicode.In(r, unicode.Mn, unicode.Cf, unicode.Lm):
		s.gap = true
	}
	return s.whole || s.Len() < s.most
}

// isMark reports whether r is a vowel sign or the like. Those that only help to pronounce a word, as Arabic has, and the
// dot that lower case makes of a Turkish İ, are left out.
func isMark(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Mc) && (r < 0x064B || r > 0x0652) && r != 0x0307
}

const (
	apostrophes  = "'’"
	sentenceEnds = ".!?…。！？｡।॥۔؟។៕\n\r\u0085\u2028\u2029"
	markup       = "*_`~ـ" // within words; the last one only stretches Arabic letters
)

// saysNothing reports whether a text only says that there is no summary.
func saysNothing(text string) bool {
	const most = 240 // bytes; an answer of more says something
	if len(text) > most {
		return !strings.ContainsFunc(text, isOfWord)
	}
	words := wordsOf(text)
	for _, label := range []string{"updated summary", "new summary", "summary"} {
		words = strings.TrimSpace(strings.TrimPrefix(words, label))
	}
	return words == "" || phrases.empty.MatchString(words)
}
