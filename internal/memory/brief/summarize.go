package brief

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Mode selects the prompt of a summary call.
type Mode string

// The modes. Auto is Hosted while a hosted prompt is configured and exists, Inline from then on.
const (
	ModeHosted Mode = "hosted"
	ModeInline Mode = "inline"
	ModeAuto   Mode = "auto"
	// ModeNone is the mode of a revision that needed no model call: a clear, or a fold of turns without words.
	ModeNone Mode = "none"
)

// ErrPromptGone reports that the API does not know the hosted prompt (a 4xx whose error names it).
var ErrPromptGone = errors.New("the hosted prompt does not exist")

// Kind is what a summary is of, and the purpose of the calls that make it.
type Kind string

// The kinds of summaries.
const (
	KindFold  Kind = "fold"
	KindTopic Kind = "topic"
)

// Summarizer is the model that writes summaries.
type Summarizer interface {
	Summarize(ctx context.Context, call Call) (work.Answer, error)
}

// Call is one summary call.
type Call struct {
	// Hosted is the hosted prompt to use, which names the model itself; nil for an inline call.
	Hosted *HostedPrompt
	// Model and Instructions are those of an inline call. A hosted call has instructions only when its first answer
	// was refused.
	Model        string
	Instructions string
	Input        string
	// Kind says which summary it is.
	Kind   Kind
	ChatID uuid.UUID
	UserID uuid.UUID
}

// HostedPrompt identifies a prompt that is stored at OpenAI.
type HostedPrompt struct {
	ID      string
	Version string
}

// CallStats describes the summary calls of one fold.
type CallStats struct {
	Mode         Mode   `json:"mode,omitempty"`
	PromptRef    string `json:"prompt_ref,omitempty"`
	Model        string `json:"model,omitempty"`
	Calls        int    `json:"calls"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
	// Refusals are the keys of the summaries that the gate refused.
	Refusals []string `json:"refusals,omitempty"`
	// Title is the model's title of the subject; "" where none was asked for or given.
	Title string `json:"-"`
	// InputSHA256 is the hash of the last piece's input, in hex.
	InputSHA256 string `json:"-"`
}

// PromptConfig configures the summary calls.
type PromptConfig struct {
	Mode   Mode
	Hosted HostedPrompt
	// Model of the inline prompt.
	Model string
	// Instructions replace the built-in ones when not empty.
	Instructions string
}

// RefusedError reports that the gate refused both tries at a summary.
type RefusedError struct {
	Refusal Refusal
}

func (e *RefusedError) Error() string {
	return "the summary was refused twice: " + e.Refusal.Key
}

// Refused makes it a work.RefusedError.
func (*RefusedError) Refused() {}

// Writer makes summaries by the letter of a fold: its input and instructions, two tries before the gate, and the cap. It is
// safe for concurrent use. All fields are required.
type Writer struct {
	Summarizer Summarizer
	Prompt     PromptConfig
	// Cap is the most tokens that a summary may have, InputTokens the most that one call reads.
	Cap, InputTokens int
	Kind             Kind
	Logger           *slog.Logger
	Metrics          *metrics.Metrics

	promptGone atomic.Bool // the API has answered that the hosted prompt does not exist
}

// Pieces divides turns into pieces that one call each can read beside a summary of full size. Their stored counts of tokens need
// not be right.
func (w *Writer) Pieces(turns []memory.Turn) []Piece {
	return pack(turns, pieceRoom(w.InputTokens, w.Cap))
}

// Task says for whom a summary is made.
type Task struct {
	ChatID, UserID uuid.UUID
	// Titled asks for a title as well, which is then in the stats. Only of an inline prompt.
	Titled bool
}

// Write adds a piece to a summary, and its calls to stats. The summary that it returns, with its tokens, has passed the
// gate and fits the cap. A summary that was refused twice is a *RefusedError.
func (w *Writer) Write(ctx context.Context, task Task, summary string, piece Piece, stats *CallStats) (string, int, error) {
	c := &summaryCalls{Writer: w, Task: task, stats: stats}
	input := FoldInput(summary, piece)
	digest := sha256.Sum256([]byte(input))
	c.stats.InputSHA256 = hex.EncodeToString(digest[:])

	answer, refusal, err := c.try(ctx, summary, input, piece, Refusal{})
	if err == nil && refusal != (Refusal{}) {
		answer, refusal, err = c.try(ctx, summary, input, piece, refusal)
	}
	if err != nil {
		return "", 0, err
	}
	if refusal != (Refusal{}) {
		return "", 0, &RefusedError{Refusal: refusal}
	}
	return c.fitCap(ctx, summary, answer)
}

// summaryCalls makes the calls for one piece.
type summaryCalls struct {
	*Writer
	Task

	stats *CallStats
}

// try asks for a summary and judges the answer. The second try names the refusal of the first. A zero refusal means
// that the answer passed the gate.
func (c *summaryCalls) try(ctx context.Context, summary, input string, piece Piece, first Refusal) (string, Refusal, error) {
	answer, err := c.ask(ctx, input, piece, first)
	if err != nil {
		return "", Refusal{}, err
	}
	if c.Titled {
		c.stats.Title, answer = cutTitle(answer)
	}
	refusal, passed := Judge(text.FitCap(summary, c.Cap), answer)
	if !passed {
		c.stats.Refusals = append(c.stats.Refusals, refusal.Key)
		c.Metrics.GateRefusals.WithLabelValues(refusal.Key).Inc()
	}
	return answer, refusal, nil
}

// ask calls the model with the hosted prompt or the inline one. In ModeAuto it calls inline when the hosted prompt
// turns out not to exist.
func (c *summaryCalls) ask(ctx context.Context, input string, piece Piece, first Refusal) (string, error) {
	prompt := &c.Prompt
	if prompt.Mode == ModeHosted || prompt.Mode == ModeAuto && prompt.Hosted.Version != "" && !c.promptGone.Load() {
		answer, err := c.askHosted(ctx, input, first)
		if !errors.Is(err, ErrPromptGone) || prompt.Mode != ModeAuto {
			return answer, err
		}
		c.fallBack(ctx, err)
	}
	c.stats.Mode, c.stats.PromptRef = ModeInline, prompt.inlineRef()
	return c.call(ctx, Call{Input: input, Model: prompt.Model, Instructions: SummaryInstructions(SummaryTask{
		Base: prompt.Instructions, Cap: c.Cap, Piece: piece, Refused: first, Titled: c.Titled,
	})})
}

// askHosted sends no instructions beside the hosted prompt, except for the refusal of the first try.
func (c *summaryCalls) askHosted(ctx context.Context, input string, first Refusal) (string, error) {
	hosted := c.Prompt.Hosted
	c.stats.Mode, c.stats.PromptRef = ModeHosted, hosted.ID+"@"+hosted.Version
	return c.call(ctx, Call{Hosted: &hosted, Instructions: first.Sentence, Input: input})
}

// inlineRef returns the name of the inline prompt in revisions.
func (p *PromptConfig) inlineRef() string {
	if p.Instructions != "" {
		digest := sha256.Sum256([]byte(p.Instructions))
		return "custom@" + hex.EncodeToString(digest[:4])
	}
	return "built-in@" + SummaryInstructionsVersion
}

// fallBack turns to the inline prompt for good, and logs and counts it once.
func (c *summaryCalls) fallBack(ctx context.Context, err error) {
	if c.promptGone.CompareAndSwap(false, true) {
		c.Metrics.PromptFallbacks.Inc()
		c.Logger.LogAttrs(ctx, slog.LevelWarn, "hosted summary prompt is gone, using the inline one from now on",
			slog.String("prompt_id", c.Prompt.Hosted.ID), slog.String("prompt_version", c.Prompt.Hosted.Version), slog.Any("error", err))
	}
}

// call makes one model call and adds it to the stats.
func (c *summaryCalls) call(ctx context.Context, call Call) (string, error) {
	call.Kind, call.ChatID, call.UserID = c.Kind, c.ChatID, c.UserID
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c.stats.Calls++
	began := time.Now()
	answer, err := c.Summarizer.Summarize(ctx, call)
	result := "answered"
	if err != nil {
		result = "failed"
	}
	c.Metrics.SummaryDuration.WithLabelValues(result).Observe(time.Since(began).Seconds())
	if err != nil {
		return "", fmt.Errorf("summarize: %w", err)
	}
	c.stats.Model = answer.Model
	c.stats.InputTokens += answer.InputTokens
	c.stats.OutputTokens += answer.OutputTokens
	c.Metrics.CountTokens(string(c.Kind), answer.InputTokens, answer.CachedTokens, answer.OutputTokens)
	return strings.TrimSpace(answer.Text), nil
}

// fitCap shortens a summary that is over the cap: first by a model call, then, if it is still too long, at a sentence's
// end. When that call fails or its answer is refused, the long summary is cut.
func (c *summaryCalls) fitCap(ctx context.Context, previous, summary string) (string, int, error) {
	limit := c.Cap
	if tokens := text.Tokens(summary); tokens <= limit {
		return summary, tokens, nil
	}
	shorter, err := c.call(ctx, Call{Input: summary, Model: c.Prompt.Model, Instructions: CondenseInstructions(limit)})
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	if _, passed := Judge(previous, shorter); err != nil || !passed {
		shorter = summary
	}
	fitting := text.FitCap(shorter, limit)
	return fitting, text.Tokens(fitting), nil
}
