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
		messages, _ := userMessages(lines, 0)
		for _, turn := range messages {
			if n := utf8.RuneCountInString(turn.Content); n < 1 || n > chat.MaxContent {
				t.Errorf("a message of %d characters would be sent", n)
			}
		}
	})
}

func TestUserMessagesAreWhatTheServerAccepts(t *testing.T) {
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
	messages, unsent := userMessages(lines, 3)
	if len(messages) != 3 || messages[0].Content != "one" || unsent != 3 {
		t.Fatalf("%d messages, %d lines unsent, first %q", len(messages), unsent, messages[0].Content)
	}
	if got := utf8.RuneCountInString(messages[1].Content); got != chat.MaxContent-1 {
		t.Errorf("the long message has %d characters, want it cut and trimmed to %d", got, chat.MaxContent-1)
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
	if messages, unsent := userMessages(lines, 0); len(messages) < 110 || unsent > 0 || tokens < 12_000 {
		t.Errorf("%d of %d lines to be sent, %d tokens", len(messages), len(lines), tokens)
	}
	if span := before.Sub(lines[0].CreatedAt); span < 21*24*time.Hour {
		t.Errorf("it spans %s, want weeks", span)
	}
}

const longMemEvalFile = `[{"question": "ignored", "haystack_sessions": [[{"role": "user", "content": "First history."}]]},
	{"haystack_sessions": [[{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}], [{"role": "user", "content": "Again."}]]}]`

func TestLongMemEvalFile(t *testing.T) {
	t.Parallel()
	got, err := readFile(strings.NewReader(longMemEvalFile), 1)
	want := []Line{{Role: "user", Content: "Hello."}, {Role: "assistant", Content: "Hi."}, {Role: "user", Content: "Again."}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for file, want := range map[string]string{
		longMemEvalFile: "there is no history 2, it has 2", "[{": "LongMemEval file: unexpected EOF",
		`[{}, {}, {"haystack_sessions": [[], [{"role": "god", "content": "x"}]]}]`: "session 2, message 1",
	} {
		if _, err := readFile(strings.NewReader(file), 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", file, err)
		}
	}
}
