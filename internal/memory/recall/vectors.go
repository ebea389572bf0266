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
	"github.com/arcoscribe/throughline/internal/metrics"
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

// BareTurn is an indexed turn without a vector of the current model.
type BareTurn struct {
	Seq int64
	// Words identifies what is indexed of the turn: it changes with the turn's words.
	Words    string
	Messages []memory.Message // role and content, of long ones the beginning
}

// TurnVector is the vector of a turn, made of the words that Words identifies.
type TurnVector struct {
	Seq    int64
	Words  string
	Vector []float32 // of unit length; nil if the model finds no meaning in the turn
}

// VectorStore keeps the vectors of turns.
type VectorStore interface {
	ScaleStore
	// BareTurns returns the first turns of a chat, after a seq, that have no vector of the model; at most so many.
	BareTurns(ctx context.Context, chatID uuid.UUID, model string, after int64, most int) ([]BareTurn, error)
	// SaveVectors stores vectors where the turn's words are still those that they were made of, and returns how many.
	SaveVectors(ctx context.Context, chatID uuid.UUID, model string, vectors []TurnVector) (int, error)
	// BareChats returns chats with turns without a vector of the model and without a job, at most so many: those with
	// turns that have no vector at all, and those whose vectors are another model's.
	BareChats(ctx context.Context, model string, most int) (fresh, outdated []uuid.UUID, err error)
}

// VectorsConfig configures Vectors. All fields without a default are required.
type VectorsConfig struct {
	Store    VectorStore
	Embedder Embedder
	Metrics  *metrics.Metrics
	Logger   *slog.Logger
	// Turn is how long one call of EmbedTurns goes on; then the next chat has its turn. Defaults to 30 s.
	Turn time.Duration
	// CallTimeout bounds each call of the embedder. Defaults to 60 s.
	CallTimeout time.Duration
	// FirstRest is for how long a failing embedder is left alone: twice as long after each further failure, up to
	// LongestRest. Default to 15 s and 10 min.
	FirstRest, LongestRest time.Duration
}

// Vectors gives indexed turns their vectors. It is safe for concurrent use.
type Vectors struct {
	VectorsConfig
	scales *Scales

	mu       sync.Mutex
	failures int
	resumes  time.Time // the embedder is left alone until then
}

// NewVectors returns the engine of embed_turns.
func NewVectors(config VectorsConfig) *Vectors {
	config.Turn = cmp.Or(config.Turn, 30*time.Second)
	config.CallTimeout = cmp.Or(config.CallTimeout, time.Minute)
	config.FirstRest, config.LongestRest = cmp.Or(config.FirstRest, 15*time.Second), cmp.Or(config.LongestRest, 10*time.Minute)
	return &Vectors{VectorsConfig: config, scales: NewScales(config.Store, config.Embedder)}
}

// Embedded is what EmbedTurns did.
type Embedded struct {
	// Turns is how many have their vector now. Changed is how many were edited or deleted meanwhile.
	Turns   int `json:"turns"`
	Changed int `json:"changed"`
	Calls   int `json:"calls"`
	// Paused is whether there is more to do.
	Paused bool `json:"-"`
	// Rest is for how long the embedder is left alone because it failed; 0 if it is not.
	Rest time.Duration `json:"-"`
}

// EmbedTurns gives a chat's indexed turns the vectors that they lack. No transaction is open while the model works. A
// failure of the model is a *fault.Error with an upstream code; what was embedded before it is stored.
func (v *Vectors) EmbedTurns(ctx context.Context, chatID uuid.UUID) (done Embedded, err error) {
	if done.Rest = v.rest(); done.Rest > 0 {
		return done, nil
	}
	began := time.Now()
	if err := v.measured(ctx); err != nil {
		return done, v.failed(ctx, err)
	}
	for after := int64(0); ; {
		turns, err := v.Store.BareTurns(ctx, chatID, v.Embedder.Model(), after, vectorsPerCall)
		if err != nil || len(turns) == 0 {
			v.report(ctx, chatID, done, time.Since(began))
			return done, err
		}
		if done.Calls > 0 && time.Since(began) >= v.Turn {
			v.report(ctx, chatID, done, time.Since(began))
			done.Paused = true
			return done, nil
		}
		taken, err := v.embed(ctx, chatID, turns, &done)
		if err != nil {
			return done, v.failed(ctx, err)
		}
		after = turns[taken-1].Seq
	}
}

// measured makes sure that the model's scale is known before there are vectors to which it applies.
func (v *Vectors) measured(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.CallTimeout)
	defer cancel()
	_, err := v.scales.Measured(ctx)
	return err
}

// embed gives the first turns their vectors, as many as fit one call, and returns their number.
func (v *Vectors) embed(ctx context.Context, chatID uuid.UUID, turns []BareTurn, done *Embedded) (int, error) {
	texts := textsOf(turns)
	calling, cancel := context.WithTimeout(ctx, v.CallTimeout)
	defer cancel()
	vectors, err := v.Embedder.Embed(calling, texts)
	if err != nil {
		return 0, err
	}
	v.worked()
	made := make([]TurnVector, len(texts))
	for n := range made {
		made[n] = TurnVector{Seq: turns[n].Seq, Words: turns[n].Words, Vector: vectors[n]}
	}
	saved, err := v.Store.SaveVectors(ctx, chatID, v.Embedder.Model(), made)
	if err != nil {
		return 0, err
	}
	v.Metrics.EmbeddedTurns.Add(float64(saved))
	done.Calls++
	done.Turns += saved
	done.Changed += len(made) - saved
	return len(made), nil
}

// textsOf returns the texts of the first turns, at least one, that fit one call.
func textsOf(turns []BareTurn) []string {
	var texts []string
	tokens := 0
	for _, turn := range turns {
		content, size := TurnText(turn.Messages)
		if tokens += size; tokens > tokensPerCall && len(texts) > 0 {
			break
		}
		texts = append(texts, content)
	}
	return texts
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

// BareChats is the store's, for the sweep. There are none while the embedder is left alone.
func (v *Vectors) BareChats(ctx context.Context, most int) (fresh, outdated []uuid.UUID, err error) {
	if v.rest() > 0 {
		return nil, nil, nil
	}
	return v.Store.BareChats(ctx, v.Embedder.Model(), most)
}

// rest returns for how long the embedder is still left alone, and a little more, so that not all jobs come at once.
func (v *Vectors) rest() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	wait := time.Until(v.resumes)
	if wait <= 0 {
		return 0
	}
	return wait + rand.N(wait/4+1) //nolint:gosec // spreads load, guards nothing
}

func (v *Vectors) worked() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failures = 0
}

// failed leaves the embedder alone for a while if it was the embedder that failed. Thousands of jobs may wait for it.
func (v *Vectors) failed(ctx context.Context, err error) error {
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || !isUpstream(refused.Code) || ctx.Err() != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(v.resumes) {
		return err // a call that began before
	}
	wait := min(v.FirstRest<<min(v.failures, 16), v.LongestRest)
	wait = max(wait, min(refused.RetryAfter, v.LongestRest))
	v.failures++
	v.resumes = time.Now().Add(wait)
	v.Logger.LogAttrs(ctx, slog.LevelWarn, "the embedding model fails, turns are found by their words alone meanwhile",
		slog.String("model", v.Embedder.Model()), slog.String("left_alone", wait.String()), slog.Any("error", err))
	return err
}

func isUpstream(code fault.Code) bool {
	return code == fault.UpstreamFailed || code == fault.UpstreamTimeout || code == fault.UpstreamOverloaded
}

func (v *Vectors) report(ctx context.Context, chatID uuid.UUID, done Embedded, took time.Duration) {
	if done.Calls == 0 {
		return
	}
	v.Logger.LogAttrs(ctx, slog.LevelInfo, "turns embedded", slog.String("chat_id", chatID.String()), slog.String("model", v.Embedder.Model()),
		slog.Int("turns", done.Turns), slog.Int("changed", done.Changed), slog.Int("calls", done.Calls), slog.Int64("duration_ms", took.Milliseconds()))
}
