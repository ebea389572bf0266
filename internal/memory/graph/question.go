package graph

import (
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// Question is what words such as "what tools do I like" ask for.
type Question struct {
	// Relationships are those of the families that were named; empty for any. Of a family that is denied they are those of the
	// opposite ("what do I not like").
	Relationships []string
	// Verbs are the relationships that the other words may mean, where no family was named ("what do I photograph"). They count
	// only if those words name no entity.
	Verbs []string
	// Types are the types that were named; empty for any.
	Types []Type
	// Words are the others. They may name entities, of which the store knows.
	Words string
}

// ParseQuestion reads a question. Who and where say a type only where no family does: what somebody works for is no place.
func ParseQuestion(question string) Question {
	q := Question{Relationships: []string{}, Verbs: []string{}}
	var asked []Type
	var others, named []string
	denied := false
	for word := range strings.FieldsSeq(question) {
		parts := strings.Fields(folded(word)) // j'aime
		plain := ""
		if len(parts) > 0 {
			plain = parts[len(parts)-1]
		}
		if denies[plain] {
			denied = true
			continue
		}
		family, types, asking := familyOf[plain], typesOf[plain], askingFor[plain]
		if family == "" && len(types)+len(asking) == 0 {
			others = append(others, word)
		}
		if family != "" {
			named = append(named, family)
		}
		q.Types, asked = adding(q.Types, types), adding(asked, asking)
	}
	for _, family := range named {
		q.Relationships = adding(q.Relationships, relationshipsOf(family, denied))
	}
	if len(q.Relationships) == 0 {
		q.Verbs = verbsIn(question, others, denied)
	}
	if len(q.Relationships)+len(q.Types) == 0 {
		q.Types = asked
	}
	q.Words = strings.Join(others, " ")
	return q
}

// relationshipsOf returns those of a family, or where it is denied, those of its opposite. Without an opposite, the denial
// is a relationship of its own.
func relationshipsOf(family string, denied bool) []string {
	if opposite := opposites[family]; denied && opposite != "" {
		return families[opposite]
	}
	return perhapsDenied(families[family], denied)
}

func perhapsDenied(relationships []string, denied bool) []string {
	if !denied {
		return relationships
	}
	var not []string
	for _, r := range relationships {
		not = append(not, "not_"+r, "does_not_"+r)
	}
	return not
}

// verbsIn returns the relationships that some words of a question may mean: words that are neither weak nor function words.
func verbsIn(question string, words []string, denied bool) []string {
	among := recall.Roots(strings.Join(words, " "))
	verbs := []string{}
	for _, w := range recall.Words(question) {
		if w.Weak || w.Function || !slices.Contains(among, recall.Roots(w.Forms[0])[0]) {
			continue
		}
		for _, form := range w.Forms {
			verbs = adding(verbs, perhapsDenied([]string{form, form + "s", form + "es"}, denied))
		}
	}
	return verbs
}

func adding[T comparable](all, more []T) []T {
	for _, one := range more {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// Understood reports whether the question may be about the user where it names no entity: it names a family or a type, or has a
// word that may be a relationship.
func (q Question) Understood() bool { return len(q.Relationships)+len(q.Verbs)+len(q.Types) > 0 }

// families are the relationships that one word of a question may mean.
var families = map[string][]string{
	"like":    {"likes", "prefers", "uses", "admires", "enjoys", "loves"},
	"prefer":  {"prefers"},
	"love":    {"loves", "likes", "enjoys", "admires"},
	"dislike": {"dislikes", "hates", "avoids"},
	"use":     {"uses", "works_with", "prefers"},
	"live":    {"lives_in", "lives_at", "moved_to", "resides_in"},
	"from":    {"from", "comes_from", "born_in", "grew_up_in"},
	"work":    {"works_at", "works_for", "works_on", "works_with", "works_in", "employed_by"},
	"build":   {"builds", "develops", "maintains", "works_on", "created", "creates"},
	"own":     {"owns", "has", "bought"},
	"know":    {"knows", "friend_of", "married_to", "partner_of", "sibling_of", "parent_of", "child_of", "colleague_of", "works_with"},
	"family":  {"married_to", "partner_of", "sibling_of", "parent_of", "child_of", "has_child", "has_sibling", "has_parent", "has_partner"},
	"learn":   {"learns", "is_learning", "studies", "studies_at"},
	"play":    {"plays"},
	"speak":   {"speaks"},
	"visit":   {"visits", "visited", "travelled_to", "traveled_to", "moved_to"},
	"health":  {"allergic_to", "has_condition", "suffers_from", "diagnosed_with", "struggles_with", "has"},
	"allergy": {"allergic_to"},
	"trouble": {"struggles_with", "suffers_from", "has_trouble_with"},
	"plan":    {"plans", "plans_to", "wants", "wants_to"},
	"eat":     {"eats", "drinks", "likes", "prefers"},
}

// opposites are the families of which one means that the other is not so.
var opposites = map[string]string{"like": "dislike", "love": "dislike", "prefer": "dislike", "dislike": "like"}

// familyOf names the family of a word, typesOf the types that one means, askingFor the types that it asks for, in English,
// German, French, Spanish, Italian and Portuguese, and denies has the words that deny.
var (
	familyOf  = indexOf("family", func(family string) string { return family })
	typesOf   = indexOf("type", oneType)
	askingFor = indexOf("asking", oneType)
	denies    = indexOf("denying", func(string) bool { return true })
)

func oneType(name string) []Type { return []Type{Type(name)} }

// indexOf returns the meaning of each word in the sections of a kind.
func indexOf[V any](kind string, value func(name string) V) map[string]V {
	index := map[string]V{}
	for _, name := range lang.Names(kind + " ") {
		for _, section := range lang.Each(name) {
			for _, word := range section.Words() {
				index[word] = value(strings.TrimPrefix(name, kind+" "))
			}
		}
	}
	return index
}
