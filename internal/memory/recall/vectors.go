package recall

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
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
)

// Bare is a thing without a vector of the current model: a turn, which Seq names, or a memory, which ID names.
type Bare struct {
	Seq int64
	ID  uuid.UUID
	// Words identifies what the vector is made of: it changes with the thing's words.
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

// VectorsConfig configures Vectors. All fields without a default are required.
type VectorsConfig struct {
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
	// CallTimeout bounds each call of the embedder. Defaults to 60 s.
	CallTimeout time.Duration
	// Rest leaves the embedder alone while it fails. It may be shared with others that ask the same embedder. Defaults to
	// one of its own.
	Rest *Rest
}

// Vectors gives things of one kind the vectors that they lack. It is safe for concurrent use.
type Vectors struct{ VectorsConfig }

// NewVectors returns the engine of embed_turns or embed_memories.
func NewVectors(config VectorsConfig) *Vectors {
	config.Turn = cmp.Or(config.Turn, 30*time.Second)
	config.CallTimeout = cmp.Or(config.CallTimeout, time.Minute)
	config.Rest = cmp.Or(config.Rest, NewRest(0, 0, config.Logger))
	if config.Count == nil {
		config.Count = func(int) {}
	}
	return &Vectors{config}
}

// Embedded is what Embed did.
type Embedded struct {
	// Made is how many things have their vector now. Changed is how many were changed or deleted meanwhile.
	Made, Changed, Calls int
	// Paused is whether there is more to do.
	Paused bool
	// Rest is for how long the embedder is left alone because it failed; 0 if it is not.
	Rest time.Duration
}

// Embed gives an owner's things the vectors that they lack. No transaction is open while the model works. A failure of the
// model is a *fault.Error with an upstream code; what was embedded before it is stored.
func (v *Vectors) Embed(ctx context.Context, owner uuid.UUID) (done Embedded, err error) {
	if done.Rest = v.Rest.Left(); done.Rest > 0 {
		return done, nil
	}
	began := time.Now()
	defer func() { v.report(ctx, owner, done, time.Since(began)) }()
	if err := v.measured(ctx); err != nil {
		return done, v.Rest.Failed(ctx, v.Embedder.Model(), err)
	}
	for last := (Bare{}); ; {
		bare, of, err := v.Store.Bare(ctx, owner, v.Embedder.Model(), last, vectorsPerCall)
		if err != nil || len(bare) == 0 {
			return done, err
		}
		if done.Calls > 0 && time.Since(began) >= v.Turn {
			done.Paused = true
			return done, nil
		}
		bare = oneCall(bare)
		if err := v.embed(ctx, owner, of, bare, &done); err != nil {
			return done, v.Rest.Failed(ctx, v.Embedder.Model(), err)
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
	ctx, cancel := context.WithTimeout(ctx, v.CallTimeout)
	defer cancel()
	for _, scales := range v.Scales {
		if _, err := scales.Measured(ctx); err != nil {
			return err
		}
	}
	return nil
}

// embed gives things their vectors in one call.
func (v *Vectors) embed(ctx context.Context, owner uuid.UUID, of For, bare []Bare, done *Embedded) error {
	texts := make([]string, len(bare))
	for n := range bare {
		texts[n] = bare[n].Text
	}
	calling, cancel := context.WithTimeout(ctx, v.CallTimeout)
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
	v.Count(saved)
	done.Calls++
	done.Made += saved
	done.Changed += len(made) - saved
	return nil
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

// TurnText is what a turn's vector is made of, and its tokens.
func TurnText(messages []memory.Message) (string, int) {
	var lines []string
	for _, m := range messages {
		if content := strings.TrimSpace(m.Content); content != "" {
			lines = append(lines, m.Role.Label()+": "+content)
		}
	}
	return text.Clip(strings.Join(lines, "\n"), turnTokens)
}

// Owners is the store's, for the sweep. There are none while the embedder is left alone.
func (v *Vectors) Owners(ctx context.Context, most int) (fresh, outdated []uuid.UUID, err error) {
	if v.Rest.Left() > 0 {
		return nil, nil, nil
	}
	for _, scales := range v.Scales {
		if outdated, err := scales.Outdated(ctx); err != nil || outdated && v.Rest.Failed(ctx, v.Embedder.Model(), v.measured(ctx)) != nil {
			return nil, nil, err
		}
	}
	return v.Store.Owners(ctx, v.Embedder.Model(), most)
}

func (v *Vectors) report(ctx context.Context, owner uuid.UUID, done Embedded, took time.Duration) {
	if done.Calls == 0 {
		return
	}
	v.Logger.LogAttrs(ctx, slog.LevelInfo, v.Things+" embedded", slog.String("owner_id", owner.String()), slog.String("model", v.Embedder.Model()),
		slog.Int(v.Things, done.Made), slog.Int("changed", done.Changed), slog.Int("calls", done.Calls), slog.Int64("duration_ms", took.Milliseconds()))
}
