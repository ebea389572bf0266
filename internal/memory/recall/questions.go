package recall

import "context"

// Questions makes the vectors of questions, and says what their cosines mean. A nil one makes none: then all goes by words.
type Questions struct {
	Embedder Embedder
	Scales   *Scales
}

// Pending is the vector of a question that is being made.
type Pending struct {
	questions *Questions
	made      chan questionVector // nil where none is made
}

type questionVector struct {
	values []float32
	err    error
}

// Begin begins to make the vector of a question. It ends when ctx does. There is none of a model whose vectors have no
// meaning.
func (q *Questions) Begin(ctx context.Context, of For, question string) Pending {
	if q == nil || meaningWeight(q.Embedder.Model()) == 0 {
		return Pending{}
	}
	p := Pending{questions: q, made: make(chan questionVector, 1)}
	go func() {
		vectors, err := q.Embedder.Embed(ctx, of, []string{question})
		if err != nil || len(vectors) != 1 {
			p.made <- questionVector{err: err}
			return
		}
		p.made <- questionVector{values: vectors[0]}
	}()
	return p
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
	if p.made == nil {
		return Vector{}, false, nil
	}
	if !wait && len(p.made) == 0 {
		return Vector{}, false, nil
	}
	select {
	case made := <-p.made:
		p.made <- made // for the next one that asks
		if !wait {
			made.err = nil
		}
		return Vector{p.questions.Embedder.Model(), made.values}, made.values != nil, made.err
	case <-ctx.Done():
		return Vector{}, false, ctx.Err()
	}
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
	better, err := withMeaning(ctx, asked, found, !isSure, byMeaning)
	if isSure {
		return better, nil
	}
	return better, err
}

// withMeaning returns what is found by meaning; what was found before where that cannot be known.
func withMeaning[Found any](
	ctx context.Context, asked Pending, before Found, wait bool, byMeaning func(Found, Vector, Scale) (Found, error),
) (Found, error) {
	vector, ok, err := asked.Vector(ctx, wait)
	if err != nil || !ok {
		return before, err
	}
	scale, known, err := asked.questions.Scales.Known(ctx)
	if err != nil || !known {
		return before, err
	}
	found, err := byMeaning(before, vector, scale)
	if err != nil {
		return before, err
	}
	return found, nil
}
