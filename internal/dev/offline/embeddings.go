package offline

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// The sizes of vectors. A request may ask for less, as with OpenAI's third generation.
const (
	defaultDimensions = 1536
	maxDimensions     = 3072
	maxEmbeddings     = 2048
)

var embeddingFields = map[string]check{
	"dimensions":      isInteger(1, maxDimensions),
	"encoding_format": isOneOf("float", "base64"),
	"input":           isEmbeddingInput,
	"model":           isString,
	"user":            isString,
}

// isEmbeddingInput is a text or several, none empty. The API also takes lists of token numbers; the
// offline model does not.
func isEmbeddingInput(path string, value any) *apiError {
	switch input := value.(type) {
	case string:
		if input != "" {
			return nil
		}
		return bad("invalid_value", path, "Invalid '%s': input cannot be an empty string.", path)
	case []any:
		if len(input) == 0 || len(input) > maxEmbeddings {
			return bad("invalid_value", path, "Invalid '%s': expected 1 to %d inputs, but got %d.", path, maxEmbeddings, len(input))
		}
		for n, item := range input {
			if text, ok := item.(string); !ok || text == "" {
				return bad("invalid_value", path, "Invalid '%s[%d]': expected a string that is not empty.", path, n)
			}
		}
		return nil
	}
	return wrongType(path, "one of a string or array of strings", value)
}

// embeddingRequest is a checked request for embeddings.
type embeddingRequest struct {
	texts      []string
	model      string
	dimensions int
	base64     bool
}

func decodeEmbeddings(raw []byte, models []string) (embeddingRequest, *apiError) {
	body, err := decodeObject(raw, embeddingFields)
	if err != nil {
		return embeddingRequest{}, err
	}
	model, _ := body["model"].(string)
	switch {
	case body["input"] == nil:
		return embeddingRequest{}, missing("input")
	case model == "":
		return embeddingRequest{}, missing("model")
	case !known(model, models):
		e := bad("model_not_found", "model", "The model '%s' does not exist or you do not have access to it.", model)
		e.Status = http.StatusNotFound
		return embeddingRequest{}, e
	}
	request := embeddingRequest{model: model, dimensions: modelDimensions(model), base64: body["encoding_format"] == "base64"}
	if number, ok := body["dimensions"].(json.Number); ok {
		n, _ := number.Int64() // it was checked
		request.dimensions = int(n)
	}
	switch input := body["input"].(type) {
	case string:
		request.texts = []string{input}
	case []any:
		for _, item := range input {
			text, _ := item.(string)
			request.texts = append(request.texts, text)
		}
	}
	return request, nil
}

func modelDimensions(model string) int {
	if strings.HasSuffix(model, "-large") {
		return maxDimensions
	}
	return defaultDimensions
}

// embeddings answers POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	raw, refusal := readBody(r)
	var request embeddingRequest
	if refusal == nil {
		request, refusal = decodeEmbeddings(raw, s.options.Models)
	}
	if refusal != nil {
		s.refuse(w, r, raw, refusal)
		return
	}
	text := strings.Join(request.texts, "\n")
	recorded := s.journal.add(Request{
		Kind:    KindEmbedding,
		At:      time.Now(),
		Body:    raw,
		Text:    text,
		Current: text,
		Model:   request.model,
	})
	done, err := s.beforeHeaders(r.Context(), w, recorded, s.answerFor(*recorded))
	if !done {
		s.journal.update(func() { recorded.Status = http.StatusOK })
		s.sendJSON(w, http.StatusOK, request.answer())
	}
	s.finish(recorded, err)
}

// embeddingList is the answer in the API's shape.
type embeddingList struct {
	Object string          `json:"object"`
	Data   []embeddingItem `json:"data"`
	Model  string          `json:"model"`
	Usage  struct {
		PromptTokens int `json:"prompt_tokens"`
		TotalTokens  int `json:"total_tokens"`
	} `json:"usage"`
}

type embeddingItem struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	// Embedding is a list of numbers, or base64 of little-endian float32s.
	Embedding any `json:"embedding"`
}

func (r embeddingRequest) answer() embeddingList {
	list := embeddingList{Object: "list", Model: r.model}
	for n, text := range r.texts {
		var vector any = embed(text, r.dimensions)
		if r.base64 {
			vector = encodeVector(embed(text, r.dimensions))
		}
		list.Data = append(list.Data, embeddingItem{"embedding", n, vector})
		list.Usage.PromptTokens += countTokens(text)
	}
	list.Usage.TotalTokens = list.Usage.PromptTokens
	return list
}
