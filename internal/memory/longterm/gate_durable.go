package longterm

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// lasting are words of facts that hardly ever change and that a user would not want to say twice: health, names, family,
// birth dates and languages. They are folded.
var lasting = slices.Concat(
	[]expression{beginnings("lasting health"), beginnings("lasting family")}, spoken("lasting health phrases"), spoken("lasting family phrases"),
	spoken("lasting names"), spoken("lasting birth"), spoken("lasting languages"), spoken("lasting home"), spoken("lasting work"))

// beginnings matches words that begin so.
func beginnings(section string) expression {
	return made(func() string { return beginningOf(slices.Sorted(maps.Keys(wordSet(section)))) })
}

func beginningOf(stems []string) string {
	const shortStem = 4 // characters: a shorter stem is a word of its own
	var long, short []string
	for _, stem := range stems {
		if utf8.RuneCountInString(stem) <= shortStem {
			short = append(short, regexp.QuoteMeta(stem))
		} else {
			long = append(long, regexp.QuoteMeta(stem))
		}
	}
	return `(?:^|[^\pL\pN])(?:(?:` + strings.Join(long, "|") + `)|(?:` + strings.Join(append(short, "-"), "|") + `)(?:s|'s|e|en|n)?(?:$|[^\pL\pN]))`
}

// IsLasting reports whether a fact is of the kind that does not decay.
func IsLasting(fact string) bool {
	return anyMatches(lasting, lang.Fold(fact))
}

// isExcluded reports whether a text is about one of the subjects that the user does not want remembered: it has each word
// of the subject, in whatever form.
func isExcluded(subjects []string, texts ...string) bool {
	for _, subject := range subjects {
		wanted := lang.WordsOf(subject)
		if len(wanted) == 0 {
			continue
		}
		for _, content := range texts {
			if namesSubject(content, wanted) {
				return true
			}
		}
	}
	return false
}

func namesSubject(content string, wanted []string) bool {
	words, whole := lang.WordsOf(content), lang.Bare(content)
	for _, want := range wanted {
		if strings.ContainsFunc(want, lang.Spaceless) {
			if !strings.Contains(whole, want) {
				return false
			}
			continue
		}
		found := slices.ContainsFunc(words, func(word string) bool {
			const ofCompound = 5
			return sameStem(want, word) || len(want) >= ofCompound && strings.Contains(word, want)
		})
		if !found {
			return false
		}
	}
	return true
}
