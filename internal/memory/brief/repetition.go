package brief

import (
	"hash/maphash"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// A sequence of gramWords words that occurs more than maxRepeats times is a loop.
const (
	gramWords   = 8
	maxRepeats  = 3
	gramWeight  = gramWords * wordWeight
	longWordLen = 64 // runes; anything longer is not a word and is divided into characters
)

// What a unit of text weighs. Scripts without spaces are parted into characters, and how many of those are a word differs:
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
		begin := 0 // of what is not a unit yet
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

// divided returns a word, or the characters of what is too long for one.
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
