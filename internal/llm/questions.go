package llm

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// keptQuestions is how many vectors of questions are kept, at 2 KB each; up to twice as many while they are replaced.
const keptQuestions = 512

// Questions makes the vectors of questions with an Embedder, and keeps the latest: the same question is asked for again
// when a reply is repeated, previewed or tried on another server. It is safe for concurrent use.
type Questions struct {
	embedder *Embedder

	mu sync.Mutex
	// recent and older are by the text's hash. When recent is full it becomes older, and the former older is forgotten.
	recent, older map[textHash][]float32
	flights       map[textHash]*flight
}

type textHash [sha256.Size]byte

func keyOf(text string) textHash { return sha256.Sum256([]byte(text)) }

// flight is a call for one text that any number of callers wait for. It ends when the last of them leaves.
type flight struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{} // closed when vector and err are set
	vector  []float32
	err     error
}

// NewQuestions returns a cache in front of an embedder.
func NewQuestions(embedder *Embedder) *Questions {
	return &Questions{embedder: embedder, recent: map[textHash][]float32{}, flights: map[textHash]*flight{}}
}

// Model is the embedder's.
func (q *Questions) Model() string { return q.embedder.Model() }

// Embed is the embedder's for a question, which is one text; several are passed on. The caller must not change the
// vectors. A failure is not kept. A vector that several ask for at once is billed to the first.
func (q *Questions) Embed(ctx context.Context, of recall.For, texts []string) ([][]float32, error) {
	if len(texts) != 1 {
		return q.embedder.Embed(ctx, of, texts)
	}
	key := keyOf(texts[0])
	vector, f := q.keptOrJoined(ctx, key, of, texts)
	if f == nil {
		return [][]float32{vector}, nil
	}
	select {
	case <-f.done:
		if f.err != nil {
			return nil, f.err
		}
		return [][]float32{f.vector}, nil
	case <-ctx.Done():
		q.leave(key, f)
		return nil, upstreamError(ctx, ctx.Err())
	}
}

// keptOrJoined returns the vector that is kept, or the flight that brings it.
func (q *Questions) keptOrJoined(ctx context.Context, key textHash, of recall.For, texts []string) ([]float32, *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if vector, ok := q.recent[key]; ok {
		return vector, nil
	}
	if vector, ok := q.older[key]; ok {
		q.keep(key, vector)
		return vector, nil
	}
	f := q.flights[key]
	if f == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight{cancel: cancel, done: make(chan struct{})}
		q.flights[key] = f
		go q.fly(ctx, key, f, of, texts)
	}
	f.waiting++
	return nil, f
}

// fly makes the call.
func (q *Questions) fly(ctx context.Context, key textHash, f *flight, of recall.For, texts []string) {
	defer close(f.done)
	defer f.cancel()
	vectors, err := q.embedder.Embed(ctx, of, texts)
	q.mu.Lock()
	defer q.mu.Unlock()
	if f.err = err; err == nil {
		f.vector = vectors[0]
		q.keep(key, f.vector)
	}
	if q.flights[key] == f {
		delete(q.flights, key)
	}
}

// leave ends a flight without waiters.
func (q *Questions) leave(key textHash, f *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if q.flights[key] == f {
			delete(q.flights, key)
		}
	}
}

// keep is called with the lock held.
func (q *Questions) keep(key textHash, vector []float32) {
	if len(q.recent) >= keptQuestions {
		q.older, q.recent = q.recent, make(map[textHash][]float32, keptQuestions)
	}
	q.recent[key] = vector
}
