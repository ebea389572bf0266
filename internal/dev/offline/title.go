package offline

import (
	"cmp"
	"regexp"
	"strings"
)

// subject is what follows the first article of a sentence, up to a mark, in six words at most; opening are its first words.
var (
	opening = regexp.MustCompile(`[\pL\d'’-]+(?:\s+[\pL\d'’-]+){1,5}`)
	subject = regexp.MustCompile(`(?i)\b(?:an?|the|my|our|[mds]?ein(?:e[nmrs]?)?|unsere?[nmrs]?|d(?:er|ie|as|en|em))\s+(` + opening.String() + `)`)
)

// title returns what the user has named first.
func title(r *Request) string {
	first := ""
	for _, said := range parseUtterances(r.Text) {
		if said.assistant {
			continue
		}
		text := withoutDirectives(said.text)
		if phrase := subject.FindStringSubmatch(text); phrase != nil {
			return whole(phrase[1])
		}
		first = cmp.Or(first, opening.FindString(text))
	}
	return first
}

// whole ends a title with a word that says something: none ends with "and my".
func whole(title string) string {
	said := strings.Fields(title)
	for last := len(said) - 1; last > 0; last-- {
		word := strings.ToLower(said[last])
		if !stopWords[word] && !germanWords[word] {
			break
		}
		said = said[:last]
	}
	return strings.Join(said, " ")
}
