package longterm

import (
	"slices"
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// Gist is what a short text says, as far as rules can tell: enough to see that two texts do not say the same.
type Gist struct {
	lang    string
	terms   []string // all words but articles and those for the user
	content []string // without function words
	names   []string
	numbers []string // as digits, also those written as words, and months
	negated bool
}

// GistOf returns the gist of a fact or a memory.
func GistOf(content string) Gist {
	g := Gist{lang: lang.Of(content), content: contentOf(content), negated: isNegated(content)}
	for _, term := range lang.Terms(content) {
		if !articles[term] && !userWords[term] && !spacelessEmpty[term] {
			g.terms = append(g.terms, term)
		}
	}
	for _, name := range namesIn(content, g.lang) {
		g.names = append(g.names, lang.WordsOf(name)...)
	}
	g.numbers = append(numbersIn(content), spelled(content)...)
	if len(g.numbers) > 0 {
		g.numbers = slices.DeleteFunc(g.numbers, func(n string) bool { return n == "1" })
	}
	for _, month := range monthsIn(lang.Fold(content)) {
		g.numbers = append(g.numbers, month.String())
	}
	return g
}

var articles = wordSet("articles")

// negations are words that turn a sentence into its opposite, or say that something has ended.
var negations, negationsWithin = func() (map[string]bool, expression) {
	spaced, unspaced := bySpaces("negations")
	return lang.Set(spaced...), made(func() string { return lang.Folded(unspaced...) })
}()

func isNegated(content string) bool {
	return slices.ContainsFunc(lang.WordsOf(content), func(word string) bool { return negations[word] }) || negationsWithin.matches(lang.Fold(content))
}

// SameAs reports whether two texts have the same words, apart from their endings, articles, and what they call the user;
// and in the same order, unless anyOrder.
func (g Gist) SameAs(other Gist, anyOrder bool) bool {
	if len(g.terms) != len(other.terms) || len(g.terms) == 0 || g.negated != other.negated || !g.sameNumbers(other) {
		return false
	}
	if !anyOrder {
		for n, term := range g.terms {
			if !isForm(term, other.terms[n]) {
				return false
			}
		}
		return true
	}
	if !slices.Equal(g.names, other.names) {
		return false // who calls whom
	}
	left := slices.Clone(other.terms)
	for _, term := range g.terms {
		n := slices.IndexFunc(left, func(o string) bool { return isForm(term, o) })
		if n < 0 {
			return false
		}
		left = slices.Delete(left, n, n+1)
	}
	return true
}

func (g Gist) sameNumbers(other Gist) bool { return g.HasNumbersOf(other) && other.HasNumbersOf(g) }

// HasNumbersOf reports whether each number of other is one of g, too.
func (g Gist) HasNumbersOf(other Gist) bool {
	return !slices.ContainsFunc(other.numbers, func(n string) bool { return !slices.Contains(g.numbers, n) })
}

// HasNamesOf reports whether each name of other is in g, too, written as a name or not.
func (g Gist) HasNamesOf(other Gist) bool {
	for _, name := range other.names {
		if !slices.ContainsFunc(g.terms, func(term string) bool { return sameName(name, term, g.lang) }) {
			return false
		}
	}
	return true
}

// Negated reports whether the text says that something is not so.
func (g Gist) Negated() bool { return g.negated }

// Overlap returns which share of the fewer words of two texts the other has as well, and how many these are. Function
// words do not count.
func (g Gist) Overlap(other Gist) (share float64, words int) {
	fewer, more := g.content, other.content
	if len(fewer) > len(more) {
		fewer, more = more, fewer
	}
	if len(fewer) == 0 {
		return 0, 0
	}
	words = countShared(fewer, more)
	return float64(words) / float64(len(fewer)), words
}

// Restates reports whether g has all that another text is about, whatever numbers the two have: its words but for the first, which
// says what somebody does with it ("owns", "has").
func (g Gist) Restates(other Gist) bool {
	isNumber := func(term string) bool {
		return len(append(numbersIn(term), spelled(term)...)) > 0 || len(monthsIn(term)) > 0
	}
	words := slices.DeleteFunc(slices.Clone(other.content), isNumber)
	if len(words) > 1 && countShared(words[:1], g.content) == 0 {
		words = words[1:]
	}
	return countShared(words, g.content) == len(words)
}

// SharesWord reports whether two texts have any word in common that is longer than a preposition.
func (g Gist) SharesWord(other Gist) bool {
	for _, term := range g.terms {
		const preposition = 3
		if len([]rune(term)) <= preposition && !strings.ContainsFunc(term, lang.Spaceless) {
			continue
		}
		if slices.ContainsFunc(other.terms, func(o string) bool { return isForm(term, o) }) {
			return true
		}
	}
	return false
}

// isForm reports whether two folded words are the same but for a regular ending.
func isForm(a, b string) bool {
	if a == b {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	if strings.ContainsFunc(a, unicode.IsDigit) || len([]rune(a)) < 3 {
		return false
	}
	ending, ok := strings.CutPrefix(b, a)
	if ok {
		return regular[ending]
	}
	root, dropped := strings.CutSuffix(a, "e")
	ending, ok = strings.CutPrefix(b, root)
	return dropped && ok && ending == "ing"
}

var regular = wordSet("endings of words")

// Acceptable reports whether a text that a model wrote may become the content of a memory with what it was made of: it is
// no order, question or talk about the conversation, holds no secret and no relative date, and is in the language of
// the other text.
func Acceptable(content, beside string) bool {
	return !isOrder(content) && !isNoFact(content) && !holdsSecret(content) && !relativeDate(content) && !lang.Differ(content, beside)
}
