package memories

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/google/uuid"
)

// vectorsPerCall is how many memories are sent to the embedder at once; each has at most MaxContent characters.
const vectorsPerCall = 128

// Bare is a memory without a vector of the current model.
type Bare struct {
	ID      uuid.UUID
	Content string
}

// Vector is that of a memory with this content.
type Vector struct {
	Bare

	Values []float32 // of unit length; nil if the model finds no meaning in it
}

// VectorStore keeps the vectors of memories.
type VectorStore interface {
	recall.ScaleStore
	// BareMemories returns the first memories of a user, by id after one, that have no vector of the model; at most so many.
	// Superseded ones need none.
	BareMemories(ctx context.Context, userID uuid.UUID, model string, after uuid.UUID, most int) ([]Bare, error)
	// SaveMemoryVectors stores vectors where the content is still what they were made of, and returns how many.
	SaveMemoryVectors(ctx context.Context, userID uuid.UUID, model string, vectors []Vector) (int, error)
	// BareUsers returns users with memories without a vector of the model and without a job. With the jobs that wait already
	// they are at most so many of each kind: those with memories that have no vector at all, and those whose vectors are
	// another model's.
	BareUsers(ctx context.Context, model string, most int) (fresh, outdated []uuid.UUID, err error)
}

// VectorsConfig configures Vectors. All fields without a default are required.
type VectorsConfig struct {
	Store    VectorStore
	Embedder recall.Embedder
	Logger   *slog.Logger
	// Rest leaves the embedder alone while it fails; share it with recall.Vectors. Defaults to one of its own.
	Rest *recall.Rest
	// Turn is how long one call of EmbedMemories goes on; then the next user has its turn. Defaults to 30 s.
	Turn time.Duration
	// CallTimeout bounds each call of the embedder. Defaults to 60 s.
	CallTimeout time.Duration
}

// Vectors gives memories their vectors: those that a user wrote or imported, and those that were extracted while the
// embedder was away. It is safe for concurrent use.
type Vectors struct {
	VectorsConfig
	scales *recall.Scales
}

// NewVectors returns the engine of embed_memories.
func NewVectors(config VectorsConfig) *Vectors {
	config.Turn, config.CallTimeout = cmp.Or(config.Turn, 30*time.Second), cmp.Or(config.CallTimeout, time.Minute)
	config.Rest = cmp.Or(config.Rest, recall.NewRest(0, 0, config.Logger))
	return &Vectors{VectorsConfig: config, scales: recall.NewScales(config.Store, config.Embedder)}
}

// Embedded is what EmbedMemories did.
type Embedded struct {
	// Memories is how many have their vector now. Changed is how many were changed or deleted meanwhile.
	Memories int `json:"memories"`
	Changed  int `json:"changed"`
	Calls    int `json:"calls"`
	// Paused is whether there is more to do.
	Paused bool `json:"-"`
	// Rest is for how long the embedder is left alone because it failed; 0 if it is not.
	Rest time.Duration `json:"-"`
}

// EmbedMemories gives a user's memories the vectors that they lack. No transaction is open while the model works. A failure
// of the model is a *fault.Error with an upstream code; what was embedded before it is stored.
func (v *Vectors) EmbedMemories(ctx context.Context, userID uuid.UUID) (done Embedded, err error) {
	if done.Rest = v.Rest.Left(); done.Rest > 0 {
		return done, nil
	}
	began := time.Now()
	for after := uuid.Nil; ; {
		bare, err := v.Store.BareMemories(ctx, userID, v.Embedder.Model(), after, vectorsPerCall)
		if err != nil || len(bare) == 0 {
			v.report(ctx, userID, done, time.Since(began))
			return done, err
		}
		if done.Calls > 0 && time.Since(began) >= v.Turn {
			v.report(ctx, userID, done, time.Since(began))
			done.Paused = true
			return done, nil
		}
		if err := v.embed(ctx, userID, bare, &done); err != nil {
			return done, v.Rest.Failed(ctx, v.Embedder.Model(), err)
		}
		after = bare[len(bare)-1].ID
	}
}

func (v *Vectors) embed(ctx context.Context, userID uuid.UUID, bare []Bare, done *Embedded) error {
	calling, cancel := context.WithTimeout(ctx, v.CallTimeout)
	defer cancel()
	if _, err := v.scales.Measured(calling); err != nil {
		return err
	}
	contents := make([]string, len(bare))
	for n := range bare {
		contents[n] = bare[n].Content
	}
	values, err := v.Embedder.Embed(calling, contents)
	if err != nil {
		return err
	}
	v.Rest.Worked()
	made := make([]Vector, len(bare))
	for n := range made {
		made[n] = Vector{Bare: bare[n], Values: values[n]}
	}
	saved, err := v.Store.SaveMemoryVectors(ctx, userID, v.Embedder.Model(), made)
	done.Calls++
	done.Memories += saved
	done.Changed += len(made) - saved
	return err
}

// BareUsers is the store's, for the sweep. There are none while the embedder is left alone.
func (v *Vectors) BareUsers(ctx context.Context, most int) (fresh, outdated []uuid.UUID, err error) {
	if v.Rest.Left() > 0 {
		return nil, nil, nil
	}
	return v.Store.BareUsers(ctx, v.Embedder.Model(), most)
}

func (v *Vectors) report(ctx context.Context, userID uuid.UUID, done Embedded, took time.Duration) {
	if done.Calls == 0 {
		return
	}
	v.Logger.LogAttrs(ctx, slog.LevelInfo, "memories embedded", slog.String("user_id", userID.String()), slog.String("model", v.Embedder.Model()),
		slog.Int("memories", done.Memories), slog.Int("changed", done.Changed), slog.Int("calls", done.Calls), slog.Int64("duration_ms", took.Milliseconds()))
}
