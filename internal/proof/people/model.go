package people

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Script decides what the model answers. The zero Answer is the offline model's own.
type Script func(*offline.Request) offline.Answer

// Model is the offline model with a script, in this process, so that it is never killed. It is strict: a call that is not
// as the contract has it is kept for Irregular.
type Model struct {
	*offline.Server
	Base string // what clients take as their base URL; it ends in /v1
	stop func()

	mu  sync.Mutex
	odd []string
}

// schemas are the names of the schemas of calls that ask for JSON, by their purpose.
var schemas = map[string]string{"extract": "extracted_facts", "consolidate": "decisions", "entities": "entities"}

// StartModel starts a model. Subjects make the vectors; nil leaves them to the offline model.
func StartModel(ctx context.Context, script Script, vectors *Subjects) (*Model, error) {
	m := &Model{}
	m.Server = offline.New(offline.Options{Script: func(r *offline.Request) offline.Answer {
		if r.Kind != offline.KindEmbedding {
			m.look(r)
		}
		if script == nil {
			return offline.Answer{}
		}
		return script(r)
	}})
	routes := http.NewServeMux()
	routes.Handle("/", m.Server)
	if vectors != nil {
		routes.Handle("/v1/embeddings", vectors)
	}
	// Idle connections are closed soon, as providers do: what stays open is then held by the program.
	base, stop, err := kit.Serve(ctx, routes, 3*time.Second)
	m.Base = base + "/v1"
	m.stop = func() { stop(); m.Server.Close() }
	return m, err
}

// Close ends all answers and closes all connections.
func (m *Model) Close() { m.stop() }

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

// What an extraction proposes and a consolidation decides has the form that the contract gives it.
type (
	// Fact is one proposed memory.
	Fact = offline.Fact
	// Entity is a thing that a fact is about.
	Entity = offline.Entity
	// Relationship is between two of them.
	Relationship = offline.Relationship
	// Decision is what becomes of a candidate.
	Decision = offline.Decision
)

// Keep is a fact as a good model proposes it: what to keep, and the words of the message that say it.
func Keep(what, quote string, evidence ...string) Fact {
	return Fact{
		Fact: what, Type: "fact", Confidence: 0.9, Horizon: "lasting", Quote: quote, Evidence: evidence,
		Entities: []Entity{}, Relationships: []Relationship{},
	}
}

// Encode returns JSON.
func Encode(value any) string {
	raw, _ := json.Marshal(value) // texts, numbers, ids and lists of them
	return string(raw)
}
