package longterm

import (
	"cmp"
	"crypto/md5" //nolint:gosec // Postgres' md5(content): it tells texts apart, and keeps no secret
	"encoding/hex"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// evidence returns the messages that a fact was made of. What the assistant asked and the user agreed to is one, and so is
// a message before that has a name, a number or another word of the fact which the others do not have: the fact is not left
// with the words of a message that is deleted.
func (g *gate) evidence(p *proof) []Evidence {
	borrowed := p.borrowed()
	whole, agreed := !p.own.invented(p.fact, p.lang) && len(borrowed) == 0, saysNothing(p.quoted.Content)
	var found []Evidence
	for _, m := range p.said {
		e := evidenceOf(m.Message)
		if m.alias == p.quoted.alias {
			e.Quote = clipQuote(p.quote)
		}
		e.Alone = whole && !agreed && (len(p.said) == 1 || g.saysAlone(p, m))
		found = append(found, e)
	}
	told := p.own
	for _, m := range slices.Backward(p.before) {
		asked := agreed && m.Role == memory.RoleAssistant
		isOwn := slices.ContainsFunc(found, func(e Evidence) bool { return e.Seq == m.Seq })
		rest := without(borrowed, m.Content)
		if !isOwn && (asked || len(rest) < len(borrowed) || g.adds(p, told, m)) {
			found, told, agreed = append(found, evidenceOf(m)), append(told, g.said(m)...), agreed && !asked
			borrowed = rest
		}
	}
	slices.SortStableFunc(found, func(a, b Evidence) int { return cmp.Compare(a.Seq, b.Seq) })
	return found
}

// borrowed returns the words of a fact that none of its messages has, and one before them.
func (p *proof) borrowed() []string {
	words := contentOf(p.fact)
	for _, m := range p.said {
		words = without(words, m.Content)
	}
	rest := words
	for _, m := range p.before {
		rest = without(rest, m.Content)
	}
	return slices.DeleteFunc(words, func(word string) bool { return slices.Contains(rest, word) })
}

// without returns the words of which a text has no form.
func without(words []string, content string) []string {
	terms := lang.Terms(content)
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		return slices.ContainsFunc(terms, func(term string) bool { return sameStem(word, term) })
	})
}

// saysAlone reports whether one of several messages says all that a fact says: no other gives it a name, a number or a word.
func (g *gate) saysAlone(p *proof, m aliased) bool {
	rest := without(contentOf(p.fact), m.Content)
	_, quoted := quoteIn(m.Content, p.quote)
	return quoted && !g.said(m.Message).invented(p.fact, p.lang) && !slices.ContainsFunc(p.said, func(other aliased) bool {
		return len(without(rest, other.Content)) < len(rest)
	})
}

// adds reports whether a message has a name or number of the fact that was not told yet.
func (g *gate) adds(p *proof, told said, m Message) bool {
	there := g.said(m)
	for _, name := range namesIn(p.fact, p.lang) {
		if !told.holdsName(name, p.lang) && there.holdsName(name, p.lang) {
			return true
		}
	}
	for _, n := range append(numbersIn(p.fact), spelled(p.fact)...) {
		isArticle := n == "1" // as "a" is in many languages
		if !isArticle && !told.holdsNumber(n) && there.holdsNumber(n) {
			return true
		}
	}
	return false
}

func evidenceOf(m Message) Evidence {
	sum := md5.Sum([]byte(m.Content)) //nolint:gosec // as above
	return Evidence{MessageID: m.ID, Seq: m.Seq, SaidAt: m.SaidAt, Digest: hex.EncodeToString(sum[:])}
}
