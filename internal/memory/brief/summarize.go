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
	"github.com/google/uuid"
)

// Mode says which prompt a summary call uses.
type Mode string

// The modes. Auto is Hosted while a hosted prompt is configured and exists, Inline from then on.
const (
	ModeHosted Mode = "hosted"
	ModeInline Mode = "inline"
	ModeAuto   Mode = "auto"
	// ModeNone is what a revision says that needed no model: a rebuild of nothing.
	ModeNone Mode = "none"
)

// ErrPromptGone tells that the API refused a hosted prompt itself (a 4xx whose error names it).
var ErrPromptGone = errors.New("the hosted prompt does not exist")

// Summarizer is the model that writes summaries.
type Summarizer interface {
	Summarize(ctx context.Context, call Call) (Answer, error)
}

// Call is one summary call.
type Call struct {
	// Hosted is the hosted prompt to use; then no model is named.
	Hosted *HostedPrompt
	// Model and Instructions of an inline call. A hosted call has instructions only when its first
	// answer was refused.
	Model        string
	Instructions string
	Input        string
	ChatID       uuid.UUID
	UserID       uuid.UUID
}

// HostedPrompt names a prompt that is kept at OpenAI.
type HostedPrompt struct {
	ID      string
	Version string
}

// Answer is what the model wrote.
type Answer struct {
	Text         string
	Model        string
	InputTokens  int
	CachedTokens int
	OutputTokens int
}

// Asked is what the calls of one fold came to.
type Asked struct {
	Mode         Mode
	PromptRef    string
	Model        string
	InputTokens  int
	OutputTokens int
	// InputSHA256 is that of the input as sent, in hex; of the last one, where a fold sent several.
	InputSHA256 string
	Calls       int
	// Refusals are the keys of what the gate refused on the way.
	Refusals []string
}

// PromptConfig says how summaries are asked for.
type PromptConfig struct {
	Mode   Mode
	Hosted HostedPrompt
	// Model of the inline prompt.
	Model string
	// Instructions replace the built-in ones when not empty.
	Instructions string
	// CallTimeout bounds each call. Defaults to 60 s.
	CallTimeout time.Duration
}

// RefusedError is a summary that the gate refused twice.
type RefusedError struct {
	Refusal Refusal
}

func (e *RefusedError) Error() string {
	return "the summary was refused twice: " + e.Refusal.Key
}

// writer asks the model for one summary after another, piece by piece.
type writer struct {
	PromptConfig
	summarizer Summarizer
	limits     memory.Limits
	metrics    *metrics.Metrics
	logger     *slog.Logger
	promptGone atomic.Bool
}

// session is the work of one fold on one chat.
type session struct {
	*writer
	chatID, userID uuid.UUID
	asked          *Asked
}

// mode is what the next call uses.
func (w *writer) mode() Mode {
	if w.Mode != ModeAuto {
		return w.Mode
	}
	if w.Hosted.Version == "" || w.promptGone.Load() {
		return ModeInline
	}
	return ModeHosted
}

// summarize folds one piece into the summary so far. What it returns, with its tokens, passed the gate and
// fits the cap.
func (s *session) summarize(ctx context.Context, summary string, piece Piece) (string, int, error) {
	input := FoldInput(summary, piece)
	digest := sha256.Sum256([]byte(input))
	s.asked.InputSHA256 = hex.EncodeToString(digest[:])

	text, refusal, err := s.attempt(ctx, summary, input, piece, Refusal{})
	if err == nil && refusal != (Refusal{}) {
		text, refusal, err = s.attempt(ctx, summary, input, piece, refusal)
	}
	if err != nil {
		return "", 0, err
	}
	if refusal != (Refusal{}) {
		return "", 0, &RefusedError{Refusal: refusal}
	}
	return s.withinCap(ctx, summary, text)
}

// attempt makes one call and puts its answer before the gate. The zero refusal means it passed.
func (s *session) attempt(ctx context.Context, summary, input string, piece Piece, before Refusal) (string, Refusal, error) {
	content, err := s.ask(ctx, input, piece, before)
	if err != nil {
		return "", Refusal{}, err
	}
	refusal, passed := Judge(text.FitCap(summary, s.limits.SummaryTokenCap), content)
	if passed {
		return content, Refusal{}, nil
	}
	s.asked.Refusals = append(s.asked.Refusals, refusal.Key)
	s.metrics.GateRefusals.WithLabelValues(refusal.Key).Inc()
	return "", refusal, nil
}

// ask calls the model in the mode of the moment, and once more inline when that turns out to be over.
func (s *session) ask(ctx context.Context, input string, piece Piece, before Refusal) (string, error) {
	if s.mode() == ModeHosted {
		text, err := s.askHosted(ctx, input, before)
		if !errors.Is(err, ErrPromptGone) || s.Mode != ModeAuto {
			return text, err
		}
		s.fallBack(ctx, err)
	}
	s.asked.Mode, s.asked.PromptRef = ModeInline, s.inlineRef()
	return s.call(ctx, Call{Input: input, Model: s.Model, Instructions: SummaryInstructions(SummaryTask{
		Base: s.Instructions, Cap: s.limits.SummaryTokenCap, Piece: piece, Refused: before,
	})})
}

// askHosted sends the hosted prompt alone. Only a second try has instructions: there is no other place
// to say what was wrong with the first.
func (s *session) askHosted(ctx context.Context, input string, before Refusal) (string, error) {
	s.asked.Mode, s.asked.PromptRef = ModeHosted, s.Hosted.ID+"@"+s.Hosted.Version
	hosted := s.Hosted
	return s.call(ctx, Call{Hosted: &hosted, Instructions: before.Sentence, Input: input})
}

func (s *session) inlineRef() string {
	if s.Instructions != "" {
		digest := sha256.Sum256([]byte(s.Instructions))
		return "custom@" + hex.EncodeToString(digest[:4])
	}
	return "built-in@" + SummaryInstructionsVersion
}

// fallBack remembers, says and counts once that the hosted prompt is over.
func (s *session) fallBack(ctx context.Context, err error) {
	if s.promptGone.CompareAndSwap(false, true) {
		s.metrics.PromptFallbacks.Inc()
		s.logger.LogAttrs(ctx, slog.LevelWarn, "hosted summary prompt is gone, using the inline one from now on",
			slog.String("prompt_id", s.Hosted.ID), slog.String("prompt_version", s.Hosted.Version), slog.Any("error", err))
	}
}

func (s *session) call(ctx context.Context, call Call) (string, error) {
	call.ChatID, call.UserID = s.chatID, s.userID
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	s.asked.Calls++
	answer, err := s.summarizer.Summarize(ctx, call)
	if err != nil {
		return "", fmt.Errorf("summarize: %w", err)
	}
	s.asked.Model = answer.Model
	s.asked.InputTokens += answer.InputTokens
	s.asked.OutputTokens += answer.OutputTokens
	count := s.metrics.Tokens.WithLabelValues
	count("fold", "input").Add(float64(answer.InputTokens))
	count("fold", "cached").Add(float64(answer.CachedTokens))
	count("fold", "output").Add(float64(answer.OutputTokens))
	return strings.TrimSpace(answer.Text), nil
}

// withinCap shortens a summary that is too long: first the model may, then the scissors do. A failed
// or refused shortening is no reason to lose a good summary.
func (s *session) withinCap(ctx context.Context, previous, content string) (string, int, error) {
	limit := s.limits.SummaryTokenCap
	if tokens := text.Tokens(content); tokens <= limit {
		return content, tokens, nil
	}
	mode, ref := s.asked.Mode, s.asked.PromptRef
	shorter, err := s.call(ctx, Call{Input: content, Model: s.Model, Instructions: CondenseInstructions(limit)})
	s.asked.Mode, s.asked.PromptRef = mode, ref // the revision names the prompt that wrote the summary
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	if _, passed := Judge(previous, shorter); err != nil || !passed {
		shorter = content
	}
	fitting := text.FitCap(shorter, limit)
	return fitting, text.Tokens(fitting), nil
}
