package offline

import (
	"hash/fnv"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hash seeds everything that varies between prompts.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails, by its documentation
	sum := h.Sum64()
	sum ^= sum >> 29 // FNV alone leaves the upper bits of short texts alike
	return sum * 0xbf58476d1ce4e5b9
}

// words returns the words of a text in lower case. Scripts without spaces give a word per character.
func words(text string) []string {
	var found []string
	for _, word := range rawWords(text) {
		found = append(found, strings.ToLower(word))
	}
	return found
}

// firstThai is the first character of the scripts without spaces: most text is below it.
const firstThai = '\u0E00'

// rawWords returns the words of a text as written.
func rawWords(text string) []string {
	var found []string
	start := -1
	end := func(at int) {
		if start >= 0 {
			found = append(found, strings.Trim(text[start:at], "'’"))
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case r >= firstThai && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end(i)
			found = append(found, string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			if start < 0 {
				start = i
			}
		case (r == '\'' || r == '’') && start >= 0:
		default:
			end(i)
		}
	}
	end(len(text))
	return found
}

// stem cuts the commonest English endings, so that "lives" and "living" become "live". Words of other
// languages mostly stay as they are.
func stem(word string) string {
	word = strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "’s")
	if len(word) <= 3 || !isASCII(word) {
		return word
	}
	if base, ok := strings.CutSuffix(word, "ies"); ok && len(base) >= 2 {
		return base + "y"
	}
	if !strings.HasSuffix(word, "ss") {
		word = strings.TrimSuffix(word, "s")
	}
	for _, ending := range []string{"ing", "ed", "ly"} {
		if base, ok := strings.CutSuffix(word, ending); ok && len(base) >= 3 {
			return strings.TrimSuffix(undouble(base), "e")
		}
	}
	return strings.TrimSuffix(word, "e")
}

// undouble turns "runn" into "run"; "call" and "miss" keep their ends.
func undouble(word string) string {
	n := len(word)
	if word[n-1] == word[n-2] && !strings.ContainsRune("lsz", rune(word[n-1])) {
		return word[:n-1]
	}
	return word
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// contentStems returns the stems of a text's content words, each once, in order.
func contentStems(text string) []string {
	var stems []string
	seen := map[string]bool{}
	for _, word := range words(text) {
		s := stem(word)
		if !stopWords[word] && !seen[s] {
			seen[s] = true
			stems = append(stems, s)
		}
	}
	return stems
}

// stopWords say nothing about what a sentence is about, among them the words of asking itself.
var stopWords = wordSet(`a about above after again all also am an and any are aren't as at be because been before being
	below between both but by can can't could couldn't did didn't do does doesn't doing don't down during each few for
	from further had has have having he he's her here hers him his how i i'd i'll i'm i've if in into is isn't it it's
	its just let's me more most my no nor not now of off on once one only or other our out over own please same she
	should so some such than that that's the their them then there these they this those through to too under until
	up us very was wasn't we we're were what what's when where which while who who's whom whose why will with won't
	would you you're your yours again ever exactly earlier before know known like mention mentioned recall remember
	remind said say tell told talk talked asked ask think yes ok okay thanks thank`)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

var listMarker = regexp.MustCompile(`^\s*(?:>\s+|[-*•]\s+|#{1,6}\s+|\d{1,3}[.)]\s+)+`)

// sentences splits a text at line ends and after sentence ends. List markers and quotation marks of
// lines are dropped, and so is what has no letter or digit.
func sentences(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(listMarker.ReplaceAllString(strings.TrimSpace(line), ""))
		for len(line) > 0 {
			end := sentenceEnd(line)
			if sentence := strings.TrimSpace(line[:end]); hasWord(sentence) {
				found = append(found, sentence)
			}
			line = line[end:]
		}
	}
	return found
}

// sentenceEnd returns where the first sentence of a line ends, after its closing quotation marks.
func sentenceEnd(line string) int {
	for i, r := range line {
		next := i + utf8.RuneLen(r)
		switch r {
		case '。', '！', '？', '।':
			return next
		case '.', '!', '?', '…', '؟':
			end := next + closingMarks(line[next:])
			if end == len(line) || line[end] == ' ' && !abbreviated(line[:i]) {
				return end
			}
		}
	}
	return len(line)
}

// closingMarks counts the bytes of what still belongs to a sentence that just ended.
func closingMarks(rest string) int {
	return len(rest) - len(strings.TrimLeft(rest, `"')]”’».!?…`))
}

var abbreviations = wordSet("dr mr mrs ms prof st e.g i.e vs no approx")

// abbreviated reports whether a dot after this text ends an abbreviation, such as "Dr", or an initial.
func abbreviated(before string) bool {
	last := before[strings.LastIndexAny(before, " (")+1:]
	if r, size := utf8.DecodeRuneInString(last); size == len(last) && unicode.IsUpper(r) && r != 'I' {
		return true
	}
	return abbreviations[strings.ToLower(last)]
}

func hasWord(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// clip cuts a text at a word within limit characters.
func clip(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	cut := string([]rune(text)[:limit])
	if at := strings.LastIndexByte(cut, ' '); at > len(cut)/2 {
		cut = cut[:at]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}
