package longterm

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// MergeAlike folds candidates into one that say the same in the same words. The result has the evidence of all, and the
// highest confidence.
func MergeAlike(candidates []Candidate) []Candidate {
	var merged []Candidate
	var gists []gist
	for _, c := range candidates {
		one := gistOf(c.Fact)
		twin := slices.IndexFunc(gists, func(g gist) bool { return g.sameAs(one, false) })
		if twin < 0 {
			merged, gists = append(merged, c), append(gists, one)
			continue
		}
		merged[twin] = both(merged[twin], c)
	}
	return merged
}

func both(a, b Candidate) Candidate {
	a.Evidence = slices.Clone(a.Evidence)
	for _, e := range b.Evidence {
		n := slices.IndexFunc(a.Evidence, func(o Evidence) bool { return o.MessageID == e.MessageID })
		switch {
		case n < 0:
			a.Evidence = append(a.Evidence, e)
		case e.Alone && !a.Evidence[n].Alone:
			a.Evidence[n] = e
		}
	}
	slices.SortStableFunc(a.Evidence, func(x, y Evidence) int { return cmp.Compare(x.Seq, y.Seq) })
	a.Confidence = max(a.Confidence, b.Confidence)
	a.Inbox, a.Durable = a.Inbox && b.Inbox, a.Durable || b.Durable
	if a.ValidFrom.IsZero() && a.ValidTo.IsZero() {
		a.ValidFrom, a.ValidTo, a.Precision = b.ValidFrom, b.ValidTo, b.Precision
	}
	a.Replaces = cmp.Or(a.Replaces, b.Replaces)
	if len(a.Entities) == 0 {
		a.Entities, a.Relationships = b.Entities, b.Relationships
	}
	return a
}

// Question is what the rules could not settle: candidates with the memories that are like them.
type Question struct {
	open    []open
	known   []Known // each once, in the order in which they are numbered
	settled []Decision
}

type open struct {
	number    int // among all candidates
	candidate Candidate
	gist      gist
	alike     []uuid.UUID
}

// Open returns how many candidates the question is about; 0 if there is nothing to ask.
func (q Question) Open() int { return len(q.open) }

// Settle decides on the candidates that need no model, by the memories that resemble each. The others are the question.
// A decision's Candidate is a place in candidates. similarity puts a cosine on the scale of recall.Similarity; nil where there
// are no vectors.
//
// None alike is added. The same words, or words that differ in nothing but their order and are as near in meaning as can
// be, are one source more. All else is asked.
func Settle(candidates []Candidate, known [][]Known, similarity func(cosine float64) float64) (Question, []Decision) {
	var q Question
	for n := range candidates {
		o := open{number: n, candidate: candidates[n], gist: gistOf(candidates[n].Fact)}
		var near []Known
		if n < len(known) {
			near = known[n]
		}
		if twin := twinOf(o.gist, near); twin != nil {
			q.settled = append(q.settled, *o.noop(twin))
			continue
		}
		alike := alikeOf(o.gist, near, similarity)
		if len(alike) == 0 {
			q.settled = append(q.settled, *o.add(ReasonNew))
			continue
		}
		for _, k := range alike {
			o.alike = append(o.alike, k.ID)
			if !slices.ContainsFunc(q.known, func(other Known) bool { return other.ID == k.ID }) {
				q.known = append(q.known, k)
			}
		}
		q.open = append(q.open, o)
	}
	return q, q.settled
}

// nearlyEqual is the cosine from which on texts of the same words say the same in another order. It is no similarity:
// that is at its highest for texts that are far less alike.
const nearlyEqual = .95

// twinOf returns the memory that says the same, an active one first; nil if there is none.
func twinOf(of gist, near []Known) *Known {
	var twin *Known
	for n := range near {
		k := &near[n]
		same := k.SameKey || of.sameAs(gistOf(k.Content), k.HasCosine && k.Cosine >= nearlyEqual)
		if same && k.Status != Superseded && (twin == nil || rank(k) < rank(twin)) {
			twin = k
		}
	}
	return twin
}

// rank orders active memories before the inbox and the archive, and the same words before others.
func rank(k *Known) int {
	rank := slices.Index([]Status{Active, Inbox, Archived}, k.Status) * 2
	if !k.SameKey {
		rank++
	}
	return rank
}

// alikeOf returns the memories that may have to do with a candidate: those nearest by meaning and by words in turn, so
// that a near twin that only one of the two finds is not crowded out.
func alikeOf(of gist, near []Known, similarity func(float64) float64) []Known {
	sorted := slices.Clone(near)
	slices.SortStableFunc(sorted, func(a, b Known) int { return cmp.Compare(turn(&a), turn(&b)) })
	var alike []Known
	for n := range sorted {
		k := &sorted[n]
		if len(alike) < MostAlike && (k.Status == Active || k.Status == Inbox) && isAlike(of, k, similarity) {
			alike = append(alike, *k)
		}
	}
	return alike
}

// turn is when a memory is taken: the best by meaning, the best by words, the second by meaning …
func turn(k *Known) int {
	const never = 1 << 20
	at := never
	if k.VectorPlace > 0 {
		at = 2 * k.VectorPlace
	}
	if k.WordsPlace > 0 {
		at = min(at, 2*k.WordsPlace+1)
	}
	return at
}

const (
	// similar is from which similarity on a memory may have to do with a candidate: S4's threshold.
	similar = .6
	// fewWords is the share of the words of the shorter text that the other must have where meaning says "not alike".
	fewWords = .5
)

func isAlike(of gist, k *Known, similarity func(float64) float64) bool {
	other := gistOf(k.Content)
	if similarity == nil || !k.HasCosine {
		return of.sharesWord(other)
	}
	if similarity(k.Cosine) >= similar {
		return true
	}
	return of.overlap(other) >= fewWords
}

// gist is what a short text says, as far as rules can tell: enough to see that two texts do not say the same.
type gist struct {
	lang    string
	terms   []string // all words but articles and those for the user
	content []string // without function words
	names   []string
	numbers []string // as digits, also those written as words, and months
	negated bool
}

// gistOf returns the gist of a fact or a memory.
func gistOf(content string) gist {
	g := gist{lang: lang.Of(content), content: contentOf(content), negated: isNegated(content)}
	for _, term := range lang.Terms(content) {
		if !articles[term] && !userWords[term] && !spacelessEmpty[term] {
			g.terms = append(g.terms, term)
		}
	}
	for _, name := range namesIn(content, g.lang) {
		g.names = append(g.names, lang.WordsOf(name)...)
	}
	g.numbers = slices.DeleteFunc(allNumbersIn(content), func(n string) bool { return n == "1" })
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

// sameAs reports whether two texts have the same words, apart from their endings, articles, and what they call the user;
// and in the same order, unless anyOrder.
func (g gist) sameAs(other gist, anyOrder bool) bool {
	if len(g.terms) != len(other.terms) || len(g.terms) == 0 || g.negated != other.negated || !g.sameNumbers(other) {
		return false
	}
	if !anyOrder {
		return slices.EqualFunc(g.terms, other.terms, isForm)
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

func (g gist) sameNumbers(other gist) bool { return g.hasNumbersOf(other) && other.hasNumbersOf(g) }

// hasNumbersOf reports whether each number of other is one of g, too.
func (g gist) hasNumbersOf(other gist) bool {
	return !slices.ContainsFunc(other.numbers, func(n string) bool { return !slices.Contains(g.numbers, n) })
}

// hasNamesOf reports whether each name of other is in g, too, written as a name or not.
func (g gist) hasNamesOf(other gist) bool {
	return !slices.ContainsFunc(other.names, func(name string) bool {
		return !slices.ContainsFunc(g.terms, func(term string) bool { return sameName(name, term, g.lang) })
	})
}

// overlap returns which share of the fewer words of two texts the other has as well. Function words do not count.
func (g gist) overlap(other gist) float64 {
	fewer, more := g.content, other.content
	if len(fewer) > len(more) {
		fewer, more = more, fewer
	}
	if len(fewer) == 0 {
		return 0
	}
	return float64(countShared(fewer, more)) / float64(len(fewer))
}

// restates reports whether g has all that another text is about, apart from its numbers: its words but for the first, which
// says what the user does with it ("owns", "has").
func (g gist) restates(other gist) bool {
	isNumber := func(term string) bool {
		return len(allNumbersIn(term)) > 0 || len(monthsIn(term)) > 0
	}
	words := slices.DeleteFunc(slices.Clone(other.content), isNumber)
	if len(words) > 1 && countShared(words[:1], g.content) == 0 {
		words = words[1:]
	}
	return countShared(words, g.content) == len(words)
}

// sharesWord reports whether two texts have any word in common that is longer than a preposition.
func (g gist) sharesWord(other gist) bool {
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

// acceptable reports whether a text that a model wrote may become the content of a memory with what it was made of: it is
// no order, question or talk about the conversation, holds no secret and no relative date, and is in the language of
// the other text.
func acceptable(content, beside string) bool {
	return !isOrder(content) && !isNoFact(content) && !holdsSecret(content) && !relativeDate(content) && !lang.Differ(content, beside)
}
