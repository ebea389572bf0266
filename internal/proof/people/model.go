package people

import (
	"bytes"
	"cmp"
	"context"
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
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Script decides what the model answers. The zero Answer is the offline model's own.
type Script func(*offline.Request) offline.Answer

// Model is the offline model with a script, in this process, so that it is never killed. It is strict: a call that is not
// as the contract has it is kept for Irregular.
type Model struct {
	*offline.Server
	Base string // what clients take as their base URL; it ends in /v1
	// Close ends all answers and closes all connections.
	Close func()

	mu  sync.Mutex
	odd []string
}

// schemas are the names of the schemas of calls that ask for JSON, by their purpose.
var schemas = map[string]string{"extract": "extracted_facts", "consolidate": "decisions", "entities": "entities"}

// StartModel starts a model. Subjects make the vectors; nil leaves them to the offline model.
func StartModel(ctx context.Context, script Script, vectors *Subjects) (*Model, error) {
	m := &Model{}
	options := offline.Options{Script: func(r *offline.Request) offline.Answer {
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
	m.Server = offline.New(options)
	// Idle connections are closed soon, as providers do: what stays open is then held by the program.
	base, stop, err := kit.Serve(ctx, m.Server, 3*time.Second)
	m.Base = base + "/v1"
	m.Close = func() { stop(); m.Server.Close() }
	return m, err
}

// look keeps what the contract forbids.
func (m *Model) look(r *offline.Request) {
	odd := ""
	switch purpose, format := r.Metadata["purpose"], r.TextOptions.Format; {
	case purpose == "":
		odd = "a call without a purpose"
	case r.Store:
		odd = purpose + ": it is to be stored"
	case schemas[purpose] != "" && (format.Type != "json_schema" || format.Name != schemas[purpose] || !bytes.Contains(r.Body, []byte(`"strict":true`))):
		odd = fmt.Sprintf("%s: no strict schema with the name %s: %+v", purpose, schemas[purpose], format)
	case purpose == "extract" && !strings.Contains("\n"+r.Text, newMessages):
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
	for _, refusal := range m.Refused() {
		odd = append(odd, fmt.Sprintf("a call was refused: %+v", refusal))
	}
	if len(odd) == 0 {
		return nil
	}
	return errors.New("the model: " + strings.Join(odd, "; "))
}

const newMessages = "\nNEW MESSAGES"

// Line is a line of what an extraction or a consolidation reads: U1, A2, C1 or M1, when it was said, and its text.
type Line struct{ Alias, Date, Text string }

// ReadLines returns the lines that begin with an alias with one of the letters, each with what follows it.
func ReadLines(input, letters string) (lines []Line) {
	for one := range strings.SplitSeq(input, "\n") {
		if found := aliased.FindStringSubmatch(one); found != nil && strings.ContainsRune(letters, rune(found[1][0])) {
			lines = append(lines, Line{Alias: found[1], Date: found[2], Text: found[3]})
		} else if len(lines) > 0 {
			lines[len(lines)-1].Text += "\n" + one
		}
	}
	for n := range lines {
		lines[n].Text = strings.TrimRight(lines[n].Text, "\n ")
	}
	return lines
}

// NewMessages returns the messages that an extraction is about.
func NewMessages(input string) []Line {
	_, fresh, _ := strings.Cut("\n"+input, newMessages)
	return ReadLines(fresh, "UA")
}

// Decide answers a consolidation: what is decided on each candidate beside the memories that it is shown with. nil adds it.
func Decide(input string, decide func(candidate Line, memories []Line) *offline.Decision) string {
	var candidates, memories []Line
	for _, one := range ReadLines(input, "CM") {
		one.Text, _, _ = strings.Cut(one.Text, "\n\n")
		if one.Alias[0] == 'C' {
			candidates = append(candidates, one)
		} else {
			memories = append(memories, one)
		}
	}
	decisions := []offline.Decision{}
	for _, one := range candidates {
		decision := cmp.Or(decide(one, memories), &offline.Decision{Action: "ADD", Reason: "It is new."})
		decision.Candidate = one.Alias
		decisions = append(decisions, *decision)
	}
	return Encode(map[string]any{"decisions": decisions})
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
