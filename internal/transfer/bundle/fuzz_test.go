package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/fault"
)

// checkRead reads anything: it ends in order or with a fault that names a line, and whatever record it gives can be
// stored.
func checkRead(t *testing.T, text []byte) {
	t.Helper()
	_, records, err := Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		checkRefusal(t, text, err)
		return
	}
	open, messages := false, 0
	for record, err := range records {
		switch {
		case err != nil:
			checkRefusal(t, text, err)
			return
		case record.Chat != nil:
			open, messages = true, 0
			checkStorable(t, record.Chat.Title, record.Chat.Metadata)
		case record.Message != nil:
			messages++
			checkStorable(t, record.Message.Content, record.Message.Metadata)
			checkStorable(t, deref(record.Message.Name), record.Message.ToolCalls)
		case record.End != nil:
			assert.Truef(t, open && record.End.Messages == messages,
				"an end of %d messages after %d", record.End.Messages, messages)
			open = false
		}
	}
	assert.False(t, open, "the file ended within a chat")
}

func checkRefusal(t *testing.T, text []byte, err error) {
	t.Helper()
	known, ok := errors.AsType[*fault.Error](err)
	line, _ := known.Details["line"].(int)
	assert.Truef(t, ok && known.Code == fault.ImportInvalid && known.Details["reason"] != "" && line >= 1 && line <= bytes.Count(text, []byte("\n"))+1,
		"%v %v", err, known.Details)
}

func checkStorable(t *testing.T, text string, raw json.RawMessage) {
	t.Helper()
	assert.Truef(t, utf8.ValidString(text) && !strings.Contains(text, "\x00"), "%q cannot be stored", text)
	assert.Truef(t, raw == nil || (json.Valid(raw) && !holdsNUL(raw)), "%q cannot be stored", raw)
}

// Whatever a file is, of whichever format its beginning shows.
func FuzzOpen(f *testing.F) {
	for _, text := range []string{
		sampleOf(f, NewLines), sampleOf(f, NewObject), sampleAccount(f), twoConversations, "[" + twoConversations,
		`{"role":"user","content":"x","created_at":"2024-02-03T04:05:06Z","tool_calls":[{"a":1e5}]}` + "\n{\"role\":\"user\",\"content\":\"\\ud800\"}",
		"", "\ufeff", "[", "{", "[{}]", `{"type":"bundle"}`, "\xff",
	} {
		f.Add([]byte(text))
		f.Add([]byte(text[:len(text)/2]))
		f.Add([]byte(strings.ReplaceAll(text, `"`, `\"`)))
	}
	f.Fuzz(checkRead)
}
