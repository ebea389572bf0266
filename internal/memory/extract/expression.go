package extract

import (
	"regexp"
	"slices"
	"sync"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// expression is a regular expression that is compiled when it is first used. All of them take several megabytes, and most
// processes read no chats.
type expression func() *regexp.Regexp

// expressions are all there are, so that a test can compile them.
var expressions []expression

// express is called for variables of the package only.
func express(pattern string) expression {
	e := expression(sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) }))
	expressions = append(expressions, e)
	return e
}

// anyMatches reports whether one of the expressions matches a text.
func anyMatches(patterns []expression, content string) bool {
	return slices.ContainsFunc(patterns, func(pattern expression) bool { return pattern().MatchString(content) })
}

// phrases matches whole words.
func phrases(alternatives string) expression {
	return express(`(?:^|[^\pL\pN])(?:` + alternatives + `)(?:$|[^\pL\pN])`)
}

// anywhere is for scripts without spaces.
func anywhere(alternatives string) expression { return express(alternatives) }

// expressOf returns a section of lang's data as one expression, phrasesOf and anywhereOf one for each of its patterns.
func expressOf(file, section string) expression { return express(lang.Pattern(file, section)) }

func phrasesOf(file, section string) []expression { return each(file, section, phrases) }

func anywhereOf(file, section string) []expression { return each(file, section, anywhere) }

func each(file, section string, compile func(string) expression) []expression {
	var all []expression
	for _, pattern := range lang.Get(file, section).Patterns() {
		all = append(all, compile(pattern))
	}
	return all
}
