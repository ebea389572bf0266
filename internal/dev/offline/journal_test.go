package offline

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

func TestRequestsTellWhatWasAsked(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: say("Fine.")})
	main := prompt("A brief.", "User: a\nAssistant: b", "", "What now?").Text
	ask(t, l, body(t, map[string]any{
		"input": main, "instructions": "Be kind.", "store": false, "stream": true, "prompt_cache_key": "chat",
		"safety_identifier": "user", "metadata": map[string]any{"k": "v"}, "max_output_tokens": 99,
	}))
	got, err := l.Await(t.Context(), func(r Request) bool { return r.Ended })
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != KindReply || got.Text != main || got.Current != "What now?" || got.Instructions != "Be kind." || got.Store ||
		!got.Stream || got.PromptCacheKey != "chat" || got.SafetyIdentifier != "user" || got.Metadata["k"] != "v" ||
		got.MaxOutputTokens != 99 || got.Model != "gpt-5.6-terra" || got.Sent != "Fine." || got.Status != 200 ||
		got.At.IsZero() || len(got.Body) == 0 {
		t.Errorf("%+v", got)
	}
}

func TestTheLogSaysThatThisIsTheOfflineModelAndNoContent(t *testing.T) {
	t.Parallel()
	out := &lockedBuffer{}
	l := start(t, Options{Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	ask(t, l, body(t, map[string]any{"input": "canary in the mine"}))
	ask(t, l, `{"input": "canary in`)
	if got := l.Refused(); len(got) != 1 || !strings.Contains(got[0], "POST /v1/responses") {
		t.Errorf("refused: %q", got)
	}
	if _, err := l.Await(t.Context(), func(r Request) bool { return r.Ended }); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	log := out.String()
	if strings.Count(log, "level=INFO") != 1 || !strings.Contains(log, "offline model") || !strings.Contains(log, "kind=reply") ||
		strings.Contains(log, "canary in") {
		t.Error(log)
	}
}

// lockedBuffer is a log that requests may write to at once.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
