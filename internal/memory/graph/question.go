package graph

import (
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// Question is what words such as "what tools do I like" ask for.
type Question struct {
	// Relationships are those of the families that were named; empty for any. Of a family that is denied they are those of the
	// opposite ("what do I not like").
	Relationships []string
	// Verbs are what the other words may mean as a relationship, where no family was named ("what do I photograph"). They count
	// only if those words name no entity.
	Verbs []string
	// Types are those that were named; empty for any.
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

// relationshipsOf returns those of a family, or where it is denied, those of its opposite. Where there is none, what is denied
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

// verbsIn returns what some words of a question may be called as a relationship: those that say what it is about.
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

// Understood reports whether the question may be about the user where it names nobody: it names a family or a type, or has a
// word that may be a relationship.
func (q Question) Understood() bool { return len(q.Relationships)+len(q.Verbs)+len(q.Types) > 0 }
