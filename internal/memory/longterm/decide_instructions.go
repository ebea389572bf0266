package longterm

import (
	_ "embed" // the instructions
	"strings"
)

// DecideRef names the version of the instructions in the ledger. It changes with every change of their text.
const DecideRef = "consolidate@1"

//go:embed instructions/consolidate.md
var decideInstructions string

// DecideInstructions returns the instructions of a consolidation.
func DecideInstructions() string { return strings.TrimSpace(decideInstructions) }

// DecideSchemaName is the name of the answer's schema.
const DecideSchemaName = "decisions"

// DecideSchema returns the JSON schema of the answer, in the strict form that OpenAI takes.
func DecideSchema() map[string]any {
	text := map[string]any{"type": "string"}
	textOrNull := map[string]any{"type": []string{"string", "null"}}
	decision := Object(map[string]any{
		"candidate": text,
		"action":    map[string]any{"type": "string", "enum": []string{"ADD", "UPDATE", "DELETE", "NOOP"}},
		"memory":    textOrNull,
		"merged":    textOrNull,
		"reason":    text,
	}, "candidate", "action", "memory", "merged", "reason")
	return Object(map[string]any{"decisions": map[string]any{"type": "array", "items": decision}}, "decisions")
}
