package longterm

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

// ParseFacts reads an answer. An answer that is not of the form at all is an error whose text tells the model so. A fact with
// a field of the wrong kind is returned nevertheless: Gate drops it, and it alone.
func ParseFacts(answer string) ([]Finding, error) {
	items, err := Items(answer, "facts", mostFacts, errNoJSON, errNoFacts)
	if err != nil {
		return nil, err
	}
	facts := make([]Finding, 0, len(items))
	for _, item := range items {
		var f Finding
		if err := json.Unmarshal(item, &f); err != nil || string(item) == "null" {
			f = Finding{unreadable: true}
		}
		facts = append(facts, f)
	}
	return facts, nil
}

// Items returns the first elements of the list that an answer is, one JSON object with that member. It returns noJSON for an
// answer that is no such object, and noList for one without the list.
func Items(answer, list string, most int, noJSON, noList error) ([]json.RawMessage, error) {
	raw := []byte(withoutFence(answer))
	var top map[string]json.RawMessage
	if memory.JSONDepth(raw) > memory.MaxMetadataDepth || json.Unmarshal(raw, &top) != nil {
		return nil, noJSON
	}
	var items []json.RawMessage
	if err := json.Unmarshal(top[list], &items); err != nil || items == nil {
		return nil, noList
	}
	return items[:min(len(items), most)], nil
}

// withoutFence returns what stands within a code fence, which models put around JSON where no schema is enforced.
func withoutFence(answer string) string {
	answer = strings.TrimSpace(answer)
	inner, fenced := strings.CutPrefix(answer, "```")
	if !fenced {
		return answer
	}
	inner = strings.TrimPrefix(inner, "json")
	inner, _, _ = strings.Cut(inner, "```")
	return strings.TrimSpace(inner)
}
