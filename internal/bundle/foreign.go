package bundle

import (
	"encoding/json"

	"github.com/arcoscribe/throughline/internal/memory"
)

// ours are the keys of a reply's metadata that the server itself writes and reads, each with the character that its
// values begin with.
var ours = map[string]byte{
	"model_variant": '"', "model": '"', "response_id": '"', "finish_reason": '"', "usage": '{', "memory": '{', "failure": '{',
}

// keyForeign is where a reply's metadata keeps what a file has under our keys and is not of our making.
const keyForeign = "foreign"

// setAside moves such values of a reply under keyForeign. It leaves metadata that is no object to the check that follows.
func setAside(m *Message) error {
	var all map[string]json.RawMessage
	if m.Role == string(memory.RoleAssistant) && !absent(m.Metadata) {
		_ = json.Unmarshal(m.Metadata, &all) // see above
	}
	foreign := map[string]json.RawMessage{}
	for key, begin := range ours {
		if value := all[key]; !absent(value) && value[0] != begin {
			foreign[key] = value
			delete(all, key)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	if before, twice := all[keyForeign]; twice {
		foreign[keyForeign] = before
	}
	aside, err := marshal(foreign)
	if err != nil {
		return err
	}
	all[keyForeign] = aside
	m.Metadata, err = marshal(all)
	return err
}
