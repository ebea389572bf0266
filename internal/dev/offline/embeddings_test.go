package offline

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"
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
	}
	for _, text := range []string{"the and of", "👍", " ", "今日は", "My dog Biscuit"} {
		if length := cosine(embed(text, 8), embed(text, 8)); math.Abs(length-1) > 1e-5 {
			t.Errorf("%q: length %f", text, length)
		}
	}
}

func TestEmbeddingsOverHTTP(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	_, raw, err := do(t, request(t, l, http.MethodPost, "/v1/embeddings", `{"model":"m","input":["one","two words"],"dimensions":32,"encoding_format":"base64"}`))
	if err != nil {
		t.Fatal(err)
	}
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
	if _, decoding := binary.Decode(packed, binary.LittleEndian, got); err != nil || decoding != nil || !slices.Equal(got, embed("two words", 32)) {
		t.Errorf("%v, %v: %v", err, decoding, got)
	}
	if asked := l.Requests(); len(asked) != 1 || asked[0].Kind != KindEmbedding || asked[0].Text != "one\ntwo words" || asked[0].Status != 200 {
		t.Errorf("%+v", asked)
	}
}
