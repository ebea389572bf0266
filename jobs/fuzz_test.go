package jobs

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
)

// Arguments are read from a table that people may change by hand. Anything but a chat's id is an error.
func FuzzArgs(f *testing.F) {
	id := uuid.New().String()
	for _, args := range []string{
		`{"chat_id":"` + id + `"}`, `{"chat_id":"` + id + `","content":"x"}`, `{"chat_id":null}`, `{"chat_id":7}`, `{"chat_id":"urn:uuid:` +
			id + `"}`, `{}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(args))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var fold FoldBrief
		var rebuild RebuildBrief
		err := json.Unmarshal(raw, &fold)
		if again := json.Unmarshal(raw, &rebuild); (err == nil) != (again == nil) || err == nil && rebuild.ChatID != fold.ChatID {
			t.Fatalf("%q is %v to the one and %v to the other", raw, err, again)
		}
		if err != nil {
			return
		}
		written, err := json.Marshal(fold)
		if want := `{"chat_id":"` + fold.ChatID.String() + `"}`; err != nil || string(written) != want {
			t.Fatalf("%q became %s, %v", raw, written, err)
		}
	})
}
