package graph

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// InstructionsVersion is the version of the instructions for entities. It has to change with every change of their text.
const InstructionsVersion = "1"

//go:embed instructions/entities.md
var instructions string

// Instructions returns the instructions for entities, and why a first answer was refused, if it was.
func Instructions(refused error) string {
	if refused == nil {
		return strings.TrimSpace(instructions)
	}
	return strings.TrimSpace(instructions) + "\n\nYour first answer was refused: " + refused.Error() + ". Answer with the JSON alone."
}

// Memory is a memory that the graph has not looked at.
type Memory struct {
	ID uuid.UUID
	// Version tells whether it is still the same when the answer is there.
	Version int
	Content string
}

// Input writes memories for the model.
func Input(memories []Memory) string {
	var b strings.Builder
	b.WriteString("FACTS")
	for n, memory := range memories {
		fmt.Fprintf(&b, "\nM%d: %s", n+1, text.OneLine(memory.Content))
	}
	return b.String()
}

// SchemaName is the name of Schema.
const SchemaName = "entities"

// Schema returns the JSON schema of an answer.
func Schema() map[string]any {
	word := map[string]any{"type": "string"}
	return object(map[string]any{
		"entities":      list(map[string]any{"memory": word, "name": word, "type": map[string]any{"type": "string", "enum": Types}}),
		"relationships": list(map[string]any{"memory": word, "source": word, "relationship": word, "target": word}),
	})
}

func list(properties map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": object(properties)}
}

func object(properties map[string]any) map[string]any {
	return map[string]any{
		"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(properties)), "additionalProperties": false,
	}
}

// answered is an answer of the model. Memory may be missing, as in an answer of a server that knows no schemas: then
// it counts for each memory that has the names.
type answered struct {
	Entities *[]struct {
		Memory string
		Name   string
		Type   string
	}
	Relationships *[]struct {
		Memory                       string
		Source, Relationship, Target string
	}
}

var (
	errNoJSON = errors.New("it is no JSON object with the lists entities and relationships")
	errTail   = errors.New("something follows the JSON object")
)

// ParseAnswer reads an answer: the findings of each memory, in their order. Names that are not in a memory's words are left out.
// The error, for the model, is that the answer has another form.
func ParseAnswer(answer string, memories []Memory) ([]Found, error) {
	var said answered
	decoder := json.NewDecoder(strings.NewReader(answer))
	if err := decoder.Decode(&said); err != nil || said.Entities == nil || said.Relationships == nil {
		return nil, errNoJSON
	}
	if decoder.More() {
		return nil, errTail
	}
	found := make([]Found, len(memories))
	for n, memory := range memories {
		alias, words := fmt.Sprintf("M%d", n+1), folded(memory.Content)
		found[n] = Found{Entities: []Entity{}, Relationships: []Relationship{}}
		for _, e := range *said.Entities {
			if (e.Memory == "" || e.Memory == alias) && !IsUser(e.Name) && has(words, memory.Content, e.Name) {
				found[n].Entities = append(found[n].Entities, Entity{Name: strings.TrimSpace(e.Name), Type: Known(e.Type)})
			}
		}
		for _, r := range *said.Relationships {
			if (r.Memory == "" || r.Memory == alias) && Verb(r.Relationship) != "" && has(words, memory.Content, r.Source) && has(words, memory.Content, r.Target) {
				found[n].Relationships = append(found[n].Relationships, Relationship{
					Source: strings.TrimSpace(r.Source), Relationship: Verb(r.Relationship), Target: strings.TrimSpace(r.Target),
				})
			}
		}
	}
	return found, nil
}

// has reports whether a name is the user's or is among the words of a memory: of its own, or, where words are not spaced,
// as a part. throughline.has_name decides in the end.
func has(words, content, name string) bool {
	plain := folded(name)
	switch {
	case utf8.RuneCountInString(name) > MaxName || strings.TrimSpace(plain) == "":
		return false
	case IsUser(name), strings.Contains(words, plain):
		return true
	}
	return strings.ContainsFunc(name, text.Unspaced) && strings.Contains(strings.ToLower(content), strings.ToLower(strings.TrimSpace(name)))
}
