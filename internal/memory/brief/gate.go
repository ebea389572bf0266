package brief

import (
	"hash/maphash"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/lang"
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
	case phrases().refusal.MatchString(first):
		return refusedRefusal, false
	case phrases().talk.MatchString(first) || hasFence(next):
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

// isMark reports whether r is a vowel sign or the like. Signs that only help to pronounce a word, as Arabic has, and the
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
	return words == "" || phrases().empty.MatchString(words)
}

// phrasing are the phrases of the gate in one language, as regular expressions for a whole sentence as sentenceOf writes it: lower
// case, words one space apart, no punctuation. They are the sections of lang's data that begin with "refusal". Only what a summary
// of a conversation never says of itself belongs there: that somebody cannot eat gluten, or plays a song called "I'm Sorry", is worth remembering.
type phrasing struct {
	// sorry are apologies. A sentence of nothing else is a refusal.
	sorry string
	// aside are words that may stand before, between or after apologies.
	aside string
	// unable are the words with which somebody says "I cannot". After an apology they are a refusal.
	unable string
	// declines are sentences that decline the task, with or without an apology. In some languages the verb of the task
	// follows "I cannot" and is a section of its own; in the others the whole sentence is described.
	declines string
	// empty are whole answers that say that there is no summary.
	empty string
	// talk are beginnings of sentences about the task or the summary itself.
	talk string
	// joined languages do not put a space after each of these words.
	joined bool
}

// phrasings reads the phrases of all languages that have them.
func phrasings() []phrasing {
	var all []phrasing
	for _, sorry := range lang.Each("refusal sorry") {
		read := func(name string) string { return lang.Plain(lang.Get(sorry.Language, "refusal "+name)) }
		task := "(?:" + read("task") + ")"
		all = append(all, phrasing{
			sorry: read("sorry"), aside: read("aside"), unable: read("unable"), declines: strings.ReplaceAll(read("declines"), "{task}", task),
			empty: read("empty"), talk: read("talk"), joined: !lang.HasSpaces(sorry.Language),
		})
	}
	return all
}

// phraseMatcher are the phrases of all languages as expressions for one sentence.
type phraseMatcher struct{ refusal, empty, talk *regexp.Regexp }

var phrases = sync.OnceValue(func() phraseMatcher {
	var refusals, empties, talks []string
	for _, p := range phrasings() {
		gap, end := ` `, `(?: |$)`
		if p.joined {
			gap, end = ` ?`, ``
		}
		apology := `(?:` + p.sorry + `)`
		lead := `(?:(?:` + p.sorry + `|` + p.aside + `)` + gap + `)`
		refusals = append(refusals,
			`(?:(?:`+p.aside+`)`+gap+`)*`+apology+`(?:`+gap+`(?:`+p.sorry+`|`+p.aside+`))*$`,
			lead+`*(?:`+p.declines+`)`+end,
			apology+gap+lead+`*(?:`+p.unable+`)`+end)
		empties = append(empties, p.empty)
		talks = append(talks, `(?:`+p.talk+`)`)
	}
	return phraseMatcher{
		refusal: regexp.MustCompile(`^(?:` + strings.Join(refusals, `|`) + `)`),
		empty:   regexp.MustCompile(`^(?:` + strings.Join(empties, `|`) + `)$`),
		talk:    regexp.MustCompile(`^(?:` + strings.Join(talks, `|`) + `)`),
	}
})

// A sequence of gramWords words that occurs more than maxRepeats times is a loop.
const (
	gramWords   = 8
	maxRepeats  = 3
	gramWeight  = gramWords * wordWeight
	longWordLen = 64 // runes; anything longer is not a word and is divided into characters
)

// The weights of units of text. Scripts without spaces are parted into characters, and how many of those are a word differs:
// about two Chinese ones, two or three of hiragana, four Thai, Lao, Khmer or Burmese ones.
const (
	wordWeight     = 20
	hanWeight      = wordWeight / 2
	hiraganaWeight = wordWeight * 2 / 5
	letterWeight   = wordWeight / 4
)

// repeatsItself reports whether the same eight words occur more than 3 times in text. Case and punctuation do not count.
// Time is linear in the length of text.
func repeatsItself(text string) bool {
	units := unitsOf(text)
	seen := make(map[uint64]int, len(units))
	var h maphash.Hash
	for start := range units {
		key, ok := gram(&h, units[start:])
		if !ok {
			return false
		}
		if seen[key]++; seen[key] > maxRepeats {
			return true
		}
	}
	return false
}

// gram returns the hash of the first units that together weigh as much as 8 words; false when there are too few.
func gram(h *maphash.Hash, units []string) (uint64, bool) {
	h.Reset()
	weight := 0
	for _, unit := range units[:min(len(units), gramWeight/letterWeight)] {
		_, _ = h.WriteString(unit) // a hash never fails
		_ = h.WriteByte(0)
		if weight += weigh(unit); weight >= gramWeight {
			return h.Sum64(), true
		}
	}
	return 0, false
}

func weigh(unit string) int {
	first, _ := utf8.DecodeRuneInString(unit)
	switch {
	case unicode.Is(unicode.Han, first):
		return hanWeight
	case unicode.Is(unicode.Hiragana, first):
		return hiraganaWeight
	case unicode.Is(unicode.Katakana, first): // a run of it is one word
		return wordWeight
	case text.Unspaced(first):
		return letterWeight
	}
	return wordWeight
}

// unitsOf divides text into words, and scripts without spaces into characters.
func unitsOf(text string) []string {
	var units []string
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !isOfWord(r) }) {
		word = strings.Trim(word, quotes)
		begin := 0 // of the rest of the word
		for at, r := range word {
			if weigh(word[at:]) < wordWeight {
				units = append(units, word[begin:at], string(r))
				begin = at + utf8.RuneLen(r)
			}
		}
		units = append(units, divided(word[begin:])...)
	}
	return slices.DeleteFunc(units, func(unit string) bool { return unit == "" })
}

// divided returns a word, or the characters of a run that is too long for one.
func divided(word string) []string {
	if utf8.RuneCountInString(word) > longWordLen {
		return strings.Split(word, "")
	}
	return []string{word}
}

// quotes part no word that they are within, as apostrophes.
const quotes = "'’"

func isOfWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || strings.ContainsRune(quotes, r)
}
