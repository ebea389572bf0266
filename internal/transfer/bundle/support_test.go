package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

var exportedAt = time.Date(2026, 11, 21, 15, 4, 5, 0, time.UTC)

// read gives all records of a file, and the error that ended it.
func read(text string) (format Format, records []Record, err error) {
	format, all, err := Open(strings.NewReader(text), int64(len(text)))
	if err != nil {
		return "", nil, err
	}
	for record, err := range all {
		if err != nil {
			return format, records, err
		}
		records = append(records, record)
	}
	return format, records, nil
}

func mustRead(t *testing.T, text string) (Format, []Record) {
	format, records, err := read(text)
	require.Truef(t, err == nil, "%v in %q", err, text)
	return format, records
}

func messagesOf(records []Record) []Message {
	var messages []Message
	for _, record := range records {
		if record.Message != nil {
			messages = append(messages, *record.Message)
		}
	}
	return messages
}

func chatsOf(records []Record) []Chat {
	var chats []Chat
	for _, record := range records {
		if record.Chat != nil {
			chats = append(chats, *record.Chat)
		}
	}
	return chats
}

// refused is what reading a file ends with: a refusal, or nothing.
func refused(t *testing.T, text string) string {
	if _, _, err := read(text); err != nil {
		return refusal(t, err)
	}
	return "nothing"
}

// refusal is what a file was refused for: "reason@line", with "#conversation" where there is one.
func refusal(t *testing.T, err error) string {
	known, ok := errors.AsType[*fault.Error](err)
	require.Truef(t, ok && known.Code == fault.ImportInvalid, "%v is no import_invalid", err)
	assert.Truef(t, strings.HasPrefix(known.Message, fmt.Sprintf("Line %d", known.Details["line"])),
		"the sentence does not begin with the line: %q", known.Message)
	said := fmt.Sprintf("%v@%v", known.Details["reason"], known.Details["line"])
	if conversation, told := known.Details["conversation"]; told {
		said += fmt.Sprintf("#%v", conversation)
	}
	return said
}

const (
	idChat  = "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"
	idOther = "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d32"
	idAsk   = "0198a1f2-7c12-7b60-8f0d-2a7c9e4b1f52"
	idReply = "0198a1f2-7c13-7aa9-b3c8-6d1e0f9a8b73"
)

func sum(content string) string {
	hash := sha256.Sum256([]byte(content))
	return hex.EncodeToString(hash[:])
}

// sample is a chat with something in every member.
func sample() (Chat, File, []Message, Revision) {
	at := func(second int) time.Time { return time.Date(2026, 11, 20, 10, 0, second, 123456000, time.UTC) }
	file := File{SHA256: sum("package main\n"), Content: "package main\n"}
	chat := Chat{
		ID: idChat, Title: "Scales <&> “arpeggios”", SystemPrompt: new("Be kind."), Metadata: []byte(`{"app":{"big":12345678901234567890,"n":1.50}}`),
		Tags: []string{"cello", "b"}, MemoryStrategy: "hybrid", TTLHours: new(3), MaxTurns: new(50), ToolName: new("debug"),
		CreatedAt: at(0), UpdatedAt: at(9), LastMessageAt: new(at(2)),
	}
	messages := []Message{
		{
			ID: idAsk, ChatID: idChat, Seq: 1, Role: "user", Content: "line\n\"two\"\u2028 👩\u200d👧", Status: "complete", TokenCount: 7, Pinned: true,
			Importance: new(float32(0.9)), Name: new("ann"), ToolName: new("debug"), Metadata: []byte(`{}`),
			Files: []FileRef{{"main.go", file.SHA256}, {"copy.go", file.SHA256}}, CreatedAt: at(1), UpdatedAt: at(1),
		},
		{
			ID: idReply, ChatID: idChat, Seq: 4, Role: "assistant", Content: "", Status: "interrupted", ReplyTo: new(idAsk), ParentID: new(idAsk),
			SupersededBy: new(idOther),
			ToolCalls:    []byte(`[{"function":{"arguments":"{}","name":"f"},"id":"call_1"}]`), Metadata: []byte(`{"model_variant":"arco"}`),
			Files: []FileRef{}, CreatedAt: at(2), UpdatedAt: at(3),
		},
		{
			ID: idOther, ChatID: idChat, Seq: 5, Role: "tool", Content: "42", Status: "complete", ParentID: new(idAsk), MovedFrom: new(idChat),
			ToolCallID: new("call_1"), Metadata: []byte(`{}`),
			Files: []FileRef{}, CreatedAt: at(2), UpdatedAt: at(3),
		},
	}
	revision := Revision{
		Version: 1, Kind: "fold", SeqFrom: 1, SeqTo: 4, Turns: 1, GlobalSummary: new("They talked."), UndoneBy: new(int64(2)), InputTokens: 9, OutputTokens: 3,
		PromptMode: "inline",
		PromptRef:  "built-in@1", Model: "m", DurationMS: 12, InputSHA256: "ab", Details: []byte(`{"calls":1}`), CreatedAt: at(4),
	}
	return chat, file, messages, revision
}

// written is a chat in one of our formats.
func written(t testing.TB, encoder func(io.Writer) *Bundle, chat Chat, records ...Record) string {
	var out bytes.Buffer
	b := encoder(&out)
	err := b.Begin(exportedAt, chat)
	for _, record := range records {
		err = errors.Join(err, b.Write(record))
	}
	require.NoError(t, errors.Join(err, b.End()))
	return out.String()
}

// sampleOf is the sample in one of our formats.
func sampleOf(t testing.TB, encoder func(io.Writer) *Bundle) string {
	chat, file, messages, revision := sample()
	return written(t, encoder, chat, Record{File: &file}, Record{Message: &messages[0]}, Record{Message: &messages[1]}, Record{Message: &messages[2]},
		Record{Revision: &revision})
}

// withRecord is the sample without files, with one more record of another kind.
func withRecord(t testing.TB, encoder func(io.Writer) *Bundle, more Record) string {
	chat, _, messages, revision := sample()
	messages[0].Files = []FileRef{}
	return written(t, encoder, chat, Record{Message: &messages[0]}, Record{Message: &messages[1]}, Record{Message: &messages[2]}, more,
		Record{Revision: &revision})
}

// refusals are files that are refused, with the reason and the line.
type refusals map[string]struct{ text, want string }

func (r refusals) check(t *testing.T) {
	for name, c := range r {
		assert.Equalf(t, c.want, refused(t, c.text), "%s", name)
	}
}

// changes are refusals of a sample with one thing changed.
type changes map[string]struct{ from, to, want string }

func (c changes) check(t *testing.T, whole string) {
	for name, change := range c {
		assert.Equalf(t, change.want, refused(t, replaced(t, whole, change.from, change.to)), "%s", name)
	}
}

// replaced is the sample with one thing changed.
func replaced(t *testing.T, text, from, to string) string {
	require.Containsf(t, text, from, "%q is not in the sample", from)
	return strings.Replace(text, from, to, 1)
}
