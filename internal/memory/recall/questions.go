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

// Question is a question whose vector may be asked for.
type Question struct {
	Text string
	Of   For
	// Answered waits until it is known whether another search of the same question has found for sure what it is about: then a search
	// does not wait for the vector. Nil for no.
	Answered func(context.Context) bool
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

// Vector returns the vector of a question, and false if there is none, or it is not to be waited for and not kept. A failure is not kept.
// Who asks waits with all others for one call, which is billed to the first; it ends with the last who waits.
func (q *Questions) Vector(ctx context.Context, question Question, wait bool) (Vector, bool, error) {
	if q == nil {
		return Vector{}, false, nil
	}
	key := textHash(sha256.Sum256([]byte(question.Text)))
	one := q.join(ctx, key, question, wait)
	if one == nil {
		return Vector{}, false, nil
	}
	defer q.leave(key, one)
	select {
	case <-one.done:
	case <-ctx.Done():
		return Vector{}, false, ctx.Err()
	}
	return Vector{q.Embedder.Model(), one.vector}, one.vector != nil, one.err
}

// join returns the call for a question, which it makes if needed; nil for one that has not ended and is not to be waited for.
func (q *Questions) join(ctx context.Context, key textHash, question Question, wait bool) *asked {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := cmp.Or(q.recent[key], q.older[key])
	if !wait && (one == nil || !one.isDone()) {
		return nil
	}
	if one == nil {
		calling, cancel := context.WithCancel(context.WithoutCancel(ctx))
		one = &asked{cancel: cancel, done: make(chan struct{})}
		go q.ask(calling, key, one, question)
	}
	q.keep(key, one)
	one.waiting++
	return one
}

func (a *asked) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (q *Questions) ask(ctx context.Context, key textHash, one *asked, question Question) {
	defer one.cancel()
	vectors, err := q.Embedder.Embed(ctx, question.Of, []string{question.Text})
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
	if one.waiting--; one.waiting == 0 && !one.isDone() {
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
	vector, ok, err := q.Vector(ctx, Question{Text: text, Of: of}, true)
	if err != nil || !ok {
		return Vector{}, Scale{}, false
	}
	scale, known, err := q.Scales.Known(ctx)
	return vector, scale, err == nil && known && scale.Reads(text)
}

// BothWays searches by words, and then by meaning as well: where the vector is kept from before, or words found nothing that is
// sure, and it is waited for. A search by meaning that fails is an error only where it was waited for. It returns what words found with
// that error.
func BothWays[Found any](ctx context.Context, q *Questions, question Question,
	byWords func() (found Found, isSure bool, err error), byMeaning func(Found, Vector, Scale) (Found, error),
) (Found, error) {
	found, isSure, err := byWords()
	if err != nil || q == nil {
		return found, err
	}
	isSure = isSure || question.Answered != nil && question.Answered(ctx)
	vector, known, err := q.Vector(ctx, question, !isSure)
	var scale Scale
	if err == nil && known {
		scale, known, err = q.Scales.Known(ctx)
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
