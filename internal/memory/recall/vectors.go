package recall

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// VectorSize is the length of stored vectors. Those of models with fewer dimensions end with zeros, which changes no
// cosine.
const VectorSize = 512

const (
	// vectorsPerCall and tokensPerCall bound one call. OpenAI takes 300 000 tokens, but counts those of another
	// tokenizer, to which some languages are four times as long.
	vectorsPerCall = 128
	tokensPerCall  = 60_000
	// turnTokens is the most that a vector is made of.
	turnTokens = 1800
	// embedTimeout bounds each call of the embedder.
	embedTimeout = time.Minute
)

// Bare is a thing without a vector of the current model: a turn, which Seq names, or a memory, which ID names.
type Bare struct {
	Seq int64
	ID  uuid.UUID
	// Words identifies the text of the vector: it changes with the thing's words.
	Words string
	Text  string
	// Tokens is the size of Text, if it may be long.
	Tokens int
}

// Made is a thing with its vector of unit length, which is nil if the model finds no meaning in it.
type Made struct {
	Bare

	Vector []float32
}

// VectorStore keeps the vectors of one kind of things. Each has an owner, whose job makes them: a turn its chat, a memory its
// user.
type VectorStore interface {
	// Bare returns the first of an owner's things, after one, that have no vector of the model, and whose they are; at most so
	// many.
	Bare(ctx context.Context, owner uuid.UUID, model string, after Bare, most int) ([]Bare, For, error)
	// Save stores vectors where the words are still those that they were made of, and returns how many.
	Save(ctx context.Context, owner uuid.UUID, model string, made []Made) (int, error)
	// Finish completes a job with its output, unless the owner has things without a vector of the model: then it reports
	// false.
	Finish(ctx context.Context, owner uuid.UUID, model string, jobID int64, output any) (bool, error)
	// Owners returns those of things without a vector of the model that have no job. With the jobs that wait already they are
	// at most so many of each kind: those of things that have no vector at all, and those whose vectors are another model's.
	Owners(ctx context.Context, model string, most int) (fresh, outdated []uuid.UUID, err error)
}

// Vectors gives things of one kind the vectors that they lack. It is safe for concurrent use. All fields without a default are
// required.
type Vectors struct {
	// Things names what gets vectors in logs and outputs of jobs: turns or memories.
	Things   string
	Store    VectorStore
	Embedder Embedder
	// Scales are measured before there are vectors to which they apply.
	Scales []*Scales
	// Count is told how many vectors were stored. Defaults to nothing.
	Count  func(vectors int)
	Logger *slog.Logger
	// Turn is how long one call of Embed goes on; then the next owner has its turn. Defaults to 30 s.
	Turn time.Duration
	// Rest leaves the embedder alone while it fails. It may be shared with others that ask the same embedder.
	Rest *Rest
}

// Embedded is what Embed did.
type Embedded struct {
	// Made is how many things have their vector now. Changed is how many were changed or deleted meanwhile.
	Made, Changed, Calls int
	// Paused is whether there is more to do.
	Paused bool
	// Rest is for how long the embedder is left alone because it failed, or the owner has spent too much; 0 if it is not.
	Rest time.Duration
}

// Embed gives an owner's things the vectors that they lack. No transaction is open while the model works. A failure of the
// model is a *fault.Error with an upstream code; earlier vectors are stored. It leaves the embedder alone, for all, unless that
// answers others: then it is of these things, of which each attempt asks for fewer at once, until one at which the model fails
// alone has none.
func (v *Vectors) Embed(ctx context.Context, owner uuid.UUID, attempt int) (done Embedded, err error) {
	if done.Rest = v.Rest.Left(); done.Rest > 0 {
		return done, nil
	}
	began := time.Now()
	defer func() { v.report(ctx, owner, done, time.Since(began)) }()
	if err := v.measured(ctx); err != nil {
		return done, v.Rest.Failed(ctx, v.Embedder.Model(), err)
	}
	most := max(1, vectorsPerCall>>min(3*max(0, attempt-1), 31))
	for last := (Bare{}); ; {
		bare, of, err := v.Store.Bare(ctx, owner, v.Embedder.Model(), last, most)
		if err != nil || len(bare) == 0 {
			return done, err
		}
		if done.Calls > 0 && time.Since(began) >= cmp.Or(v.Turn, 30*time.Second) {
			done.Paused = true
			return done, nil
		}
		bare = oneCall(bare)
		if err := v.embed(ctx, owner, of, bare, &done); err != nil {
			if denied, ok := errors.AsType[*work.DeniedError](err); ok {
				done.Rest = time.Until(denied.Until)
				return done, nil
			}
			switch {
			case !v.answersOthers(ctx, err):
				return done, v.Rest.Failed(ctx, v.Embedder.Model(), err)
			case most > 1:
				return done, err
			}
			if _, err := v.Store.Save(ctx, owner, v.Embedder.Model(), []Made{{Bare: bare[0]}}); err != nil {
				return done, err
			}
		}
		last = bare[len(bare)-1]
	}
}

// Finish completes the job of Embed. It reports false if things came meanwhile: who added them has inserted no other job, as
// this one was running.
func (v *Vectors) Finish(ctx context.Context, owner uuid.UUID, jobID int64, done Embedded) (bool, error) {
	output := map[string]int{v.Things: done.Made, "changed": done.Changed, "calls": done.Calls}
	return v.Store.Finish(ctx, owner, v.Embedder.Model(), jobID, output)
}

// measured makes sure that the model's scales are known.
func (v *Vectors) measured(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	for _, scales := range v.Scales {
		if _, err := scales.Measured(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (v *Vectors) embed(ctx context.Context, owner uuid.UUID, of For, bare []Bare, done *Embedded) error {
	texts := make([]string, len(bare))
	for n := range bare {
		texts[n] = bare[n].Text
	}
	calling, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	vectors, err := v.Embedder.Embed(calling, of, texts)
	if err != nil {
		return err
	}
	v.Rest.Worked()
	made := make([]Made, len(bare))
	for n := range made {
		made[n] = Made{bare[n], vectors[n]}
	}
	saved, err := v.Store.Save(ctx, owner, v.Embedder.Model(), made)
	if err != nil {
		return err
	}
	if v.Count != nil {
		v.Count(saved)
	}
	done.Calls++
	done.Made += saved
	done.Changed += len(made) - saved
	return nil
}

// answersOthers reports whether the embedder, which has failed but is not overloaded, answers a text that is no user's.
func (v *Vectors) answersOthers(ctx context.Context, failure error) bool {
	code := fault.CodeOf(failure)
	if code != fault.UpstreamFailed && code != fault.UpstreamTimeout || ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, embedTimeout/6)
	defer cancel()
	_, err := v.Embedder.Embed(ctx, For{}, []string{"The key is under the mat."})
	return err == nil
}

// oneCall returns the first things, at least one, that fit one call.
func oneCall(bare []Bare) []Bare {
	tokens := 0
	for n := range bare {
		if tokens += bare[n].Tokens; tokens > tokensPerCall && n > 0 {
			return bare[:n]
		}
	}
	return bare
}

// TurnText returns the text that a turn's vector is made of, and its tokens.
func TurnText(messages []memory.Message) (string, int) {
	var lines []string
	for _, m := range messages {
		if content := strings.TrimSpace(m.Content); content != "" {
			lines = append(lines, m.Role.Label()+": "+content)
		}
	}
	return text.Clip(strings.Join(lines, "\n"), turnTokens)
}

// Owners is the store's, for the sweep, which asks no model. There are none while the embedder is left alone. Where a scale is to
// be measured again, the nil id is one of them: its job does that alone.
func (v *Vectors) Owners(ctx context.Context, most int) (fresh, outdated []uuid.UUID, err error) {
	if v.Rest.Left() > 0 {
		return nil, nil, nil
	}
	fresh, outdated, err = v.Store.Owners(ctx, v.Embedder.Model(), most)
	for _, scales := range v.Scales {
		old, failure := scales.Outdated(ctx)
		if err = cmp.Or(err, failure); old {
			fresh = append(fresh, uuid.Nil)
		}
	}
	return fresh, outdated, err
}

func (v *Vectors) report(ctx context.Context, owner uuid.UUID, done Embedded, took time.Duration) {
	if done.Calls == 0 {
		return
	}
	v.Logger.LogAttrs(ctx, slog.LevelInfo, v.Things+" embedded", slog.String("owner_id", owner.String()), slog.String("model", v.Embedder.Model()),
		slog.Int(v.Things, done.Made), slog.Int("changed", done.Changed), slog.Int("calls", done.Calls), slog.Int64("duration_ms", took.Milliseconds()))
}

// Rest leaves an embedder alone while it fails, for all who ask it: thousands of jobs may wait for it. It is safe for
// concurrent use.
type Rest struct {
	first, longest time.Duration
	logger         *slog.Logger

	mu       sync.Mutex
	failures int
	resumes  time.Time // the embedder is left alone until then
}

// NewRest returns a Rest. The first one after a failure takes first, and each further one twice as long, up to longest. 0
// is 15 s and 10 min.
func NewRest(first, longest time.Duration, logger *slog.Logger) *Rest {
	return &Rest{first: cmp.Or(first, 15*time.Second), longest: cmp.Or(longest, 10*time.Minute), logger: logger}
}

// Left returns for how long the embedder is still left alone, and a little more, so that not all jobs come at once.
func (r *Rest) Left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := time.Until(r.resumes)
	if wait <= 0 {
		return 0
	}
	return wait + rand.N(wait/4+1) //nolint:gosec // spreads load, guards nothing
}

// Worked says that the embedder answers.
func (r *Rest) Worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = 0
}

// Failed leaves the embedder alone for a while if it was the embedder that failed. It returns err.
func (r *Rest) Failed(ctx context.Context, model string, err error) error {
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || !isUpstream(refused.Code) || ctx.Err() != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.resumes) {
		return err // a call that began before
	}
	wait := min(r.first<<min(r.failures, 16), r.longest)
	wait = max(wait, min(refused.RetryAfter, r.longest))
	r.failures++
	r.resumes = time.Now().Add(wait)
	r.logger.LogAttrs(ctx, slog.LevelWarn, "the embedding model fails, turns are found by their words alone meanwhile",
		slog.String("model", model), slog.String("left_alone", wait.String()), slog.Any("error", err))
	return err
}

func isUpstream(code fault.Code) bool {
	return code == fault.UpstreamFailed || code == fault.UpstreamTimeout || code == fault.UpstreamOverloaded
}
