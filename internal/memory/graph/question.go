package graph

import (
	"slices"
	"strings"
)

// Question is what words such as "what tools do I like" ask for.
type Question struct {
	// Relationships are those of the families that were named; empty for any.
	Relationships []string
	// Types are those that were named; empty for any.
	Types []Type
	// Words are the others. They may name entities, of which the store knows.
	Words string
}

// ParseQuestion reads a question. Who and where say a type only where no family does: what somebody works for is no place.
func ParseQuestion(question string) Question {
	q := Question{Relationships: []string{}}
	var asked []Type
	var others []string
	for word := range strings.FieldsSeq(question) {
		parts := strings.Fields(folded(word)) // j'aime
		plain := ""
		if len(parts) > 0 {
			plain = parts[len(parts)-1]
		}
		family, types, asking := familyOf[plain], typesOf[plain], askingFor[plain]
		if family == "" && len(types)+len(asking) == 0 {
			others = append(others, word)
		}
		q.Relationships = adding(q.Relationships, families[family])
		q.Types, asked = adding(q.Types, types), adding(asked, asking)
	}
	if !q.Understood() {
		q.Types = asked
	}
	q.Words = strings.Join(others, " ")
	return q
}

func adding[T comparable](all, more []T) []T {
	for _, one := range more {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// Understood reports whether the question names a family or a type.
func (q Question) Understood() bool { return len(q.Relationships)+len(q.Types) > 0 }
