package offline

import (
	"cmp"
	"net/http"
)

// Hashing is the name of this model's own embeddings, which know only whether words are the same.
const Hashing = "hashing"

// listModels answers GET /v1/models.
func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	names := s.options.Models
	if names == nil {
		names = []string{"gpt-5.6-terra", "gpt-5.6-sol", hostedModel, "text-embedding-3-small", cmp.Or(s.options.Embedder, Hashing)}
	}
	models := make([]model, len(names))
	for i, name := range names {
		models[i] = model{name, "model", 0, "throughline-offline"}
	}
	s.sendJSON(w, http.StatusOK, map[string]any{"object": "list", "data": models})
}
