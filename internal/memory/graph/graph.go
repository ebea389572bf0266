// Package graph holds the rules of the graph of what a user's memories are about: the types of entities, the names of
// relationships, what a question such as "what tools do I like" looks for, how a model is asked for the entities of
// memories and what of its answer counts, and how a graph is drawn. All but [Engine] are pure functions. The rows are
// written by throughline.link_memory, which says what becomes of them when their memory changes.
package graph

import (
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
)

// Type says what kind of thing an entity is: the value of memory_entities.entity_type.
type Type string

// The types.
const (
	Person       Type = "person"
	Organization Type = "organization"
	Place        Type = "place"
	Project      Type = "project"
	Product      Type = "product"
	Tool         Type = "tool"
	Concept      Type = "concept"
	Condition    Type = "condition"
	Event        Type = "event"
	Other        Type = "other"
)

// Types are all types.
var Types = []Type{Person, Organization, Place, Project, Product, Tool, Concept, Condition, Event, Other}

// Bounds of names, in characters.
const (
	MaxName         = 100
	MaxRelationship = 40
)

// Found is what a model found in memories. Its JSON is that of the arguments of throughline.link_memory.
type Found struct {
	Entities      []Entity       `json:"entities"`
	Relationships []Relationship `json:"relationships"`
}

// Entity is something that a memory is about.
type Entity struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

// Relationship is what a memory says of two entities.
type Relationship struct {
	Source       string `json:"source"`
	Relationship string `json:"relationship"` // as Verb writes it
	Target       string `json:"target"`
}

// Answer is a part of a user's graph.
type Answer struct {
	_             struct{} `description:"A part of the user's graph."`
	Entities      []Node   `json:"entities" nullable:"false" doc:"entities"`
	Relationships []Edge   `json:"relationships" nullable:"false" description:"What memories say of them. What is true comes first."`
}

// Node is an entity of an answer.
type Node struct {
	Name     string `json:"name"`
	Type     Type   `json:"type" enum:"person,organization,place,project,product,tool,concept,condition,event,other"`
	Mentions int    `json:"mentions" description:"How many memories mention it."`
}

// Edge is a relationship of an answer.
type Edge struct {
	Source       string     `json:"source"`
	Relationship string     `json:"relationship" description:"In small letters, with underscores: lives_in."`
	Target       string     `json:"target"`
	Valid        bool       `json:"valid" description:"Whether it is true; with as_of, whether it was then."`
	ValidFrom    *time.Time `json:"valid_from" description:"null where nobody said since when."`
	ValidTo      *time.Time `json:"valid_to" description:"null where it is still true."`
	MemoryID     uuid.UUID  `json:"memory_id" description:"A memory that says so."`
}

// Known returns the type of that name, in any case, and Other for a name that is none.
func Known(name string) Type {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, t := range Types {
		if string(t) == name {
			return t
		}
	}
	return Other
}

// Verb returns the name of a relationship as it is stored: small letters and digits with single underscores between them,
// at most MaxRelationship characters. "Lives in" becomes lives_in. It returns "" for a name without letters and digits.
func Verb(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	verb := []rune(strings.Join(words, "_"))
	return strings.TrimRight(string(verb[:min(len(verb), MaxRelationship)]), "_")
}

// IsUser reports whether a name means the user: throughline.is_user_name in Go; a test compares the two.
func IsUser(name string) bool {
	switch strings.TrimSpace(folded(name)) {
	case "user", "the user", "i", "me", "myself", "nutzer", "der nutzer", "nutzerin", "die nutzerin", "utilisateur", "l utilisateur", "utilisatrice",
		"l utilisatrice", "usuario", "el usuario", "usuaria", "la usuaria", "usuário", "o usuário", "usuária", "a usuária", "utente", "l utente":
		return true
	}
	return false
}

// folded writes a text in small letters, with one space for each run of what is neither letter nor digit, and one at
// either end: so that whole words can be looked for.
func folded(text string) string {
	var b strings.Builder
	b.WriteByte(' ')
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			b.WriteRune(r)
		case b.String()[b.Len()-1] != ' ':
			b.WriteByte(' ')
		}
	}
	return strings.TrimRight(b.String(), " ") + " "
}
