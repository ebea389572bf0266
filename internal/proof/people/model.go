package people

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// Script decides what the model answers. The zero Answer is the offline model's own.
type Script func(*offline.Request) offline.Answer

// Model is the offline model with a script, in this process, so that it is never killed. It is strict: a call that is not
// as the contract has it is kept for Irregular.
type Model struct {
	*offline.Server

	mu  sync.Mutex
	odd []string
}

// schemas are the names of the schemas of calls that ask for JSON, by their purpose.
var schemas = map[string]string{"extract": "extracted_facts", "consolidate": "decisions", "entities": "entities"}

// StartModel starts a model. Subjects make the vectors; nil leaves them to the offline model.
func StartModel(script Script, vectors *Subjects) (m *Model, err error) {
	m = &Model{}
	// Idle connections are closed soon, as providers do: what stays open is then held by the program.
	options := offline.Options{Idle: 3 * time.Second, Script: func(r *offline.Request) offline.Answer {
		if r.Kind != offline.KindEmbedding {
			m.look(r)
		}
		if script == nil {
			return offline.Answer{}
		}
		return script(r)
	}}
	if vectors != nil {
		options.Embed = func(text string, _ int) []float32 { return vectors.Vector(text) }
	}
	m.Server, err = offline.Start(options)
	return m, err
}

// look keeps what the contract forbids.
func (m *Model) look(r *offline.Request) {
	odd := ""
	switch purpose, format := r.Metadata["purpose"], r.TextOptions.Format; {
	case r.API == offline.APIChat: // which has no purpose and stores nothing
	case purpose == "":
		odd = "a call without a purpose"
	case r.Store:
		odd = purpose + ": it is to be stored"
	case schemas[purpose] != "" && (format.Type != "json_schema" || format.Name != schemas[purpose] || !bytes.Contains(r.Body, []byte(`"strict":true`))):
		odd = fmt.Sprintf("%s: no strict schema with the name %s: %+v", purpose, schemas[purpose], format)
	case purpose == "extract" && offline.NewMessages(r.Text) == "":
		odd = "an extraction without NEW MESSAGES"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if odd != "" && !slices.Contains(m.odd, odd) {
		m.odd = append(m.odd, odd)
	}
}

// Irregular returns an error when a call was not as the contract has it, or was refused, and forgets it.
func (m *Model) Irregular() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	odd := m.odd
	m.odd = nil
	odd = append(odd, m.Server.Irregular()...)
	for _, refusal := range m.Refused() {
		odd = append(odd, fmt.Sprintf("a call was refused: %+v", refusal))
	}
	if len(odd) == 0 {
		return nil
	}
	return errors.New("the model: " + strings.Join(odd, "; "))
}

// Keep is a fact as a good model proposes it: what to keep, and the words of the message that say it.
func Keep(what, quote string, evidence ...string) offline.Fact {
	return offline.Fact{
		Fact: what, Type: "fact", Confidence: 0.9, Horizon: "lasting", Quote: quote, Evidence: evidence,
		Entities: []offline.Entity{}, Relationships: []offline.Relationship{},
	}
}

// Encode returns JSON.
func Encode(value any) string {
	raw, _ := json.Marshal(value) // texts, numbers, ids and lists of them
	return string(raw)
}

// Subjects are words, each of them a subject to talk about. They make embeddings: texts of one subject are near each other,
// and all others as far as unrelated sentences are.
type Subjects struct{ Words []string }

// Of returns the subject of the n-th message of a conversation that wanders at random.
func (s Subjects) Of(n int) string {
	const scatter = 2654435761
	return s.Words[n*scatter>>16%len(s.Words)]
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
