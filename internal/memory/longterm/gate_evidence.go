package longterm

import (
	"cmp"
	"crypto/md5" //nolint:gosec // Postgres' md5(content): it tells texts apart, and keeps no secret
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/arcoscribe/throughline/internal/memory/text"
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
func (g *gate) adds(p *proof, told said, m memory.Message) bool {
	there := g.said(m)
	return slices.ContainsFunc(namesIn(p.fact, p.lang), func(name string) bool {
		return !told.holdsName(name, p.lang) && there.holdsName(name, p.lang)
	}) || slices.ContainsFunc(allNumbersIn(p.fact), func(n string) bool {
		isArticle := n == "1" // as "a" is in many languages
		return !isArticle && !told.holdsNumber(n) && there.holdsNumber(n)
	})
}

func evidenceOf(m memory.Message) Evidence {
	sum := md5.Sum([]byte(m.Content)) //nolint:gosec // as above
	return Evidence{MessageID: m.ID, Seq: m.Seq, SaidAt: m.CreatedAt, Digest: hex.EncodeToString(sum[:])}
}

const (
	// mostEntities of a fact are kept, with names of at most mostName characters.
	mostEntities     = 12
	mostName         = 120
	mostRelationship = 40
)

func namesOf(entities []Entity) []string {
	var names []string
	for _, e := range entities {
		names = append(names, e.Name)
	}
	return names
}

// entitiesOf returns the entities that can be kept: with a name that was said, each once.
func entitiesOf(proposed []Entity, p *proof) []Entity {
	var kept []Entity
	seen := map[string]bool{}
	for _, e := range proposed {
		name := cleanName(e.Name)
		key := lang.Bare(name)
		if key == "" || seen[key] || len(kept) == mostEntities || holdsSecret(name) {
			continue
		}
		if !slices.Contains(entityTypes, e.Type) {
			e.Type = "other"
		}
		if isNamed(e.Type) && !userWords[key] && !p.all.holdsName(name, p.lang) {
			continue
		}
		seen[key] = true
		kept = append(kept, Entity{Name: name, Type: e.Type})
	}
	return kept
}

func cleanName(name string) string {
	name = text.OneLine(name)
	if utf8.RuneCountInString(name) > mostName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || markedUp().MatchString(name) {
		return ""
	}
	return name
}

// relationshipsOf returns the relationships between entities that are kept, and the user.
func relationshipsOf(proposed []Relationship, entities []Entity) []Relationship {
	ends := map[string]string{"user": userName, "the user": userName}
	for _, e := range entities {
		ends[lang.Bare(e.Name)] = e.Name
		if userWords[lang.Bare(e.Name)] {
			ends[lang.Bare(e.Name)] = userName
		}
	}
	for word := range userWords {
		ends[word] = userName
	}
	var kept []Relationship
	for _, r := range proposed {
		r = Relationship{Source: ends[lang.Bare(r.Source)], Relationship: snakeCase(r.Relationship), Target: ends[lang.Bare(r.Target)]}
		whole := r.Source != "" && r.Relationship != "" && r.Target != "" && r.Source != r.Target
		if whole && len(kept) < mostEntities && !slices.Contains(kept, r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// userName is the name of the user among the entities.
const userName = "User"

var noWord = express(`[^\pL\pN]+`)

// snakeCase writes the name of a relationship as "works_at". It returns "" for one that is too long.
func snakeCase(name string) string {
	name = strings.Trim(noWord().ReplaceAllString(strings.ToLower(name), "_"), "_")
	if utf8.RuneCountInString(name) > mostRelationship {
		return ""
	}
	return name
}
