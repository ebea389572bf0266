package chat

import (
	"crypto/sha256"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// refusedFields are the details of a message's refusal.
func refusedFields(t *testing.T, m Message) map[string]any {
	t.Helper()
	err := m.normalize()
	if err == nil {
		return map[string]any{}
	}
	wantFault(t, err, fault.ValidationFailed)
	refused, ok := err.(*fault.Error) //nolint:errorlint // normalize wraps nothing
	if !ok {
		t.Fatalf("%T", err)
	}
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
		if diff := cmp.Diff(want, refusedFields(t, Message{Content: "Look.", Files: c.files})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
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
		if _, named := refused["tool_name"]; named == ok || len(refused) > 1 {
			t.Errorf("%q: %v", name, refused)
		}
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
			if got.ToolName != want.ToolName || got.TTLHours != want.TTLHours || got.MaxTurns != want.MaxTurns {
				t.Errorf("turn %d is stored with %q, %d hours, %d turns", i, got.ToolName, got.TTLHours, got.MaxTurns)
			}
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
		if request.Instructions != "Be kind.\n\nThis chat is about Go.\n\nYou review code." {
			t.Errorf("the instructions are %q", request.Instructions)
		}
		if !strings.Contains(request.Input, "FILES (newest first):\n=== old.txt ===\nFrom before.") {
			t.Errorf("the prompt is %s", request.Input)
		}
		if receipt.Files != 1 || receipt.FileTokens != 3 {
			t.Errorf("%+v", receipt)
		}
	})
}
