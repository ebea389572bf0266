package kit

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
)

// ServeVectors answers a request of OpenAI's embeddings API with the vectors of a model.
func ServeVectors(w http.ResponseWriter, r *http.Request, model string, vectorsOf func(texts []string) [][]float32) {
	var asked struct{ Input []string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	type item struct {
		Index     int    `json:"index"`
		Embedding []byte `json:"embedding"` // in base64, as it is asked for
	}
	data := make([]item, len(asked.Input))
	for n, vector := range vectorsOf(asked.Input) {
		data[n].Index = n
		for _, number := range vector {
			data[n].Embedding = binary.LittleEndian.AppendUint32(data[n].Embedding, math.Float32bits(number))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": model, "data": data}) // a client that has gone needs none
}
