package brief

import (
	"hash/fnv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// A sequence of gramWords words that occurs more than maxRepeats times is a loop. In scripts without spaces between
// words, two characters weigh as much as one word.
const (
	gramWords   = 8
	maxRepeats  = 3
	wordWeight  = 2
	gramWeight  = gramWords * wordWeight
	longWordLen = 64 // runes; anything longer is not a word and is divided into characters
)

// repeatsItself reports whether the same 8-gram of words occurs more than 3 times in text. Case and punctuation do not
// count. Time is linear in the length of text.
func repeatsItself(text string) bool {
	units := unitsOf(text)
	seen := make(map[uint64]int, len(units))
	for start := range units {
		key, ok := gram(units[start:])
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
func gram(units []string) (uint64, bool) {
	h := fnv.New64a()
	weight := 0
	for _, unit := range units[:min(len(units), gramWeight)] {
		_, _ = h.Write([]byte(unit + "\x00")) // a hash never fails
		if weight += weigh(unit); weight >= gramWeight {
			return h.Sum64(), true
		}
	}
	return 0, false
}

func weigh(unit string) int {
	if r, size := utf8.DecodeRuneInString(unit); size == len(unit) && text.Unspaced(r) {
		return 1
	}
	return wordWeight
}

// apostrophes are part of a word: "I'm" is one.
const apostrophes = "'’"

// unitsOf divides text into words, and unspaced scripts into characters.
func unitsOf(text string) []string {
	var units []string
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune(apostrophes, r)
	})
	for _, word := range words {
		if word = strings.Trim(word, apostrophes); word != "" {
			units = appendUnits(units, word)
		}
	}
	return units
}

func appendUnits(units []string, word string) []string {
	if utf8.RuneCountInString(word) > longWordLen {
		return append(units, strings.Split(word, "")...)
	}
	start := 0
	for at, r := range word {
		if !text.Unspaced(r) {
			continue
		}
		if at > start {
			units = append(units, word[start:at])
		}
		start = at + utf8.RuneLen(r)
		units = append(units, word[at:start])
	}
	if start < len(word) {
		units = append(units, word[start:])
	}
	return units
}
