package offline

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"testing"
)

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
		if near < 0.3 || far > 0.25 || near < far+0.2 {
			t.Errorf("%d dimensions: near %.2f, far %.2f", size, near, far)
		}
		if same := cosine(base, embed("My dog Biscuit loves long walks", size)); math.Abs(same-1) > 1e-5 {
			t.Errorf("%d dimensions: the same text has %.6f", size, same)
		}
	}
	for _, text := range []string{"the and of", "👍", " ", "今日は"} {
		if length := cosine(embed(text, 8), embed(text, 8)); math.Abs(length-1) > 1e-5 {
			t.Errorf("%q: length %f", text, length)
		}
	}
}

func embeddingsOf(t *testing.T, l *Listening, body string) (int, []byte) {
	t.Helper()
	response, raw, err := do(t, request(t, l, http.MethodPost, "/v1/embeddings", body))
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, raw
}

func TestEmbeddingsAsNumbersAndBase64(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	status, raw := embeddingsOf(t, l, `{"model":"text-embedding-3-small","input":["one","two words"],"dimensions":32}`)
	var floats struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
		Usage struct{ PromptTokens int }
	}
	if err := json.Unmarshal(raw, &floats); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v", status, err)
	}
	if len(floats.Data) != 2 || floats.Data[1].Index != 1 || len(floats.Data[1].Embedding) != 32 {
		t.Fatalf("%s", raw)
	}
	_, raw = embeddingsOf(t, l, `{"model":"text-embedding-3-small","input":"two words","dimensions":32,"encoding_format":"base64"}`)
	var coded struct{ Data []struct{ Embedding string } }
	if err := json.Unmarshal(raw, &coded); err != nil {
		t.Fatal(err)
	}
	packed, err := base64.StdEncoding.DecodeString(coded.Data[0].Embedding)
	if err != nil || len(packed) != 4*32 {
		t.Fatalf("%d bytes, %v", len(packed), err)
	}
	for i, want := range floats.Data[1].Embedding {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(packed[4*i:])); got != want {
			t.Fatalf("number %d: %v, want %v", i, got, want)
		}
	}
	if asked := l.Requests(); len(asked) != 2 || asked[0].Kind != KindEmbedding || asked[0].Text != "one\ntwo words" || asked[0].Status != 200 {
		t.Errorf("%+v", asked)
	}
}
