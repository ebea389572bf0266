// Package graph holds the rules of the graph of what a user's memories are about: the types of entities, the names of
// relationships, what a question such as "what tools do I like" looks for, how a model is asked for the entities of
// memories and what of its answer counts, and how a graph is drawn. All but [Engine] are pure functions. The rows are
// written by throughline.link_memory, which says what becomes of them when their memory changes.
package graph

import (
	"fmt"
	"slices"
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

// Found are the entities and relationships that a model found in a memory. Its JSON is that of the arguments of throughline.link_memory.
type Found struct {
	Entities      []Entity       `json:"entities"`
	Relationships []Relationship `json:"relationships"`
}

// Entity is something that a memory is about.
type Entity struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

// Relationship is a statement of a memory about two entities.
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
	if t := Type(strings.ToLower(strings.TrimSpace(name))); slices.Contains(Types, t) {
		return t
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

// folded writes a text in small letters, with one space for each run of characters that are no letters or digits, and one at
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

// Mermaid draws a graph as a flowchart of Mermaid: a line for a valid relationship, dots for a past one.
func Mermaid(a Answer) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	nodes := nodesOf(a)
	for n, name := range nodes.names {
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", n+1, mermaidText(name))
	}
	for _, edge := range a.Relationships {
		arrow := "-->"
		if !edge.Valid {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  n%d %s|\"%s\"| n%d\n", nodes.number(edge.Source), arrow, mermaidText(edge.Relationship), nodes.number(edge.Target))
	}
	return b.String()
}

// mermaidText writes everything as a character code that is not plainly a letter, a digit or a space, so that nothing in
// a name ends its quotes, or is read as a directive, markup or a link.
func mermaidText(name string) string {
	var b strings.Builder
	for _, r := range label(name) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune(" _-.,'", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// DOT draws a graph in the language of Graphviz: a line for a valid relationship, dashes for a past one.
func DOT(a Answer) string {
	var b strings.Builder
	b.WriteString("digraph memories {\n  rankdir=LR;\n  node [shape=box];\n")
	nodes := nodesOf(a)
	for n, name := range nodes.names {
		fmt.Fprintf(&b, "  n%d [label=\"%s\"];\n", n+1, dotText(name))
	}
	for _, edge := range a.Relationships {
		style := ""
		if !edge.Valid {
			style = ", style=dashed"
		}
		fmt.Fprintf(&b, "  n%d -> n%d [label=\"%s\"%s];\n", nodes.number(edge.Source), nodes.number(edge.Target), dotText(edge.Relationship), style)
	}
	b.WriteString("}\n")
	return b.String()
}

// dotText escapes the characters that end a quoted string, and the ampersand, which begins an HTML entity.
func dotText(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;").Replace(label(name))
}

// label is a name on one line, without characters that do not show.
func label(name string) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, name)
	return strings.Join(strings.Fields(visible), " ")
}

// numbered numbers the entities of an answer.
type numbered struct {
	names   []string
	numbers map[string]int
}

func nodesOf(a Answer) numbered {
	nodes := numbered{numbers: map[string]int{}}
	for _, node := range a.Entities {
		nodes.number(node.Name)
	}
	for _, edge := range a.Relationships { // whose entities are all there, unless the answer was cut
		nodes.number(edge.Source)
		nodes.number(edge.Target)
	}
	return nodes
}

func (n *numbered) number(name string) int {
	if n.numbers[name] == 0 {
		n.names = append(n.names, name)
		n.numbers[name] = len(n.names)
	}
	return n.numbers[name]
}
