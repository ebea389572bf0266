package longterm

import (
	_ "embed" // the instructions
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/work"
)

// form is a question to the model. Its answers are one JSON object with a list.
type form struct {
	purpose string
	work.Instructions

	schemaName string
	list       string         // the member of an answer that is the list
	item       map[string]any // the schema of its elements, in the strict form that OpenAI takes
	most       int            // how many elements of an answer are read
	hint       string         // what a model is told that has left the list out
}

var (
	//go:embed instructions/extract.md
	extractInstructions string
	//go:embed instructions/consolidate.md
	consolidateInstructions string
)

// The two questions. The ref of one changes with every change of its instructions.
var (
	extracting = form{
		purpose: "extract", Instructions: work.Instructions{Ref: "extract@3", Text: strings.TrimSpace(extractInstructions)},
		schemaName: "extracted_facts", list: "facts", most: 60, hint: "; the list may be empty.", // six turns hold fewer
		item: object(
			property{"fact", aText}, property{"type", oneOf(types)}, property{"confidence", schema{"type": "number"}}, property{"horizon", oneOf(horizons)},
			property{"durable", schema{"type": "boolean"}}, property{"evidence", listOf(aText)}, property{"quote", aText},
			property{"valid_from", textOrNull}, property{"valid_to", textOrNull}, property{"replaces", textOrNull},
			property{"entities", listOf(object(property{"name", aText}, property{"type", oneOf(entityTypes)}))},
			property{"relationships", listOf(object(property{"source", aText}, property{"relationship", aText}, property{"target", aText}))},
		),
	}
	consolidating = form{
		purpose: "consolidate", Instructions: work.Instructions{Ref: "consolidate@1", Text: strings.TrimSpace(consolidateInstructions)},
		schemaName: "decisions", list: "decisions", most: 200, hint: ", one decision for each new fact.", // there are fewer candidates
		item: object(
			property{"candidate", aText}, property{"action", oneOf([]string{"ADD", "UPDATE", "DELETE", "NOOP"})},
			property{"memory", textOrNull}, property{"merged", textOrNull}, property{"reason", aText},
		),
	}
)

var (
	types    = []string{"preference", "fact", "pattern", "context"}
	horizons = []string{"lasting", "months", horizonMoment}
	// entityTypes are the values of an entity's type.
	entityTypes = []string{"person", "organization", "place", "project", "product", "tool", "concept", "condition", "event", "other"}
)

// horizonMoment is the horizon of a fact that will not matter tomorrow.
const horizonMoment = "moment"

type schema = map[string]any

var aText, textOrNull = schema{"type": "string"}, schema{"type": []string{"string", "null"}}

func (f form) schema() schema { return object(property{f.list, listOf(f.item)}) }

type property struct {
	name   string
	schema schema
}

// object returns the schema of an object that has exactly these properties.
func object(all ...property) schema {
	properties, names := schema{}, make([]string, len(all))
	for n, p := range all {
		properties[p.name], names[n] = p.schema, p.name
	}
	return schema{"type": "object", "properties": properties, "required": names, "additionalProperties": false}
}

func listOf(items schema) schema { return schema{"type": "array", "items": items} }

func oneOf(values []string) schema { return schema{"type": "string", "enum": values} }

// read returns the first elements of an answer's list. The text of an error is for the model: it holds nothing of the answer.
func (f form) read(answer string) ([]json.RawMessage, error) {
	raw := []byte(withoutFence(answer))
	wanted := fmt.Sprintf(`Answer with one JSON object of the form {"%s": [...]}`, f.list)
	var top map[string]json.RawMessage
	if memory.JSONDepth(raw) > memory.MaxMetadataDepth || json.Unmarshal(raw, &top) != nil {
		return nil, errors.New("The previous answer could not be read as JSON. " + wanted + " and nothing else.")
	}
	var items []json.RawMessage
	if err := json.Unmarshal(top[f.list], &items); err != nil || items == nil {
		return nil, fmt.Errorf(`The previous answer had no list "%s". %s%s`, f.list, wanted, f.hint)
	}
	return items[:min(len(items), f.most)], nil
}

// withoutFence returns what stands within a code fence, which models put around JSON where no schema is enforced.
func withoutFence(answer string) string {
	answer = strings.TrimSpace(answer)
	inner, fenced := strings.CutPrefix(answer, "```")
	if !fenced {
		return answer
	}
	inner, _, _ = strings.Cut(strings.TrimPrefix(inner, "json"), "```")
	return strings.TrimSpace(inner)
}

// ParseFacts reads the answer to an extraction. A fact with a field of the wrong kind is returned nevertheless: Gate drops
// it, and it alone.
func ParseFacts(answer string) ([]Finding, error) {
	items, err := extracting.read(answer)
	if err != nil {
		return nil, err
	}
	facts := make([]Finding, len(items))
	for n, item := range items {
		if err := json.Unmarshal(item, &facts[n]); err != nil || string(item) == "null" {
			facts[n] = Finding{unreadable: true}
		}
	}
	return facts, nil
}

// Answer is one decision as the model answers it.
type Answer struct {
	Candidate string `json:"candidate"`
	Action    string `json:"action"`
	Memory    string `json:"memory"`
	Merged    string `json:"merged"`
	Reason    string `json:"reason"` // not kept: it may hold words of a memory that is erased later
}

// ParseAnswers reads the answer to a consolidation. A decision with a field of the wrong kind is left out: Validate adds its
// candidate.
func ParseAnswers(answer string) ([]Answer, error) {
	items, err := consolidating.read(answer)
	if err != nil {
		return nil, err
	}
	answers := []Answer{}
	for _, item := range items {
		var a Answer
		if err := json.Unmarshal(item, &a); err == nil {
			answers = append(answers, a)
		}
	}
	return answers, nil
}
