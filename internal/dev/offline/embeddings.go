package offline

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"strings"
	"time"
)

// defaultDimensions is the size of a vector. A request may ask for less, as with OpenAI's third generation.
const defaultDimensions = 1536

// embeddingRequest is a request for embeddings of texts.
type embeddingRequest struct {
	texts      []string
	Input      any    `json:"input"`
	Model      string `json:"model"`
	Dimensions int    `json:"dimensions"`
	Format     string `json:"encoding_format"`
}

// embeddings answers POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	asked := embeddingRequest{Dimensions: defaultDimensions}
	raw, ok := s.read(w, r, &asked)
	if !ok {
		return
	}
	asked.texts = textsIn(asked.Input)
	text := strings.Join(asked.texts, "\n")
	recorded := s.journal.add(Request{Kind: KindEmbedding, At: time.Now(), Body: raw, Text: text, Current: text, Model: asked.Model})
	answer := s.answerFor(*recorded)
	done, err := s.beforeHeaders(r.Context(), w, recorded, answer)
	if !done && answer.Gate != nil {
		err = s.wait(r.Context(), answer.Gate)
	}
	if !done && err == nil {
		s.journal.update(func() { recorded.Status = http.StatusOK })
		s.sendJSON(w, http.StatusOK, asked.answer())
	}
	s.finish(recorded, err)
}

// answer is the list of vectors: numbers, or base64 of little-endian float32s.
func (r embeddingRequest) answer() object {
	data, tokens := make([]object, len(r.texts)), 0
	for n, text := range r.texts {
		vector := embed(text, r.Dimensions)
		data[n] = object{"object": "embedding", "index": n, "embedding": vector}
		if r.Format == "base64" {
			bytes, _ := binary.Append(nil, binary.LittleEndian, vector) // cannot fail for numbers of a fixed size
			data[n]["embedding"] = base64.StdEncoding.EncodeToString(bytes)
		}
		tokens += countTokens(text)
	}
	return object{"object": "list", "data": data, "model": r.Model, "usage": object{"prompt_tokens": tokens, "total_tokens": tokens}}
}

// embed makes a unit vector of a text: each of its stems is hashed to a dimension and a sign (the hashing trick), so
// texts that share words are close. A text without content words is one feature as a whole.
func embed(text string, dimensions int) []float32 {
	features := contentStems(text)
	if len(features) == 0 {
		features = []string{text}
	}
	vector := make([]float32, dimensions)
	for _, feature := range features {
		h := hash(feature)
		vector[h%uint64(dimensions)] += 1 - 2*float32(h>>63)
	}
	length := 0.0
	for _, v := range vector {
		length += float64(v) * float64(v)
	}
	if length == 0 { // all features cancelled out
		vector[0], length = 1, 1
	}
	for i := range vector {
		vector[i] /= float32(math.Sqrt(length))
	}
	return vector
}
