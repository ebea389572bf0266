package jobs

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
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
		var args Args
		if json.Unmarshal(raw, &args) != nil {
			return
		}
		written, err := json.Marshal(Args{work.Job{Name: work.FoldBrief, ChatID: args.ChatID, Priority: work.Later, At: time.Now()}})
		want := `{}` // which is no chat
		if args.ChatID != uuid.Nil {
			want = `{"chat_id":"` + args.ChatID.String() + `"}`
		}
		require.Truef(t, err == nil && string(written) == want, "%q became %s, %v", raw, written, err)
	})
}
