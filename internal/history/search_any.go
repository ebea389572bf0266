package history

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// maxAnyTerms is how many words and phrases of a query are searched for in the mode any.
const maxAnyTerms = 32

// queryPart is a phrase in quotes, or a word; each of them may be excluded.
var queryPart = regexp.MustCompile(`(-?)"([^"]*)"|[^\s"]+`)

// AnyTerms splits a query for a search in the mode any: the words and phrases of which a message needs one, and those that
// it must not have. All are written for websearch_to_tsquery.
func AnyTerms(query string) (terms []string, without string) {
	query = dashes.ReplaceAllString(straightQuotes.Replace(query), " ")
	var excluded []string
	for _, part := range queryPart.FindAllStringSubmatch(query, -1) {
		word := part[0]
		switch {
		case strings.HasPrefix(word, `-"`):
			excluded = append(excluded, `-"`+spaced(part[2])+`"`)
		case strings.HasPrefix(word, `"`):
			terms = append(terms, `"`+spaced(part[2])+`"`)
		case strings.HasPrefix(word, "-"):
			excluded = append(excluded, WebSearch(word))
		case !strings.EqualFold(word, "or"):
			terms = append(terms, wordTerms(word)...)
		}
	}
	slices.Sort(terms)
	terms = slices.Compact(terms)
	return terms[:min(len(terms), maxAnyTerms)], strings.Join(excluded, " ")
}

// wordTerms returns what a word without spaces before and after it consists of: where its script has no spaces, each pair
// of neighbouring characters is a phrase.
func wordTerms(word string) []string {
	if !strings.ContainsFunc(word, isSpaceless) {
		return []string{word}
	}
	var terms []string
	for run := range strings.FieldsFuncSeq(word, func(r rune) bool { return !isSpaceless(r) }) {
		characters := []rune(run)
		for i := range max(1, len(characters)-1) {
			terms = append(terms, `"`+spaced(string(characters[i:min(i+2, len(characters))]))+`"`)
		}
	}
	return slices.AppendSeq(terms, strings.FieldsFuncSeq(word, func(r rune) bool {
		return isSpaceless(r) || !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
	}))
}
