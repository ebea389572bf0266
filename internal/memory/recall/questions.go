package recall

import (
	"cmp"
	"context"
	"crypto/sha256"
	"sync"
)

// keptQuestions is how many vectors of questions are kept, at 2 KB each; up to twice as many while they are replaced.
const keptQuestions = 512

// Questions makes the vectors of questions, and says what their cosines mean. It keeps the latest: the same question is asked for by
// several searches, and again when a reply is repeated, previewed or tried on another server. A nil one makes none: then all goes by
// words. Embedder and Scales are required. It is safe for concurrent use.
type Questions struct {
	Embedder Embedder
	Scales   *Scales

	mu sync.Mutex
	// recent and older are by the text's hash. When recent is full it becomes older, and the former older is forgotten.
	recent, older map[textHash]*asked
}

type textHash [sha256.Size]byte

// asked is a question whose vector is made or kept. Any number of callers wait for the call, which ends when the last of them leaves.
type asked struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{} // closed when vector and err are set
	vector  []float32
	err     error
}

// Pending is the vector of a question that is being made.
type Pending struct {
	questions *Questions
	asked     *asked // nil where none is made
}

// Begin begins to make the vector of a question, unless it is kept. The caller has left when ctx ends. A failure is not kept. A vector
// that several ask for at once is billed to the first.
func (q *Questions) Begin(ctx context.Context, of For, question string) Pending {
	if q == nil {
		return Pending{}
	}
	key := textHash(sha256.Sum256([]byte(question)))
	q.mu.Lock()
	defer q.mu.Unlock()
	one := cmp.Or(q.recent[key], q.older[key])
	if one == nil {
		calling, cancel := context.WithCancel(context.WithoutCancel(ctx))
		one = &asked{cancel: cancel, done: make(chan struct{})}
		go q.ask(calling, key, one, of, question)
	}
	q.keep(key, one)
	one.waiting++
	context.AfterFunc(ctx, func() { q.leave(key, one) })
	return Pending{q, one}
}

func (q *Questions) ask(ctx context.Context, key textHash, one *asked, of For, question string) {
	defer one.cancel()
	vectors, err := q.Embedder.Embed(ctx, of, []string{question})
	q.mu.Lock()
	defer q.mu.Unlock()
	defer close(one.done)
	if one.err = err; err != nil {
		q.forget(key, one)
		return
	}
	one.vector = vectors[0]
}

// leave gives up a call that is not waited for any more.
func (q *Questions) leave(key textHash, one *asked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one.waiting--; one.waiting > 0 {
		return
	}
	select {
	case <-one.done:
	default:
		one.cancel()
		q.forget(key, one)
	}
}

// keep is called with the lock held, as forget is.
func (q *Questions) keep(key textHash, one *asked) {
	if q.recent == nil || len(q.recent) >= keptQuestions && q.recent[key] != one {
		q.older, q.recent = q.recent, make(map[textHash]*asked, keptQuestions)
	}
	q.recent[key] = one
}

func (q *Questions) forget(key textHash, one *asked) {
	for _, kept := range []map[textHash]*asked{q.recent, q.older} {
		if kept[key] == one {
			delete(kept, key)
		}
	}
}

// Meaning returns the vector of a text, and the scale of its cosines; false where there is none, or it says nothing about the
// text.
func (q *Questions) Meaning(ctx context.Context, of For, text string) (Vector, Scale, bool) {
	if text == "" {
		return Vector{}, Scale{}, false
	}
	vector, ok, err := q.Begin(ctx, of, text).Vector(ctx, true)
	if err != nil || !ok {
		return Vector{}, Scale{}, false
	}
	scale, known, err := q.Scales.Known(ctx)
	return vector, scale, err == nil && known && scale.Reads(text)
}

// Vector returns the vector, and false if there is none, or not yet and it is not to be waited for. A failure is an
// error only if it was waited for.
func (p Pending) Vector(ctx context.Context, wait bool) (Vector, bool, error) {
	if p.asked == nil {
		return Vector{}, false, nil
	}
	if !wait {
		select {
		case <-p.asked.done:
		default:
			return Vector{}, false, nil
		}
	}
	select {
	case <-p.asked.done:
	case <-ctx.Done():
		return Vector{}, false, ctx.Err()
	}
	err := p.asked.err
	if !wait {
		err = nil
	}
	return Vector{p.questions.Embedder.Model(), p.asked.vector}, p.asked.vector != nil, err
}

// BothWays searches by words, and then by meaning as well: where the vector is there already, or words found nothing that is
// sure, and it is waited for. A search by meaning that fails is an error only where words found nothing sure. It returns what
// words found with that error.
func BothWays[Found any](
	ctx context.Context, asked Pending, byWords func() (found Found, isSure bool, err error), byMeaning func(Found, Vector, Scale) (Found, error),
) (Found, error) {
	found, isSure, err := byWords()
	if err != nil {
		return found, err
	}
	vector, known, err := asked.Vector(ctx, !isSure)
	var scale Scale
	if err == nil && known {
		scale, known, err = asked.questions.Scales.Known(ctx)
	}
	if err == nil && known {
		var better Found
		if better, err = byMeaning(found, vector, scale); err == nil {
			return better, nil
		}
	}
	if isSure {
		return found, nil
	}
	return found, err
}
