package chat

import (
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

func TestMessageLimits(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("é", n) }
	for _, c := range []struct {
		name    string
		message Message
		wrong   []string
	}{
		{"one character", Message{Content: "x"}, nil},
		{"as long as may be", Message{Content: " " + long(MaxContent) + " "}, nil},
		{"everything at its limit", Message{Content: "x",
			Sources: slices.Repeat([]prompt.Source{{Content: long(MaxSourceContent), Title: long(2000), URL: long(2000)}}, MaxSources)}, nil},
		{"empty", Message{}, []string{"content"}},
		{"only spaces", Message{Content: " \u2003\n\t"}, []string{"content"}},
		{"too long", Message{Content: long(MaxContent + 1)}, []string{"content"}},
		{"NUL", Message{Content: "a\x00b"}, []string{"content"}},
		{"too many sources", Message{Content: "x", Sources: make([]prompt.Source, MaxSources+1)}, []string{"sources"}},
		{"a source too long", Message{Content: "x", Sources: []prompt.Source{{}, {Content: long(MaxSourceContent + 1)}}}, []string{"sources[1].content"}},
		{"a title too long", Message{Content: "x", Sources: []prompt.Source{{Title: long(2001)}}}, []string{"sources[0]"}},
		{"a URL too long", Message{Content: "x", Sources: []prompt.Source{{URL: long(2001)}}}, []string{"sources[0]"}},
		{"NUL in a value", Message{Content: "x", Metadata: map[string]any{"a": "b\x00"}}, []string{"metadata"}},
		{"NUL in a key", Message{Content: "x", Metadata: map[string]any{"a\x00": 1.0}}, []string{"metadata"}},
		{"NUL deep down", Message{Content: "x", Metadata: map[string]any{"a": []any{1.0, true, nil, map[string]any{"b": []any{"c", "\x00"}}}}}, []string{"metadata"}},
		{"NUL in a deep key", Message{Content: "x", Metadata: map[string]any{"a": []any{map[string]any{"\x00": nil}}}}, []string{"metadata"}},
		{"no NUL anywhere", Message{Content: "x", Metadata: map[string]any{"a": []any{1.0, true, nil, map[string]any{"b": `\u0000`}}}}, nil},
		{"all at once", Message{Sources: make([]prompt.Source, MaxSources+1), Metadata: map[string]any{"a": "\x00"}}, []string{"content", "metadata", "sources"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.message.normalize()
			if len(c.wrong) == 0 {
				assert.Truef(t, err == nil && c.message.Content == strings.TrimSpace(c.message.Content), "%v", err)
				return
			}
			refused, ok := errors.AsType[*fault.Error](err)
			require.Truef(t, ok && refused.Code == fault.ValidationFailed, "%v", err)
			assert.Equal(t, "", cmp.Diff(c.wrong, slices.Sorted(maps.Keys(refused.Details))))
		})
	}
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0193a1b2-0000-7000-8000-000000000003")
	for position, want := range map[string]Cursor{
		"0":                                 {Parts: -1},
		"1234":                              {After: 1234, Parts: -1},
		"007":                               {After: 7, Parts: -1},
		"end":                               {End: true, Parts: -1},
		strings.Repeat("9", 40):             {After: maxReplyChars, Parts: -1},
		"0.1":                               {Parts: 1},
		"1234.56":                           {After: 1234, Parts: 56},
		"12." + strings.Repeat("9", 40):     {After: 12, Parts: maxReplyChars},
		strings.Repeat("9", 40) + ".000012": {After: maxReplyChars, Parts: 12},
	} {
		got, err := ParsePosition(position)
		assert.Truef(t, err == nil && got == want, "%s: %+v, %v", position, got, err)
		want.MessageID = id
		for _, text := range []string{id.String(), strings.ToUpper(id.String())} {
			got, err := ParseCursor(text + ":" + position)
			assert.Truef(t, err == nil && got == want, "%s:%s: %+v, %v", text, position, got, err)
		}
	}
	for _, text := range []string{
		"", ":", "end", "12", id.String(), id.String() + ":", id.String() + ":-1", id.String() + ":+1", id.String() + ":1.0", id.String() + ":1.00",
		id.String() + ":1.", id.String() + ":.1", id.String() + ":.", id.String() + ":1.-1", id.String() + ":1.+1", id.String() + ":-1.1",
		id.String() + ":1.2.3", id.String() + ":1. 2", id.String() + ":1.٢", id.String() + ":1.end", id.String() + ":end.1", id.String() + ":1,2",
		id.String() + ":0x1", id.String() + ":END", id.String() + ":end ", id.String() + ": 1", id.String() + ":1:2", id.String() + ":١",
		"{" + id.String() + "}:1", "urn:uuid:" + id.String() + ":1", strings.ReplaceAll(id.String(), "-", "") + ":1", "0193a1b2-0000-7000-8000-00000000000g:1",
	} {
		_, err := ParseCursor(text)
		wantFault(t, err, fault.BadRequest)
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, text := range []string{"0193a1b2-0000-7000-8000-000000000003:12", "0193a1b2-0000-7000-8000-000000000003:12.3",
		"0193a1b2-0000-7000-8000-000000000003:end",
		"0193a1b2-0000-7000-8000-000000000003:0.0", ":", "x:1", "99999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cursor, err := ParseCursor(text)
		if err != nil {
			wantFault(t, err, fault.BadRequest)
			return
		}
		assert.Truef(t, cursor.After >= 0 && (!cursor.End || cursor.After == 0 && cursor.Parts == -1) && (cursor.Parts == -1 || cursor.Parts > 0),
			"%q: %+v", text, cursor)
		if _, err := ParsePosition(text[37:]); err != nil || !strings.EqualFold(text[:36], cursor.MessageID.String()) {
			t.Errorf("%q: %+v, %v", text, cursor, err)
		}
	})
}

// refusedFields are the details of a message's refusal.
func refusedFields(t *testing.T, m Message) map[string]any {
	err := m.normalize()
	if err == nil {
		return map[string]any{}
	}
	wantFault(t, err, fault.ValidationFailed)
	refused, _ := errors.AsType[*fault.Error](err)
	return refused.Details
}

func TestFilesOfAMessage(t *testing.T) {
	t.Parallel()
	text := func(path, content string) []memory.File { return []memory.File{{Path: path, Content: content}} }
	for name, c := range map[string]struct {
		files []memory.File
		want  map[string]any
	}{
		"none":                 {},
		"ordinary":             {files: []memory.File{{Path: "src/main.go", Content: "package main"}, {Path: "größe/日本.txt", Content: ""}}},
		"as many as may be":    {files: make20("f")},
		"as long as may be":    {files: text("long.txt", strings.Repeat("x", MaxFileBytes))},
		"a terminal's output":  {files: text("log.txt", "\x1b[31mred\x1b[0m\r\n\tdone\f")},
		"a few odd characters": {files: text("a.txt", strings.Repeat("word ", 20)+"\uFFFD\x01")},
		"too many":             {make20("f", "one.txt"), map[string]any{"files": "has 21 entries, at most 20 are accepted"}},
		"no path":              {text(" \t", "x"), map[string]any{"files[0]": "has no path"}},
		"a path of two lines":  {text("a\nb", "x"), map[string]any{"files[0]": `"a\nb": a path is at most 1024 printable characters`}},
		"a path with NUL":      {text("a\x00", "x"), map[string]any{"files[0]": `"a\x00": a path is at most 1024 printable characters`}},
		"a long path": {text(strings.Repeat("ä", 1025), "x"),
			map[string]any{"files[0]": `"` + strings.Repeat("ä", 200) + `…": a path is at most 1024 printable characters`}},
		"a path as long as may be": {files: text(strings.Repeat("ä", 1024), "x")},
		"oversized": {text("big.bin", strings.Repeat("x", MaxFileBytes+1)),
			map[string]any{"files[0]": `"big.bin" has 262145 bytes, at most 262144 are accepted`}},
		"with NUL": {text("a.out", "ELF\x00"), map[string]any{"files[0]": `"a.out" is not a text file`}},
		"an image": {text("a.png", "\uFFFDPNG\r\n\x1a\n\uFFFD\uFFFD\x02\x03"), map[string]any{"files[0]": `"a.png" is not a text file`}},
		"two of three": {
			[]memory.File{{Path: "", Content: "x"}, {Path: "ok.txt", Content: "x"}, {Path: "a.out", Content: "\x00"}},
			map[string]any{"files[0]": "has no path", "files[2]": `"a.out" is not a text file`},
		},
	} {
		want := c.want
		if want == nil {
			want = map[string]any{}
		}
		assert.Equalf(t, "", cmp.Diff(want, refusedFields(t, Message{Content: "Look.", Files: c.files})), "%s", name)
	}
}

func make20(path string, more ...string) []memory.File {
	var files []memory.File
	for range MaxFiles {
		files = append(files, memory.File{Path: path, Content: "x"})
	}
	for _, path := range more {
		files = append(files, memory.File{Path: path, Content: "x"})
	}
	return files
}

func TestToolNameOfAMessage(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"": true, "code-review": true, strings.Repeat("ü", 64): true, strings.Repeat("x", 65): false, "two\nlines": false, "\x00": false, "\u0085": false,
	} {
		refused := refusedFields(t, Message{Content: "Look.", ToolName: name})
		_, named := refused["tool_name"]
		assert.Truef(t, named != ok && len(refused) <= 1, "%q: %v", name, refused)
	}
}

// Only a chat that a tool starts expires and has a turn limit: not one that it continues, and no person's.
func TestToolStartsAChatThatExpires(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.send(t, Message{Content: "Review this.", ToolName: "code-review"})
		svc.send(t, Message{Content: "Go on.", ToolName: "planner", ChatID: uuid.New()})
		svc.send(t, Message{Content: "Hello."})
		synctest.Wait()
		for i, want := range []NewTurn{
			{ToolName: "code-review", Settings: Settings{TTLHours: 3, MaxTurns: 50}}, {ToolName: "planner"}, {},
		} {
			got := svc.store.turns[i]
			assert.Truef(t, got.ToolName == want.ToolName && got.TTLHours == want.TTLHours && got.MaxTurns == want.MaxTurns,
				"turn %d is stored with %q, %d hours, %d turns", i, got.ToolName, got.TTLHours, got.MaxTurns)
		}
	})
}

// Files are stored with hash and size, and shown with what the chat has; the tool's instructions follow all others.
func TestFilesComeWithTheTurn(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		earlier := memory.StoredFile{Path: "old.txt", Content: "From before.", SHA256: sha256.Sum256([]byte("From before.")), Tokens: 3}
		svc.store.start = startWithChat(memory.Chat{SystemPrompt: "This chat is about Go.", Files: []memory.StoredFile{earlier}})
		_, receipt := svc.receipt(t, Message{
			ChatID: uuid.New(), Content: "Look.", ToolInstructions: "You review code.",
			Files: []memory.File{{Path: "a.go", Content: "package a"}, {Path: "b.go", Content: ""}},
		})
		files := svc.store.turns[0].Files
		if len(files) != 2 || files[0].Path != "a.go" || files[0].SHA256 != sha256.Sum256([]byte("package a")) || files[0].Tokens != 2 || files[1].Tokens != 0 {
			t.Errorf("stored %+v", files)
		}
		request := svc.model.requests()[0]
		assert.Equal(t, "Be kind.\n\nThis chat is about Go.\n\nYou review code.", request.Instructions, "the instructions")
		assert.Containsf(t, request.Input,
			"FILES (newest first):\n=== old.txt ===\nFrom before.", "the prompt is %s", request.Input)
		assert.Truef(t, receipt.Files == 1 && receipt.FileTokens == 3, "%+v", receipt)
	})
}

// The instructions name each section that a prompt may have, as its heading begins.
func TestTheInstructionsNameEverySection(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"brief", "kept", "recent", "files", "memories", "topic", "recall", "sources", "question"} {
		heading, _, _ := strings.Cut(prompt.Heading(name), ":")
		heading, _, _ = strings.Cut(heading, " (")
		heading, _, _ = strings.Cut(heading, " –")
		assert.Truef(t, heading != "" && strings.Contains(DefaultInstructions, heading),
			"%s: %q is not in the instructions", name, heading)
	}
}
