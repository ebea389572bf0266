package llm

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/work"
)

const small = "text-embedding-3-small"

func embedder(t *testing.T, baseURL, model string) *Embedder {
	e := NewEmbedder(Settings{APIKey: "sk-test", BaseURL: baseURL}, model)
	t.Cleanup(e.Close)
	return e
}

func lengthOf(vector []float32) float64 {
	squares := 0.0
	for _, number := range vector {
		squares += float64(number) * float64(number)
	}
	return math.Sqrt(squares)
}

// packed is a vector as the API sends it in base64.
func packed(numbers ...float32) string {
	raw := make([]byte, 0, 4*len(numbers))
	for _, number := range numbers {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(number))
	}
	return `"` + base64.StdEncoding.EncodeToString(raw) + `"`
}

// vectorsAnswer is an answer with these vectors, each of them JSON.
func vectorsAnswer(vectors ...string) http.HandlerFunc {
	items := make([]string, len(vectors))
	for n, vector := range vectors {
		items[n] = fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, n, vector)
	}
	return answers(http.StatusOK, "application/json", `{"object":"list","data":[`+strings.Join(items, ",")+`]}`)
}

func TestEmbedSendsTheseParameters(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]any{small: {"dimensions": 512.0}, "nomic-embed-text": {}} {
		sent := make(chan map[string]any, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			_ = json.NewDecoder(r.Body).Decode(&body)
			body["path"], body["authorization"] = r.URL.Path, r.Header.Get("Authorization")
			sent <- body
			vectorsAnswer("[1]", "[1]")(w, r)
		}))
		t.Cleanup(server.Close)
		e := embedder(t, server.URL+"/v1", name)
		_, err := e.Embed(t.Context(), recall.For{}, []string{"one", "", "two"})
		require.NoError(t, err)
		want["model"], want["input"], want["encoding_format"] = name, []any{"one", "two"}, "base64"
		want["path"], want["authorization"] = "/v1/embeddings", "Bearer sk-test"
		assert.Equal(t, want, <-sent)
		assert.Equal(t, name, e.Model())
	}
}

func TestVectorsHaveLengthOneAndTheirTextsOrder(t *testing.T) {
	t.Parallel()
	server := model(t, nil)
	e := embedder(t, server.BaseURL(), small)
	vectors, err := e.Embed(t.Context(), recall.For{}, []string{"my dog Biscuit", " \n", "the stock exchange", "my dog Biscuit"})
	require.NoError(t, err)
	assert.True(t, len(vectors) == 4 && vectors[1] == nil && cmp.Equal(vectors[0], vectors[3]) && !cmp.Equal(vectors[0], vectors[2]),
		"the vectors are not those of their texts")
	for _, vector := range []([]float32){vectors[0], vectors[2]} {
		assert.Truef(t, len(vector) == recall.VectorSize && math.Abs(lengthOf(vector)-1) <= 1e-6, "%d numbers, length %f", len(vector), lengthOf(vector))
	}
	_, err = e.Embed(t.Context(), recall.For{}, []string{"", "\t"})
	assert.Truef(t, err == nil && len(server.Requests()) == 1, "blank texts: %v, asked %d times in all", err, len(server.Requests()))
}

func TestVectorsInEveryForm(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"base64":        vectorsAnswer(packed(3, 4), packed(0, 2)),
		"numbers":       vectorsAnswer("[3,4]", "[0,2.0]"),
		"another order": answers(200, "application/json", `{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[6,8]}]}`),
		"no indexes":    answers(200, "application/json", `{"data":[{"embedding":[3,4]},{"embedding":[0,9]}]}`),
		"no JSON type":  answers(200, "text/plain", `{"data":[{"embedding":[3,4]},{"embedding":[0,9]}]}`),
	} {
		got, err := embedder(t, serve(t, answer).url, "m").Embed(t.Context(), recall.For{}, []string{"a", "b"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rest := make([]float32, recall.VectorSize-2) // they are filled up with zeros
		assert.Equalf(t, [][]float32{append([]float32{.6, .8}, rest...), append([]float32{0, 1}, rest...)}, got, "%s", name)
	}
}

func TestAVectorWithoutDirectionIsNone(t *testing.T) {
	t.Parallel()
	got, err := embedder(t, serve(t, vectorsAnswer(packed(0), packed(0, 1))).url, "m").Embed(t.Context(), recall.For{}, []string{"a", "b"})
	assert.Truef(t, err == nil && got[0] == nil && got[1] != nil, "%v, %v", got, err)
}

func TestVectorsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	nan, infinite := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"more than texts", vectorsAnswer("[1]", "[1]", "[1]"), "3 vectors for 2 texts"},
		{"none", answers(200, "application/json", `{}`), "0 vectors for 2 texts"},
		{"too many dimensions", vectorsAnswer(packed(make([]float32, 1536)...), "[1]"), "a vector has 1536 numbers"},
		{"an empty vector", vectorsAnswer("[]", "[1]"), "a vector has 0 numbers"},
		{"no vector", vectorsAnswer("null", "[1]"), "a vector has 0 numbers"},
		{"NaN", vectorsAnswer(packed(1, nan), "[1]"), "a number that is none"},
		{"infinity", vectorsAnswer(packed(1, infinite), "[1]"), "a number that is none"},
		{"too large a number", vectorsAnswer("[1e39]", "[1]"), "neither numbers nor base64"},
		{"half a number", vectorsAnswer(`"AAAAAAA="`, "[1]"), "neither numbers nor base64"},
		{"no base64", vectorsAnswer(`"canary!"`, "[1]"), "neither numbers nor base64"},
		{"an index twice", answers(200, "application/json", `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`), "indexes"},
		{"an index beyond", answers(200, "application/json", `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`), "indexes"},
		{"broken JSON", answers(200, "application/json", `{"data":[{"canary`), "not the JSON of vectors"},
		{"no JSON", answers(200, "text/html", `<h1>canary</h1>`), "not the JSON of vectors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, c.answer)
			got, err := embedder(t, server.url, "m").Embed(t.Context(), recall.For{}, []string{"canary one", "canary two"})
			wantFault(t, err, fault.UpstreamFailed)
			assert.Truef(t, got == nil && strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "canary"), "%v", err)
			if asked := server.asked.Load(); asked != 2 { // the second time for a text that every model reads
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

func TestEmbeddingFaults(t *testing.T) {
	t.Parallel()
	refuses := func(status int, code string) http.HandlerFunc {
		return plainly(status, "application/json", `{"error":{"message":"canary: a turn","code":"`+code+`"}}`)
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   fault.Code
		says   string
	}{
		{"key", refuses(401, "invalid_api_key"), fault.UpstreamFailed, "OPENAI_API_KEY"},
		{"quota", refuses(429, "insufficient_quota"), fault.UpstreamFailed, "quota"},
		{"rate", refuses(429, "rate_limit_exceeded"), fault.UpstreamOverloaded, "rate_limit_exceeded"},
		{"model", refuses(404, "model_not_found"), fault.UpstreamFailed, "EMBEDDING_MODEL"},
		{"server", refuses(500, ""), fault.UpstreamFailed, "status 500"},
		{"a proxy", plainly(502, "text/html", "canary"), fault.UpstreamFailed, ""},
		{"text", refuses(400, "invalid_value"), fault.UpstreamFailed, "status 400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, c.answer)
			_, err := embedder(t, server.url, "m").Embed(t.Context(), recall.For{}, []string{"canary"})
			wantFault(t, err, c.want)
			assert.Truef(t, strings.Contains(err.Error(), c.says) && !strings.Contains(err.Error(), "canary"), "%v", err)
			most := int32(1) // a failed call is not repeated here
			if c.name == "text" || c.name == "server" {
				most = 2 // but a plain text is tried
			}
			assert.Equal(t, most, server.asked.Load(), "calls")
		})
	}
}

func TestEmbedderThatIsAwayOrSlow(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	away.Close()
	_, err := embedder(t, away.URL, "m").Embed(t.Context(), recall.For{}, []string{"x"})
	wantFault(t, err, fault.UpstreamFailed)

	slow := model(t, always(offline.Answer{Fault: offline.FaultStall}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = embedder(t, slow.BaseURL(), small).Embed(ctx, recall.For{}, []string{"x"})
	wantFault(t, err, fault.UpstreamTimeout)
}

// A model that does not let its caller choose is asked once more, and never again with dimensions.
func TestDimensionsAreLeftOutOnceRefused(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"by name":        `{"error":{"message":"no","param":"dimensions"}}`,
		"in words":       `{"error":{"message":"This model does not support specifying dimensions.","param":null}}`,
		"something else": `{"error":{"message":"no","param":"input"}}`,
	} {
		var bodies []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body)) // the calls come one after another
			if strings.Contains(string(body), "dimensions") {
				answers(http.StatusBadRequest, "application/json", refusal)(w, r)
				return
			}
			vectorsAnswer("[1]")(w, r)
		}))
		t.Cleanup(server.Close)
		e := embedder(t, server.URL, small)
		_, first := e.Embed(t.Context(), recall.For{}, []string{"x"})
		_, second := e.Embed(t.Context(), recall.For{}, []string{"x"})
		if name == "something else" {
			assert.Truef(t, first != nil && second != nil && strings.Count(strings.Join(bodies, ""), "dimensions") == len(bodies),
				"%v, %v, %q", first, second, bodies)
		} else if first != nil || second != nil || len(bodies) != 3 || strings.Contains(bodies[2], "dimensions") {
			t.Errorf("%s: %v, %v, %q", name, first, second, bodies)
		}
	}
}

// A text that the model refuses costs the others nothing, also when it is asked for again alone.
// What the model cannot read has no vector, alone or among others, whichever way it fails.
func TestTextsThatTheModelFailsAtHaveNoVector(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 413, 422, 500, 200} { // the last with an answer that cannot be used
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body struct{ Input []string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			if strings.Contains(strings.Join(body.Input, ""), "too long") {
				answers(status, "application/json", `{"error":{"message":"input is too large"}}`)(w, r)
				return
			}
			vectorsAnswer(slices.Repeat([]string{"[1]"}, len(body.Input))...)(w, r)
		}))
		t.Cleanup(server.Close)
		e := embedder(t, server.URL, "m")
		for _, texts := range [][]string{{"too long"}, {"too long", "b"}, {"a", "b", "too long", "c", "d", "too long", "e"}} {
			got, err := e.Embed(t.Context(), recall.For{}, texts)
			require.NoErrorf(t, err, "%d", status)
			for n, vector := range got {
				assert.Equalf(t, (texts[n] == "too long"), (vector == nil), "%d, %q: vector %v", status, texts[n], vector != nil)
			}
		}
	}
}

func TestLongTextsAreShortened(t *testing.T) {
	t.Parallel()
	server := model(t, nil)
	_, err := embedder(t, server.BaseURL(), small).Embed(t.Context(), recall.For{}, []string{strings.Repeat("word ", 20_000)})
	require.NoError(t, err)
	sent := text.Tokens(server.Requests()[0].Text)
	assert.Truef(t, sent <= maxEmbeddedTokens && sent >= maxEmbeddedTokens-100, "%d tokens were sent", sent)
}

// What a call has cost is recorded for its user. What does not say so, or broke off, is estimated; a refusal is free, and so is
// the server's own call.
func TestEmbeddingsAreRecorded(t *testing.T) {
	t.Parallel()
	const vector = `"data":[{"embedding":[1]}]`
	mine := recall.For{UserID: userID, ChatID: chatID}
	spent := func(tokens int, estimated bool) []work.Spent {
		return []work.Spent{{Purpose: "embed", Model: "m", UserID: userID, ChatID: chatID, InputTokens: tokens, Estimated: estimated}}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		of      recall.For
		want    []work.Spent
	}{
		"answered":    {answers(200, "application/json", `{`+vector+`,"usage":{"prompt_tokens":17,"total_tokens":17}}`), mine, spent(17, false)},
		"unsaid":      {answers(200, "application/json", `{`+vector+`}`), mine, spent(4, true)},
		"no user's":   {answers(200, "application/json", `{`+vector+`}`), recall.For{}, nil},
		"refused":     {answers(401, "application/json", `{"error":{"code":"invalid_api_key"}}`), mine, nil},
		"interrupted": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, mine, spent(4, true)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kept meter
			e := NewEmbedder(Settings{BaseURL: serve(t, c.handler).url, Meter: &kept}, "m")
			t.Cleanup(e.Close)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the others have to be answered within it
			defer cancel()
			_, _ = e.Embed(ctx, c.of, []string{"Where is it?"})
			assert.Truef(t, slices.Equal(kept.spent, c.want), "%+v, not %+v", kept.spent, c.want)
		})
	}
}
