package people

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// Subjects are words, each of them a subject to talk about. As an http.Handler it serves embeddings: texts of one subject
// are near each other, and all others as far as unrelated sentences are.
type Subjects struct {
	Words []string
	// FailsOnceIn fails one request in so many, at random; 0 fails none.
	FailsOnceIn int
}

// Of returns the subject of the n-th message of a conversation that wanders at random.
func (s Subjects) Of(n int) string {
	const scatter = 2654435761
	return s.Words[n*scatter>>16%len(s.Words)]
}

func (s Subjects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.FailsOnceIn > 0 && rand.IntN(s.FailsOnceIn) == 0 { //nolint:gosec // spreads failures
		http.Error(w, `{"error": {"message": "away", "type": "server_error"}}`, http.StatusInternalServerError)
		return
	}
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
	for n, text := range asked.Input {
		data[n].Index = n
		data[n].Embedding, _ = binary.Append(nil, binary.LittleEndian, s.Vector(text)) // numbers of a fixed size
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": s.Model(), "data": data}) // a client that has gone needs none
}

// Model is the name of the embedder.
func (s Subjects) Model() string { return "subjects" }

// Vector returns a vector of unit length. Texts of one subject have a cosine of about .8, those of two of about 0; texts
// without a subject lie as unrelated sentences do for a real embedder, with a cosine of about .2.
func (s Subjects) Vector(text string) []float32 {
	const (
		noise         = 24 // dimensions
		lengthOfNoise = .5
		common        = .25 // of what has no subject
	)
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text))                  // never fails
	random := rand.New(rand.NewPCG(hash.Sum64(), 0)) //nolint:gosec // the same vector for the same text
	vector := make([]float64, recall.VectorSize)
	for n := range noise {
		vector[len(s.Words)+1+n] = random.NormFloat64() / math.Sqrt(noise) * lengthOfNoise
	}
	vector[len(s.Words)] = common
	for n, word := range s.Words {
		if strings.Contains(text, word) {
			vector[n], vector[len(s.Words)] = 1, 0
		}
	}
	length := 0.
	for _, number := range vector {
		length += number * number
	}
	unit := make([]float32, len(vector))
	for n, number := range vector {
		unit[n] = float32(number / math.Sqrt(length))
	}
	return unit
}
