package offline

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is what a request is for.
type Kind string

// The kinds of requests.
const (
	KindReply       Kind = "reply"
	KindSummary     Kind = "summary"
	KindEmbedding   Kind = "embedding"
	KindExtract     Kind = "extract"
	KindConsolidate Kind = "consolidate"
	KindEntities    Kind = "entities"
	KindTopic       Kind = "topic"
	KindRewrite     Kind = "rewrite"
)

// Bounds of the journal: a long local run must not grow without end.
const (
	keepRequests = 10_000
	keepRefusals = 1_000
	keepBytes    = 32 << 20
)

// PromptRef names a hosted prompt. Version is "" when the request gave none.
type PromptRef struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

// Request is one accepted request and the state of its answer.
type Request struct {
	Kind Kind `json:"-"`
	// At is the arrival, with a monotonic reading.
	At time.Time `json:"-"`
	// Body is the request body as received. Do not change it.
	Body json.RawMessage `json:"-"`
	// Text is the input's text: of several parts, joined by blank lines.
	Text string `json:"-"`
	// Current is the message being answered in a main prompt, and Text in any other request.
	Current string `json:"-"`

	Input any `json:"input"`
	// Model is "" when only a hosted prompt was named.
	Model        string            `json:"model"`
	Prompt       *PromptRef        `json:"prompt"`
	Instructions string            `json:"instructions"`
	Metadata     map[string]string `json:"metadata"`
	Stream       bool              `json:"stream"`
	// Store is true unless the request says false, as in the API.
	Store            bool   `json:"store"`
	MaxOutputTokens  int    `json:"max_output_tokens"`
	PromptCacheKey   string `json:"prompt_cache_key"`
	SafetyIdentifier string `json:"safety_identifier"`
	// TextOptions are the request's options for the text of its answer.
	TextOptions struct {
		Format struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"format"`
	} `json:"text"`

	// Sent is the text that was sent so far.
	Sent string `json:"-"`
	// Status is the HTTP status, 0 while there is none.
	Status int `json:"-"`
	// Ended is true once the request is over.
	Ended bool `json:"-"`
	// HungUp is true when the caller left before the answer was complete.
	HungUp bool `json:"-"`
}

// inputText returns the text of an input: one part unchanged, several joined by blank lines.
func inputText(input any) string {
	parts := textsIn(input)
	if len(parts) == 1 {
		return parts[0]
	}
	for i := range parts {
		parts[i] = strings.Trim(parts[i], "\n")
	}
	return strings.Join(parts, "\n\n")
}

// textsIn returns a text, or the texts in a list of texts, messages or parts of messages.
func textsIn(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case map[string]any:
		return append(textsIn(v["content"]), textsIn(v["text"])...)
	case []any:
		var texts []string
		for _, item := range v {
			texts = append(texts, textsIn(item)...)
		}
		return texts
	}
	return nil
}

// journal holds the latest requests and refusals, oldest first, within bounds.
type journal struct {
	mu       sync.Mutex
	requests []*Request
	bytes    int
	refusals []string
	// changed is closed at the next change; nil while nothing waits for one.
	changed chan struct{}
}

// Requests are the accepted requests, oldest first: the last 10 000, or fewer when their bodies are
// over 32 MiB together.
func (s *Server) Requests() []Request { return s.journal.all() }

// Refused says of the requests that could not be read why, oldest first: the last 1 000.
func (s *Server) Refused() []string {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return slices.Clone(s.journal.refusals)
}

// Await waits for a request that matches, past ones included, and returns the oldest such. It calls match again
// whenever a request arrives, gets its status, sends text or ends. The error is the context's.
func (s *Server) Await(ctx context.Context, match func(Request) bool) (Request, error) {
	for {
		changed := s.journal.watch()
		for _, r := range s.journal.all() {
			if match(r) {
				return r, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, context.Cause(ctx)
		}
	}
}

func (j *journal) all() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := make([]Request, len(j.requests))
	for i, r := range j.requests {
		found[i] = *r
	}
	return found
}

// add records a request and drops the oldest ones beyond the bounds.
func (j *journal) add(r Request) *Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests = append(j.requests, &r)
	j.bytes += weight(&r)
	for len(j.requests) > keepRequests || j.bytes > keepBytes && len(j.requests) > 1 {
		j.bytes -= weight(j.requests[0])
		j.requests[0] = nil
		j.requests = j.requests[1:]
	}
	j.notify()
	return &r
}

// weight is about what a stored request costs in bytes: its body, and its text once more.
func weight(r *Request) int { return len(r.Body) + len(r.Text) + len(r.Instructions) }

// update changes a request under the lock.
func (j *journal) update(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
	j.notify()
}

// watch returns a channel that is closed at the next change.
func (j *journal) watch() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return j.changed
}

// notify wakes the watchers; the lock is held.
func (j *journal) notify() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

func (j *journal) refused(why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refusals = append(j.refusals, why)
	if len(j.refusals) > keepRefusals {
		j.refusals = j.refusals[1:]
	}
}
