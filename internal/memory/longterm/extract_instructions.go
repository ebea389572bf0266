package longterm

import (
	_ "embed" // the instructions
	"strings"
)

// ExtractRef names the version of the instructions in the ledger. It changes with every change of their text.
const ExtractRef = "extract@3"

//go:embed instructions/extract.md
var extractInstructions string

// ExtractInstructions returns the instructions of an extraction.
func ExtractInstructions() string { return strings.TrimSpace(extractInstructions) }

// ExtractSchemaName is the name of the answer's schema.
const ExtractSchemaName = "extracted_facts"

// ExtractSchema returns the JSON schema of the answer, in the strict form that OpenAI takes.
func ExtractSchema() map[string]any {
	text := map[string]any{"type": "string"}
	textOrNull := map[string]any{"type": []string{"string", "null"}}
	entity := Object(map[string]any{"name": text, "type": oneOf(EntityTypes)}, "name", "type")
	relationship := Object(map[string]any{"source": text, "relationship": text, "target": text}, "source", "relationship", "target")
	fact := Object(map[string]any{
		"fact":          text,
		"type":          oneOf(types),
		"confidence":    map[string]any{"type": "number"},
		"horizon":       oneOf(horizons),
		"durable":       map[string]any{"type": "boolean"},
		"evidence":      listOf(text),
		"quote":         text,
		"valid_from":    textOrNull,
		"valid_to":      textOrNull,
		"replaces":      textOrNull,
		"entities":      listOf(entity),
		"relationships": listOf(relationship),
	}, "fact", "type", "confidence", "horizon", "durable", "evidence", "quote", "valid_from", "valid_to", "replaces", "entities", "relationships")
	return Object(map[string]any{"facts": listOf(fact)}, "facts")
}

// Object returns the schema of an object that has exactly these properties, in the order of their names.
func Object(properties map[string]any, names ...string) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "required": names, "additionalProperties": false}
}

func listOf(schema map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": schema}
}

func oneOf(values []string) map[string]any {
	return map[string]any{"type": "string", "enum": values}
}

var (
	types    = []string{"preference", "fact", "pattern", "context"}
	horizons = []string{horizonLasting, horizonMonths, horizonMoment}
	// EntityTypes are the values of an entity's type.
	EntityTypes = []string{"person", "organization", "place", "project", "product", "tool", "concept", "condition", "event", "other"}
)

// How long a fact will matter.
const (
	horizonLasting = "lasting"
	horizonMonths  = "months"
	horizonMoment  = "moment"
)
