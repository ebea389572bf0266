package extract

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
)

// mostFacts is how many facts of one answer are looked at. Whoever finds more in six turns is not selective.
const mostFacts = 60

// The errors of Parse. Their text goes back to the model: it holds nothing of the answer.
var (
	errNoJSON  = errors.New(`The previous answer could not be read as JSON. Answer with one JSON object of the form {"facts": [...]} and nothing else.`)
	errNoFacts = errors.New(`The previous answer had no list "facts". Answer with one JSON object of the form {"facts": [...]}; the list may be empty.`)
)

// Parse reads an answer. An answer that is not of the form at all is an error whose text tells the model so. A fact with
// a field of the wrong kind is returned nevertheless: Gate drops it, and it alone.
func Parse(answer string) ([]Fact, error) {
	raw := []byte(WithoutFence(answer))
	if memory.JSONDepth(raw) > memory.MaxMetadataDepth {
		return nil, errNoJSON
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, errNoJSON
	}
	var items []json.RawMessage
	if err := json.Unmarshal(top["facts"], &items); err != nil || items == nil {
		return nil, errNoFacts
	}
	facts := make([]Fact, 0, min(len(items), mostFacts))
	for _, item := range items[:min(len(items), mostFacts)] {
		var f Fact
		if err := json.Unmarshal(item, &f); err != nil || string(item) == "null" {
			f = Fact{unreadable: true}
		}
		facts = append(facts, f)
	}
	return facts, nil
}

// WithoutFence returns what stands within a code fence, which models put around JSON where no schema is enforced.
func WithoutFence(answer string) string {
	answer = strings.TrimSpace(answer)
	inner, fenced := strings.CutPrefix(answer, "```")
	if !fenced {
		return answer
	}
	inner = strings.TrimPrefix(inner, "json")
	inner, _, _ = strings.Cut(inner, "```")
	return strings.TrimSpace(inner)
}
