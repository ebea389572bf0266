package consolidate

import (
	_ "embed" // the instructions
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/extract"
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
	decision := extract.Object(map[string]any{
		"candidate": text,
		"action":    map[string]any{"type": "string", "enum": []string{"ADD", "UPDATE", "DELETE", "NOOP"}},
		"memory":    textOrNull,
		"merged":    textOrNull,
		"reason":    text,
	}, "candidate", "action", "memory", "merged", "reason")
	return extract.Object(map[string]any{"decisions": map[string]any{"type": "array", "items": decision}}, "decisions")
}
