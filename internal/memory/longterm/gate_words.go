package longterm

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// expression is a regular expression that is compiled when it is first used. All of them take several megabytes, and most
// processes read no chats.
type expression func() *regexp.Regexp

// expressions are all there are, so that a test can compile them.
var expressions []expression

// express is called for variables of the package only.
func express(pattern string) expression { return made(func() string { return pattern }) }

// made is express for a pattern that is put together when it is first used.
func made(pattern func() string) expression {
	e := expression(sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern()) }))
	expressions = append(expressions, e)
	return e
}

// anyMatches reports whether one of the expressions matches a text.
func anyMatches(patterns []expression, content string) bool {
	return slices.ContainsFunc(patterns, func(pattern expression) bool { return pattern().MatchString(content) })
}

// phrasesOf returns the phrases of a section as an expression for folded texts; those of a language without spaces match
// within words.
func phrasesOf(section lang.Section) expression {
	return made(func() string { return patternOf(func(s lang.Section) string { return lang.Folded(s) }, section) })
}

// patternOf returns the phrases of sections as folded makes them an expression.
func patternOf(folded func(lang.Section) string, sections ...lang.Section) string {
	var patterns []string
	for _, s := range sections {
		switch pattern := folded(s); {
		case pattern == "":
		case lang.HasSpaces(s.Language):
			patterns = append(patterns, lang.Whole(pattern))
		default:
			patterns = append(patterns, pattern)
		}
	}
	return strings.Join(patterns, "|")
}

// spoken returns the phrases of a section as an expression for each language. One for all would be slower.
func spoken(section string) []expression {
	var all []expression
	for _, s := range lang.Each(section) {
		all = append(all, phrasesOf(s))
	}
	return all
}

// framed returns an expression with the phrases of a section, of all languages, in the place of the three dots of a frame.
func framed(frame, section string) expression {
	return made(func() string { return strings.Replace(frame, "...", "(?:"+lang.Folded(lang.Each(section)...)+")", 1) })
}

// written returns the regular expressions of a section of what belongs to no language.
func written(section string) []expression {
	var all []expression
	for _, pattern := range lang.Get(lang.Any, section).Lines() {
		all = append(all, express(pattern))
	}
	return all
}

// words returns the words of a section of all languages as alternatives of an expression.
func words(section string, spell func(string) string) string {
	var all []string
	for _, s := range lang.Each(section) {
		for _, word := range s.Words() {
			all = append(all, regexp.QuoteMeta(spell(word)))
		}
	}
	return strings.Join(all, "|")
}

func asWritten(word string) string { return word }

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
