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
	KindTitle       Kind = "title"
)

// API is a wire on which replies are asked for.
type API string

// The wires.
const (
	APIResponses API = "responses"
	APIChat      API = "chat"
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
	// API is the wire, Key the bearer token, "" for none.
	API API    `json:"-"`
	Key string `json:"-"`
	// Text is the text of what the user says: of several parts, joined by blank lines.
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

	// Tools are the names of the tools that are offered, Choice is the request's tool_choice, "" for none.
	Tools  []string `json:"-"`
	Choice string   `json:"-"`
	// Step is how many earlier steps came back, Outputs the outputs of their calls by call id.
	Step    int               `json:"-"`
	Outputs map[string]string `json:"-"`
	calls   []said

	Include       []string `json:"include"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
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

// inputText returns the text of an input: a text, or those in a list of texts, messages or parts of messages, joined by
// blank lines.
func inputText(input any) string {
	switch v := input.(type) {
	case string:
		return v
	case map[string]any:
		return inputText([]any{v["content"], v["text"]})
	case []any:
		var texts []string
		for _, part := range v {
			if text := inputText(part); text != "" {
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, "\n\n")
	}
	return ""
}

// Bounds of the journal: a long local run must not grow without end.
const (
	keepRefusals = 1_000
	keepBytes    = 32 << 20
)

// journal holds the latest requests, oldest first, and the first refusals.
type journal struct {
	mu       sync.Mutex
	requests []*Request
	bytes    int
	refusals []string
	odd      []string
	// changed is closed at the next change.
	changed chan struct{}
}

// Requests are the accepted requests, oldest first: the last ones, when their bodies are over 32 MiB together.
func (s *Server) Requests() []Request {
	found, _ := s.journal.all()
	return found
}

// Refused says of the requests that were refused why, oldest first, but for those that the options refuse.
func (s *Server) Refused() []string {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return slices.Clone(s.journal.refusals)
}

// Irregular says what of the accepted requests our contract forbids, though the APIs take it, oldest first.
func (s *Server) Irregular() []string {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return slices.Clone(s.journal.odd)
}

// Await waits for a request that matches, past ones included, and returns the oldest such. It calls match again
// whenever a request arrives, gets its status, sends text or ends. The error is the context's.
func (s *Server) Await(ctx context.Context, match func(Request) bool) (Request, error) {
	for {
		requests, changed := s.journal.all()
		if at := slices.IndexFunc(requests, match); at >= 0 {
			return requests[at], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, context.Cause(ctx)
		}
	}
}

// all returns the requests, and a channel that is closed when they change.
func (j *journal) all() ([]Request, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := make([]Request, len(j.requests))
	for i, r := range j.requests {
		found[i] = *r
	}
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return found, j.changed
}

// add records a request and drops the oldest ones beyond the bound.
func (j *journal) add(r Request) *Request {
	j.update(func() {
		j.requests = append(j.requests, &r)
		j.bytes += len(r.Body)
		for j.bytes > keepBytes && len(j.requests) > 1 {
			j.bytes -= len(j.requests[0].Body)
			j.requests[0] = nil
			j.requests = j.requests[1:]
		}
	})
	return &r
}

// update changes the journal, or a request in it, under the lock and wakes who waits for a change.
func (j *journal) update(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

func (j *journal) refused(why string) { j.keep(&j.refusals, why) }

func (j *journal) irregular(what string) { j.keep(&j.odd, what) }

func (j *journal) keep(in *[]string, text string) {
	j.update(func() {
		if len(*in) < keepRefusals {
			*in = append(*in, text)
		}
	})
}

// heard is all that the model was told, for counting.
func (r *Request) heard() string {
	all := []string{r.Instructions, r.Text}
	for _, call := range r.calls {
		all = append(all, call.name+call.text+r.Outputs[call.callID])
	}
	return strings.Join(all, "\n")
}
