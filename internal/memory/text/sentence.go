package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// Where text may be cut: a simplification of the sentence and word boundaries of UAX #29 that errs on one side. What
// may not be the end of a sentence ("Dr. Wu", "3. Chords", "am 20. November") is none, so a cut comes early rather
// than wrong.

const (
	// spacedStops end a sentence when a space follows; unspacedStops end one anywhere.
	spacedStops   = ".!?…؟۔।॥։።᠃᠉"
	unspacedStops = "。！？｡．︒"
	closers       = "\"'”’»›)]}」』】）］*_`"
)

// minLineRunes is the shortest line without a stop that counts as a sentence. Shorter ones are headings.
const minLineRunes = 12

// abbreviations are words whose full stop does not end a sentence.
var abbreviations = wordSet("abbreviations")

// beforeDays are the words that precede a day of the month in German, which is written with a full stop.
var beforeDays = wordSet("before days")

func wordSet(section string) map[string]bool {
	set := map[string]bool{}
	for _, s := range lang.Each(section) {
		for _, word := range s.Words() {
			set[word] = true
		}
	}
	return set
}

// Sentences cuts text after each sentence. Together the parts are the whole text.
func Sentences(text string) []string {
	var parts []string
	from := 0
	for _, end := range sentenceEnds(text) {
		if end = pastSpace(text, end, len(text)); end > from {
			parts = append(parts, text[from:end])
			from = end
		}
	}
	if from < len(text) {
		parts = append(parts, text[from:])
	}
	return parts
}

// sentenceEnds returns the byte offset after each sentence of text, in ascending order. A line that is not a heading
// ends a sentence as well, so the items of a list are sentences.
func sentenceEnds(text string) []int {
	var ends []int
	lineStart := 0
	for at, r := range text {
		next := at + utf8.RuneLen(r)
		if r == utf8.RuneError {
			continue
		}
		switch {
		case r == '\n':
			if end := lineEnd(text, lineStart, at); end > lastOf(ends) {
				ends = append(ends, end)
			}
			lineStart = next
		case isStop(text, lineStart, at, r):
			if end := afterClosers(text, next); end > lastOf(ends) && endsThere(text, end, r) {
				ends = append(ends, end)
			}
		}
	}
	return ends
}

func lastOf(ends []int) int {
	if len(ends) == 0 {
		return 0
	}
	return ends[len(ends)-1]
}

// lineEnd returns the end of the line text[start:at] without trailing space when the line counts as a sentence, else 0.
func lineEnd(text string, start, at int) int {
	line := strings.TrimRightFunc(text[start:at], unicode.IsSpace)
	bare := strings.TrimSpace(line)
	if utf8.RuneCountInString(bare) < minLineRunes || strings.HasPrefix(bare, "#") || strings.HasSuffix(bare, ":") {
		return 0
	}
	return start + len(line)
}

// isStop reports whether the rune at offset at can end a sentence, by the text before it.
func isStop(text string, lineStart, at int, r rune) bool {
	if strings.ContainsRune(unspacedStops, r) {
		return true
	}
	if !strings.ContainsRune(spacedStops, r) {
		return false
	}
	if r != '.' {
		return true
	}
	before, word := lastWords(text[lineStart:at])
	return !isOrdinal(before, word) && !isInitial(word) && !abbreviations[strings.ToLower(word)]
}

// lastWords returns the last two words of a line, "" where it has fewer.
func lastWords(line string) (before, last string) {
	const enough = 64 // bytes; no table has a longer word
	words := strings.FieldsFunc(line[max(0, len(line)-enough):], func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("([{\"'“„«*_", r)
	})
	if len(words) == 0 {
		return "", ""
	}
	if len(words) == 1 {
		return "", words[0]
	}
	return words[len(words)-2], words[len(words)-1]
}

// isOrdinal reports whether word is the number of a list item ("3.") or a German day of the month ("am 20.").
func isOrdinal(before, word string) bool {
	if word == "" || len(word) > 2 || strings.Trim(word, "0123456789") != "" {
		return false
	}
	return before == "" || beforeDays[strings.ToLower(before)]
}

func isInitial(word string) bool {
	r, size := utf8.DecodeRuneInString(word)
	return size > 0 && size == len(word) && unicode.IsUpper(r)
}

// afterClosers returns the offset after the quotes, brackets and further stops that follow a stop.
func afterClosers(text string, at int) int {
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if !strings.ContainsRune(closers, r) && !strings.ContainsRune(spacedStops+unspacedStops, r) {
			break
		}
		at += size
	}
	return at
}

// endsThere reports whether what follows a stop begins a new sentence: space, and then no lower-case letter.
func endsThere(text string, end int, stop rune) bool {
	if end == len(text) || strings.ContainsRune(unspacedStops, stop) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(text[end:])
	if !unicode.IsSpace(r) {
		return false
	}
	rest := strings.TrimLeftFunc(text[end:], unicode.IsSpace)
	next, _ := utf8.DecodeRuneInString(rest)
	return !unicode.IsLower(next)
}

// wordEnd returns the last offset in (from, hard] at which a word ends, or from when there is none. In scripts that
// put no spaces between words every character ends one.
func wordEnd(text string, from, hard int) int {
	for at := characterEnd(text, from, hard); at > from; at = characterEnd(text, from, at-1) {
		next, size := utf8.DecodeRuneInString(text[at:])
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		if unicode.IsSpace(before) {
			continue
		}
		if size == 0 || unicode.IsSpace(next) || Unspaced(before) {
			return at
		}
	}
	return from
}

// Unspaced reports whether r belongs to a script that puts no spaces between words.
func Unspaced(r rune) bool { return lang.Unspaced(r) }

// characterEnd returns the last offset in (from, hard] that splits no character: neither its bytes, nor a letter and
// its marks, nor an emoji and its modifiers (a simplification of the grapheme clusters of UAX #29). It returns from
// when there is none.
func characterEnd(text string, from, hard int) int {
	for at := hard; at > from; at-- {
		if at == len(text) {
			return at
		}
		if !utf8.RuneStart(text[at]) {
			continue
		}
		next, _ := utf8.DecodeRuneInString(text[at:])
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		if !extends(next) && before != zeroWidthJoiner {
			return at
		}
	}
	return from
}

const zeroWidthJoiner = '\u200d'

// extends reports whether r belongs to the character before it.
func extends(r rune) bool {
	return r == zeroWidthJoiner || unicode.In(r, unicode.M) || (r >= 0x1F3FB && r <= 0x1F3FF)
}
