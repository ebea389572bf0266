package demo

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/go-cmp/cmp"
)

func TestReadConversation(t *testing.T) {
	t.Parallel()
	file := "\uFEFF{\"role\":\"user\",\"content\":\"Grüße\",\"created_at\":\"2026-04-12T18:40:00+02:00\"}\r\n" +
		"\n" +
		`{"role":"assistant","content":"Hello.","has_answer":true}`
	got, err := ReadConversation(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{Role: "user", Content: "Grüße", CreatedAt: time.Date(2026, 4, 12, 16, 40, 0, 0, time.UTC)},
		{Role: "assistant", Content: "Hello."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadConversationNamesTheBadLine(t *testing.T) {
	t.Parallel()
	good := `{"role":"user","content":"hello"}` + "\n\n"
	for name, test := range map[string]struct{ bad, says string }{
		"no JSON":      {`{"role":`, "unexpected end"},
		"plain text":   {`hello`, "invalid character"},
		"no object":    {`[]`, "cannot unmarshal"},
		"number":       {`{"role":"user","content":5}`, "cannot unmarshal"},
		"unknown role": {`{"role":"narrator","content":"x"}`, `"narrator"`},
		"no role":      {`{"content":"x"}`, "role"},
		"bad date":     {`{"role":"user","content":"x","created_at":"yesterday"}`, "yesterday"},
		"U+0000":       {`{"role":"user","content":"a\u0000b"}`, "U+0000"},
		"endless":      {strings.Repeat("x", maxLine+1), "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadConversation(strings.NewReader(good + test.bad + "\n" + good))
			if err == nil || !strings.Contains(err.Error(), "line 3:") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one about line 3 that says %s", err, test.says)
			}
		})
	}
}

func FuzzReadConversation(f *testing.F) {
	f.Add(`{"role":"user","content":"a","created_at":"2026-04-12T18:40:00Z"}`)
	f.Add("\n\r\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := ReadConversation(strings.NewReader(text))
		if err != nil && len(lines) > 0 {
			t.Error("lines and an error")
		}
		for _, turn := range newScript(lines, 0).turns {
			if n := utf8.RuneCountInString(turn.Content); n < 1 || n > chat.MaxContent {
				t.Errorf("a message of %d characters would be sent", n)
			}
		}
	})
}

func TestScriptIsWhatTheServerAccepts(t *testing.T) {
	t.Parallel()
	lines := []Line{
		{Role: "assistant", Content: "Welcome"},
		{Role: "user", Content: "  one \n"},
		{Role: "user", Content: " \n\t"},
		{Role: "assistant", Content: "Good."},
		{Role: "user", Content: strings.Repeat("ä", chat.MaxContent-1) + " ä"},
		{Role: "user", Content: strings.Repeat("ä", chat.MaxContent)},
		{Role: "user", Content: "not any more"},
		{Role: "assistant", Content: "nor this"},
	}
	s := newScript(lines, 3)
	if len(s.turns) != 3 || s.turns[0].Content != "one" {
		t.Fatalf("turns %d, first %q", len(s.turns), s.turns[0].Content)
	}
	if got := utf8.RuneCountInString(s.turns[1].Content); got != chat.MaxContent-1 {
		t.Errorf("the long message has %d characters, want it cut and trimmed to %d", got, chat.MaxContent-1)
	}
	if s.blank != 1 || s.cut != 1 || s.unsaid != 2 {
		t.Errorf("blank %d, cut %d, unsaid %d; want 1, 1, 2", s.blank, s.cut, s.unsaid)
	}
	notes := strings.Join(s.notes(), "\n")
	for _, said := range []string{"2 lines", "1 user message without text", "32,000 characters"} {
		if !strings.Contains(notes, said) {
			t.Errorf("the notes do not say %q:\n%s", said, notes)
		}
	}
	if notes := newScript(lines[1:2], 0).notes(); len(notes) != 0 {
		t.Errorf("notes about nothing: %v", notes)
	}
}

func TestBuiltInConversation(t *testing.T) {
	t.Parallel()
	lines, err := ReadConversation(strings.NewReader(builtin))
	if err != nil {
		t.Fatal(err)
	}
	tokens, before := 0, time.Time{}
	for n, line := range lines {
		if !line.CreatedAt.After(before) {
			t.Errorf("line %d is not after the one before it", n+1)
		}
		before = line.CreatedAt
		tokens += text.Tokens(line.Content)
	}
	// Two folds and more with the default threshold of 6000.
	if s := newScript(lines, 0); len(s.turns) < 110 || len(s.turns) != len(lines) || s.cut > 0 || tokens < 12_000 {
		t.Errorf("%d of %d lines to be sent, %d cut, %d tokens", len(s.turns), len(lines), s.cut, tokens)
	}
	if span := before.Sub(lines[0].CreatedAt); span < 21*24*time.Hour {
		t.Errorf("it spans %s, want weeks", span)
	}
}

const longMemEvalFile = `[
 {"question_id": "a", "haystack_dates": [], "haystack_sessions": [[{"role": "user", "content": "no date"}]]},
 {"haystack_dates": ["2023/07/12 (Wed) 10:14", "2023/08/02 (Wed) 05:58"],
  "haystack_sessions": [
   [{"role": "user", "content": "one", "has_answer": true}, {"role": "assistant", "content": "two"}],
   [],
   [{"role": "user", "content": "three"}]]},
 {"haystack_dates": ["12 July"], "haystack_sessions": [[{"role": "user", "content": "x"}]]},
 {"haystack_dates": [], "haystack_sessions": [[], [{"role": "user", "content": "x"}, {"role": "ghost", "content": "x"}]]}
]`

func TestReadLongMemEval(t *testing.T) {
	t.Parallel()
	first := time.Date(2023, 7, 12, 10, 14, 0, 0, time.UTC)
	got, err := ReadLongMemEval(strings.NewReader(longMemEvalFile), 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{Role: "user", Content: "one", CreatedAt: first}, {Role: "assistant", Content: "two", CreatedAt: first}, {Role: "user", Content: "three"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadLongMemEvalSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file  string
		index int
		says  string
	}{
		{longMemEvalFile, 4, "no conversation 4, it has 4"},
		{longMemEvalFile, -1, "no conversation -1"},
		{longMemEvalFile, 2, "date of session 1"},
		{longMemEvalFile, 3, "session 2, message 2"},
		{`{"role": "user"}`, 0, "cannot unmarshal"},
		{``, 0, "EOF"},
	} {
		_, err := ReadLongMemEval(strings.NewReader(test.file), test.index)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("conversation %d: error %v, want one that says %q", test.index, err, test.says)
		}
	}
}
