package offline

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"strings"
	"time"
)

// Hashing is the name of this model's own embeddings, which know only whether words are the same.
const Hashing = "hashing"

// embeddings answers POST /v1/embeddings for a text or a list of texts. Vectors are base64 of little-endian float32s, as
// our client asks for them.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	asked := struct {
		Input      any
		Model      string
		Dimensions int
	}{Dimensions: 1536}
	raw, ok := s.read(w, r, &asked)
	if !ok {
		return
	}
	inputs, ok := asked.Input.([]any)
	if !ok {
		inputs = []any{asked.Input}
	}
	data, texts := make([]object, len(inputs)), make([]string, len(inputs))
	for n, input := range inputs {
		texts[n] = inputText(input)
		packed, _ := binary.Append(nil, binary.LittleEndian, s.options.Embed(texts[n], asked.Dimensions)) // cannot fail for numbers of a fixed size
		data[n] = object{"object": "embedding", "index": n, "embedding": base64.StdEncoding.EncodeToString(packed)}
	}
	text := strings.Join(texts, "\n")
	recorded := s.journal.add(Request{Kind: KindEmbedding, At: time.Now(), Body: raw, Text: text, Current: text, Model: asked.Model})
	answer := s.answerFor(*recorded)
	done, err := s.beforeHeaders(r.Context(), w, recorded, answer)
	if !done && answer.Gate != nil {
		err = receive(r.Context(), s, answer.Gate)
	}
	if !done && err == nil {
		s.journal.update(func() { recorded.Status = http.StatusOK })
		tokens := countTokens(text)
		s.sendJSON(w, http.StatusOK, object{"object": "list", "data": data, "model": asked.Model,
			"usage": object{"prompt_tokens": tokens, "total_tokens": tokens}})
	}
	s.finish(recorded, err)
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
