package offline

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	require.NoError(t, err)
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
	got := l.Refused()
	assert.Truef(t, len(got) == 1 && strings.Contains(got[0], "POST /v1/responses"), "refused: %q", got)
	_, err := l.Await(t.Context(), func(r Request) bool { return r.Ended })
	require.NoError(t, err)
	require.NoError(t, l.Close())
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

func cosine(a, b []float32) float64 {
	dot := 0.0
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
	}
	return dot
}

func TestSimilarTextsAreCloser(t *testing.T) {
	t.Parallel()
	for _, size := range []int{64, 256, 1536} {
		base := embed("My dog Biscuit loves long walks", size)
		near := cosine(base, embed("Biscuit, the dog, was walking", size))
		far := cosine(base, embed("The stock exchange closed higher on Friday", size))
		assert.Truef(t, near >= 0.3 && far <= 0.25 && near >= far+0.2,
			"%d dimensions: near %.2f, far %.2f", size, near, far)
	}
	for _, text := range []string{"the and of", "👍", " ", "今日は", "My dog Biscuit"} {
		length := cosine(embed(text, 8), embed(text, 8))
		assert.Truef(t, math.Abs(length-1) <= 1e-5, "%q: length %f", text, length)
	}
}

func TestEmbeddingsOverHTTP(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	_, raw, err := do(t, request(t, l, http.MethodPost, "/v1/embeddings", `{"model":"m","input":["one","two words"],"dimensions":32,"encoding_format":"base64"}`))
	require.NoError(t, err)
	var answer struct {
		Data []struct {
			Index     int
			Embedding string
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Data) != 2 || answer.Data[1].Index != 1 {
		t.Fatalf("%v in %s", err, raw)
	}
	packed, err := base64.StdEncoding.DecodeString(answer.Data[1].Embedding)
	got := make([]float32, 32)
	_, decoding := binary.Decode(packed, binary.LittleEndian, got)
	assert.Truef(t, err == nil && decoding == nil && slices.Equal(got, embed("two words", 32)),
		"%v, %v: %v", err, decoding, got)
	asked := l.Requests()
	assert.Truef(t, len(asked) == 1 && asked[0].Kind == KindEmbedding && asked[0].Text == "one\ntwo words" && asked[0].Status == 200,
		"%+v", asked)
}
