package longterm

import (
	"slices"
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// wordSet returns the words that a section has in any language, folded.
func wordSet(section string) map[string]bool { return lang.Set(lang.Each(section)...) }

// userWords are the words by which facts call the user, in any language.
var userWords = wordSet("user")

// mentionsUser reports whether a fact has a word for the user.
func mentionsUser(fact string) bool {
	plain := lang.Bare(fact)
	for word := range userWords {
		if strings.Contains(plain, word) {
			return true
		}
	}
	return false
}

// spacelessEmpty are pairs of characters that say nothing.
var spacelessEmpty = wordSet("empty pairs")

// contentOf returns the terms of a text that say something: not the function words of its language, nor those with which
// every fact begins.
func contentOf(content string) []string {
	language := lang.Of(content)
	var terms []string
	for _, term := range lang.Terms(content) {
		if !isEmptyWord(term, language) {
			terms = append(terms, term)
		}
	}
	return terms
}

func isEmptyWord(term, language string) bool {
	runes := []rune(term)
	if strings.ContainsFunc(term, lang.Spaceless) {
		return spacelessEmpty[term] || !strings.ContainsFunc(term, func(r rune) bool {
			return unicode.In(r, unicode.Han, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
		})
	}
	return len(runes) == 1 && !unicode.IsDigit(runes[0]) || lang.Knows("en", term) || lang.Knows(language, term) || userWords[term]
}

// sameStem reports whether two folded words are forms of one: they begin alike, and end in at most three other letters.
func sameStem(a, b string) bool {
	common, longest := beginAlike(a, b)
	return a == b || common >= 3 && longest-common <= 3 && common*2 > longest
}

// beginAlike returns with how many letters two words begin alike, of how many that the longer one has.
func beginAlike(a, b string) (common, longest int) {
	x, y := []rune(a), []rune(b)
	for common < len(x) && common < len(y) && x[common] == y[common] {
		common++
	}
	return common, max(len(x), len(y))
}

// countShared counts the terms that have a form in others.
func countShared(terms, others []string) int {
	n := 0
	for _, term := range terms {
		if slices.ContainsFunc(others, func(other string) bool { return sameStem(term, other) }) {
			n++
		}
	}
	return n
}
