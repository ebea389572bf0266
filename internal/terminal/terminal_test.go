package terminal

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/client"
)

// What the server says of a memory is shown, and members that nobody here knows are passed over.
func TestMemoryIsShown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"chat_id": "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31", "strategy": "hybrid", "coverage": "All \u001b[2Jof it.", "tokens": 12,
			"more": [1],
			"sections": [{"name": "tail", "text": "User: hi\u0007\nAssistant: yes\n", "tokens": 7, "turns": 1, "more": {}}]}`)
	}))
	defer server.Close()
	var out strings.Builder
	c := client.New(server.URL, "a token")
	defer c.Close()
	shown := &talk{Options: Options{Client: c, Out: &out}, chatID: uuid.New()}
	if err := shown.run(t.Context(), "/memory"); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "hybrid, 12 tokens. All of it.\n\n[tail: 7 tokens, 1 turn]\nUser: hi\nAssistant: yes\n" {
		t.Errorf("%q", got)
	}
}

// The last reply is asked for, and what is known of it is shown.
func TestWhyIsShown(t *testing.T) {
	t.Parallel()
	reply := "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/messages/" + reply + "/why":
			_, _ = io.WriteString(w, `{"message_id": "`+reply+`", "receipt": {"sections": [], "bridge_turns": 2, "tail_turns": 3, "brief_tokens": 9,
				"recall": "words", "recalled": [3], "recall_tokens": 8, "recalled_elsewhere": [{"seq": 1}],
				"memories": ["0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d32", "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d33"], "memory_tokens": 9},
				"brief": {"version": 4, "text": null}, "topic": {"title": "The \u001b[2Jbow."}, "memories": [{"content": "Plays the \u001b[2Jcello.", "status": "active",
				"sources": [{"seq": 5, "quote": "my cello\u0007", "said_at": "2026-03-02T12:00:00Z"}]}, {"content": "Eats no nuts.", "status": "active",
					"sources": []}], "recalled": [{"seq": 3, "messages": [{"role": "user", "content": "The \u001b[2JA string.", "created_at": "2026-03-03T12:00:00Z"}]}],
				"recalled_elsewhere": [{"title": "My \u001b[2Jviolin", "seq": 1,
					"messages": [{"role": "user", "content": "Gut.", "created_at": "2026-03-02T12:00:00Z"}]}]}`)
		default:
			_, _ = io.WriteString(w, `{"messages": [{"id": "`+reply+`", "role": "assistant"}, {"role": "tool"}]}`)
		}
	}))
	defer server.Close()
	var out strings.Builder
	c := client.New(server.URL, "a token")
	defer c.Close()
	shown := &talk{Options: Options{Client: c, Out: &out}, chatID: uuid.New()}
	if err := shown.run(t.Context(), "/why"); err != nil {
		t.Fatal(err)
	}
	want := "5 turns word for word, 0 dropped, 0 kept messages, 0 files, 0 sources.\n\n[brief v4, 9 tokens]\n(removed since)\n\n" +
		"[memory] Plays the cello.\n  said on 2026-03-02, message 5: my cello\n\n[memory] Eats no nuts.\n\n[back at the topic] The bow.\n\n[recalled by " +
		"words: 2 turns]\n2026-03-03  user: The A string.\nin another chat, My violin\n2026-03-02  user: Gut.\n"
	if got := out.String(); got != want {
		t.Errorf("%q", got)
	}
}

func TestWriteFileIsAllOrNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "export.md")
	whole := func(out io.Writer) error { _, err := io.WriteString(out, "whole"); return err }
	if err := WriteFile(path, whole); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broke off")
	err := WriteFile(path, func(out io.Writer) error { return errors.Join(whole(out), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "whole" {
		t.Errorf("%q, %v", raw, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if err := WriteFile(filepath.Join(folder, "no", "folder"), whole); err == nil {
		t.Error("written where there is no folder")
	}
}

func TestCommandsTellWhatTheyWant(t *testing.T) {
	t.Parallel()
	c := client.New("http://127.0.0.1:1", "a token")
	defer c.Close()
	somewhere := &talk{Options: Options{Client: c, Out: io.Discard}, chatID: uuid.New()}
	nowhere := &talk{Options: Options{Client: c, Out: io.Discard}}
	for line, want := range map[string]string{
		"/load": "wants a number", "/load x": "wants a number", "/load 3": "number 3 of what", "/search": "wants words",
		"/save": "everything is stored already", "/history many": "shows 1 to 200", "/history 201": "shows 1 to 200",
		"/export": "wants a file", "/Help": "there is no command /Help",
	} {
		if err := somewhere.run(t.Context(), line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"/save x", "/history", "/clear", "/forget", "/memory", "/topics", "/why", "/export x.md"} {
		if err := nowhere.run(t.Context(), line); !errors.Is(err, errNoChat) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
