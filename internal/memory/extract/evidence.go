package extract

import (
	"cmp"
	"crypto/md5" //nolint:gosec // Postgres' md5(content): it tells texts apart, and keeps no secret
	"encoding/hex"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
)

// evidence returns the messages that a fact was made of. What the assistant asked and the user agreed to is one, and so is
// a message before that has a name or number which the others do not have.
func (g *gate) evidence(p *proof) []Evidence {
	whole, agreed := !p.own.invented(p.fact, p.lang), saysNothing(p.quoted.Content)
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
		if !isOwn && (asked || g.adds(p, told, m)) {
			found, told, agreed = append(found, evidenceOf(m)), append(told, g.said(m)...), agreed && !asked
		}
	}
	slices.SortStableFunc(found, func(a, b Evidence) int { return cmp.Compare(a.Seq, b.Seq) })
	return found
}

// saysAlone reports whether one of several messages says all that a fact says.
func (g *gate) saysAlone(p *proof, m aliased) bool {
	own := g.said(m.Message)
	terms := contentOf(p.fact)
	return !own.invented(p.fact, p.lang) && quotes(m.Content, p.quote) && countShared(terms, termsOf(m.Content))*2 >= len(terms)
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
