package consolidate

import (
	_ "embed" // the instructions
	"strings"
)

// Ref names the version of the instructions in the ledger. It changes with every change of their text.
const Ref = "consolidate@1"

//go:embed instructions/consolidate.md
var instructions string

// Instructions returns the instructions of a consolidation.
func Instructions() string { return strings.TrimSpace(instructions) }

// SchemaName is the name of the answer's schema.
const SchemaName = "decisions"

// Schema returns the JSON schema of the answer, in the strict form that OpenAI takes.
func Schema() map[string]any {
	text := map[string]any{"type": "string"}
	textOrNull := map[string]any{"type": []string{"string", "null"}}
	decision := object(map[string]any{
		"candidate": text,
		"action":    map[string]any{"type": "string", "enum": []string{"ADD", "UPDATE", "DELETE", "NOOP"}},
		"memory":    textOrNull,
		"merged":    textOrNull,
		"reason":    text,
	}, "candidate", "action", "memory", "merged", "reason")
	return object(map[string]any{"decisions": map[string]any{"type": "array", "items": decision}}, "decisions")
}

// object returns the schema of an object that has exactly these properties.
func object(properties map[string]any, names ...string) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "required": names, "additionalProperties": false}
}
