package recall

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

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
	// FinishVectors completes a job with its output, unless the chat has turns without a vector of the model: then it
	// reports false.
	FinishVectors(ctx context.Context, chatID uuid.UUID, model string, jobID int64, output Embedded) (bool, error)
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
	// Topics is whether turns are compared with each other, so that the scale of turns is measured as well.
	Topics bool
	// Rest leaves the embedder alone while it fails. It may be shared with others that ask the same embedder. Defaults to
	// one of its own.
	Rest *Rest
}

// Vectors gives indexed turns their vectors. It is safe for concurrent use.
type Vectors struct {
	VectorsConfig
	scales     *Scales
	turnScales *Scales // nil unless it is needed
}

// NewVectors returns the engine of embed_turns.
func NewVectors(config VectorsConfig) *Vectors {
	config.Turn = cmp.Or(config.Turn, 30*time.Second)
	config.CallTimeout = cmp.Or(config.CallTimeout, time.Minute)
	config.Rest = cmp.Or(config.Rest, NewRest(0, 0, config.Logger))
	v := &Vectors{VectorsConfig: config, scales: NewScales(config.Store, config.Embedder)}
	if config.Topics {
		v.turnScales = NewTurnScales(config.Store, config.Embedder)
	}
	return v
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
	if done.Rest = v.Rest.Left(); done.Rest > 0 {
		return done, nil
	}
	began := time.Now()
	if err := v.measured(ctx); err != nil {
		return done, v.Rest.Failed(ctx, v.Embedder.Model(), err)
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
			return done, v.Rest.Failed(ctx, v.Embedder.Model(), err)
		}
		after = turns[taken-1].Seq
	}
}

// Finish completes the job of EmbedTurns. It reports false if turns were indexed meanwhile: who indexed them has inserted no
// other job, as this one was running.
func (v *Vectors) Finish(ctx context.Context, chatID uuid.UUID, jobID int64, done Embedded) (bool, error) {
	return v.Store.FinishVectors(ctx, chatID, v.Embedder.Model(), jobID, done)
}

// measured makes sure that the model's scales are known before there are vectors to which they apply.
func (v *Vectors) measured(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.CallTimeout)
	defer cancel()
	_, err := v.scales.Measured(ctx)
	if err == nil && v.turnScales != nil {
		_, err = v.turnScales.Measured(ctx)
	}
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
	v.Rest.Worked()
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
	if v.Rest.Left() > 0 {
		return nil, nil, nil
	}
	if outdated, err := v.scales.Outdated(ctx); err != nil || outdated && v.Rest.Failed(ctx, v.Embedder.Model(), v.measured(ctx)) != nil {
		return nil, nil, err
	}
	return v.Store.BareChats(ctx, v.Embedder.Model(), most)
}

func (v *Vectors) report(ctx context.Context, chatID uuid.UUID, done Embedded, took time.Duration) {
	if done.Calls == 0 {
		return
	}
	v.Logger.LogAttrs(ctx, slog.LevelInfo, "turns embedded", slog.String("chat_id", chatID.String()), slog.String("model", v.Embedder.Model()),
		slog.Int("turns", done.Turns), slog.Int("changed", done.Changed), slog.Int("calls", done.Calls), slog.Int64("duration_ms", took.Milliseconds()))
}
