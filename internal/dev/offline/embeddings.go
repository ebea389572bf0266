package offline

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The sizes of vectors. A request may ask for less, as with OpenAI's third generation.
const (
	defaultDimensions = 1536
	maxDimensions     = 3072
	maxEmbeddings     = 2048
)

// embeddingRequest is a request for embeddings of texts. The API also takes lists of token numbers.
type embeddingRequest struct {
	texts      []string
	Input      any    `json:"input"`
	Model      string `json:"model"`
	Dimensions int    `json:"dimensions"`
	Format     string `json:"encoding_format"`
}

func decodeEmbeddings(raw []byte, models []string) (embeddingRequest, *apiError) {
	var asked embeddingRequest
	if json.Unmarshal(raw, &asked) != nil {
		return embeddingRequest{}, unparsable()
	}
	asked.texts = textsIn(asked.Input)
	if asked.Dimensions == 0 {
		asked.Dimensions = defaultDimensions
	}
	switch {
	case len(asked.texts) == 0:
		return embeddingRequest{}, missing("input")
	case asked.Dimensions < 1 || asked.Dimensions > maxDimensions:
		return embeddingRequest{}, bad("invalid_value", "dimensions", "Invalid 'dimensions': %d.", asked.Dimensions)
	case asked.Model == "":
		return embeddingRequest{}, missing("model")
	case !known(asked.Model, models):
		e := bad("model_not_found", "model", "The model '%s' does not exist or you do not have access to it.", asked.Model)
		e.Status = http.StatusNotFound
		return embeddingRequest{}, e
	case slices.Contains(asked.texts, ""):
		return embeddingRequest{}, bad("invalid_value", "input", "Invalid 'input': input cannot be an empty string.")
	case len(asked.texts) > maxEmbeddings:
		return embeddingRequest{}, bad("invalid_value", "input", "Invalid 'input': expected at most %d inputs, but got %d.", maxEmbeddings, len(asked.texts))
	}
	return asked, nil
}

// embeddings answers POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	raw, refusal := readBody(r)
	var asked embeddingRequest
	if refusal == nil {
		asked, refusal = decodeEmbeddings(raw, s.options.Models)
	}
	if refusal != nil {
		s.refuse(w, r, raw, refusal)
		return
	}
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
			data[n]["embedding"] = encodeVector(vector)
		}
		tokens += countTokens(text)
	}
	return object{"object": "list", "data": data, "model": r.Model, "usage": object{"prompt_tokens": tokens, "total_tokens": tokens}}
}
