package offline

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// Kind tells what a request is for.
type Kind string

// The kinds of requests.
const (
	KindReply     Kind = "reply"
	KindSummary   Kind = "summary"
	KindEmbedding Kind = "embedding"
)

// What the journal keeps at most, so that a long local run does not grow.
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

// Request is one accepted request, as it was asked and how it went.
type Request struct {
	Kind Kind
	// At is the arrival, with a monotonic reading.
	At time.Time
	// Body is the request body as received. Do not change it.
	Body json.RawMessage
	// Text is the input's text. One part is kept to the letter; several are joined by blank lines.
	Text string
	// Current is the message being answered in a main prompt, and Text in any other request.
	Current string
	// Model is "" when only a hosted prompt was named.
	Model        string
	Prompt       *PromptRef
	Instructions string
	Metadata     map[string]string
	Stream       bool
	// Store is true unless the request says false, as in the API.
	Store            bool
	MaxOutputTokens  int
	PromptCacheKey   string
	SafetyIdentifier string

	// Sent is the text that went out so far.
	Sent string
	// Status is the HTTP status, 0 while there is none.
	Status int
	// Ended tells that the request is through.
	Ended bool
	// HungUp tells that the caller left before the answer was whole.
	HungUp bool
}

// entry is a request in the journal. The journal's lock guards request; sent grows without it.
type entry struct {
	request Request
	text    string
	sent    atomic.Int64
}

func (e *entry) snapshot() Request {
	r := e.request
	r.Sent = e.text[:e.sent.Load()]
	return r
}

// journal is what was asked, oldest first, within bounds.
type journal struct {
	mu       sync.Mutex
	entries  []*entry
	bytes    int
	refusals []Refusal
	// changed is closed at the next change; nil while nobody waits, which watched tells without the
	// lock.
	changed chan struct{}
	watched atomic.Bool
}

// Requests are the accepted requests, oldest first: the last 10 000, or fewer when their bodies are
// over 32 MiB together.
func (s *Server) Requests() []Request { return s.journal.all() }

// Refused are the malformed requests that were refused, oldest first: the last 1 000.
func (s *Server) Refused() []Refusal {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return append([]Refusal(nil), s.journal.refusals...)
}

// Await waits for a request that matches, past ones included, and gives the oldest such. The function
// is called again whenever a request arrives, gets its status, sends text or ends. The error is the
// context's.
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
	found := make([]Request, len(j.entries))
	for i, e := range j.entries {
		found[i] = e.snapshot()
	}
	return found
}

// add records a request and drops the oldest ones beyond the bounds.
func (j *journal) add(r Request) *entry {
	e := &entry{request: r}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	j.bytes += weight(r)
	for len(j.entries) > keepRequests || j.bytes > keepBytes && len(j.entries) > 1 {
		j.bytes -= weight(j.entries[0].request)
		j.entries[0] = nil
		j.entries = j.entries[1:]
	}
	j.notify()
	return e
}

// weight is what a kept request costs in bytes, about: its body, and its text once more.
func weight(r Request) int { return len(r.Body) + len(r.Text) + len(r.Instructions) }

// update changes an entry under the lock.
func (j *journal) update(e *entry, change func(*entry)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(e)
	j.notify()
}

// progress records how many bytes of the text went out. It takes the lock only when somebody waits:
// this runs for each piece of each stream.
func (j *journal) progress(e *entry, sent int) {
	e.sent.Store(int64(sent))
	if j.watched.Load() {
		j.mu.Lock()
		j.notify()
		j.mu.Unlock()
	}
}

// watch gives a channel that is closed at the next change.
func (j *journal) watch() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		j.changed = make(chan struct{})
		j.watched.Store(true)
	}
	return j.changed
}

// notify wakes the watchers; the lock is held.
func (j *journal) notify() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
		j.watched.Store(false)
	}
}

func (j *journal) refused(r Refusal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refusals = append(j.refusals, r)
	if len(j.refusals) > keepRefusals {
		j.refusals = j.refusals[1:]
	}
}
