package graph

import (
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

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

// familyOf names the family of a word, typesOf the types that one means, askingFor those that it asks for, in English,
// German, French, Spanish, Italian and Portuguese, and denies has the words that deny.
var (
	familyOf  = indexOf("family", func(family string) string { return family })
	typesOf   = indexOf("type", oneType)
	askingFor = indexOf("asking", oneType)
	denies    = indexOf("denying", func(string) bool { return true })
)

func oneType(name string) []Type { return []Type{Type(name)} }

// indexOf returns what each word of the sections of a kind stands for.
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
