package extract

import (
	"regexp"
	"sync"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// expression is a regular expression that is compiled when it is first used. All of them take several megabytes, and most
// processes read no chats.
type expression struct{ compiled func() *regexp.Regexp }

// expressions are all there are, so that a test can compile them.
var expressions []expression

// express is called for variables of the package only.
func express(pattern string) expression {
	e := expression{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })}
	expressions = append(expressions, e)
	return e
}

// These are the methods of regexp.Regexp.

func (e expression) MatchString(s string) bool              { return e.compiled().MatchString(s) }
func (e expression) FindAllString(s string, n int) []string { return e.compiled().FindAllString(s, n) }
func (e expression) FindAllStringIndex(s string, n int) [][]int {
	return e.compiled().FindAllStringIndex(s, n)
}
func (e expression) FindStringIndex(s string) []int       { return e.compiled().FindStringIndex(s) }
func (e expression) FindStringSubmatch(s string) []string { return e.compiled().FindStringSubmatch(s) }
func (e expression) ReplaceAllString(s, with string) string {
	return e.compiled().ReplaceAllString(s, with)
}

func (e expression) Split(s string, n int) []string { return e.compiled().Split(s, n) }

func (e expression) FindAllStringSubmatch(s string, n int) [][]string {
	return e.compiled().FindAllStringSubmatch(s, n)
}

func (e expression) ReplaceAllStringFunc(s string, with func(string) string) string {
	return e.compiled().ReplaceAllStringFunc(s, with)
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
