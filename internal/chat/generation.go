package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/streaming"
)

// Why a generation was stopped from our side.
var (
	errCancelled = errors.New("cancelled by the user")
	errShutdown  = errors.New("the server shuts down")
)

// generation is one reply being made. It belongs to one goroutine; others only read its relay,
// cancel it, and look at status after done was closed.
type generation struct {
	user    auth.Principal
	turn    NewTurn
	request ModelRequest
	receipt prompt.Receipt
	model   string
	arrived time.Time

	relay  streaming.Relay
	cancel context.CancelCauseFunc
	done   chan struct{}
	status memory.Status

	unrecorded atomic.Bool // the recorder knows that there is more text
	recorded   place       // how far the text was handed to the recorder; this and the next are its goroutine's
	recordedAt time.Time
}

// place is one in a text.
type place struct{ bytes, chars int }

// unrecordedText is what was said since the last call.
func (g *generation) unrecordedText(now time.Time) Delta {
	g.recordedAt = now
	g.unrecorded.Store(false) // before the look: what comes after it is noted anew
	text := g.relay.After(g.recorded.bytes)
	delta := Delta{MessageID: g.turn.MessageID, UserID: g.user.UserID, StartChar: g.recorded.chars, Text: string(text)}
	g.recorded.bytes += len(text)
	g.recorded.chars += utf8.RuneCount(text)
	return delta
}

func (s *Service) newGeneration(ctx context.Context, user auth.Principal, ask asked, started StartedTurn) *generation {
	instructions := s.instructions(started.Chat.SystemPrompt, ask.message.ToolInstructions)
	question := prompt.Question{Content: ask.turn.Content, Sources: ask.message.Sources, Retrieved: s.retrieved(ask.retrieval)}
	prompt := s.prompt(started.Chat, question, instructions, ask.variant)
	s.reportMissing(ctx, ask.turn.ChatID, started.Chat, prompt.Receipt)
	return &generation{
		user: user, turn: ask.turn, model: ask.variant.Model, arrived: ask.arrived, receipt: prompt.Receipt, done: make(chan struct{}),
		request: ModelRequest{Model: ask.variant.Model, Instructions: instructions, Input: prompt.Input, ChatID: ask.turn.ChatID, UserID: user.UserID},
	}
}

// launch starts the generation, detached from the request, and gives its first reader.
func (s *Service) launch(ctx context.Context, user auth.Principal, ask asked, started StartedTurn) (*Reply, error) {
	g := s.newGeneration(ctx, user, ask, started)
	detached, cancelTimeout := context.WithTimeoutCause(context.WithoutCancel(ctx), s.ReplyTimeout, context.DeadlineExceeded)
	generating, cancel := context.WithCancelCause(detached)
	g.cancel = cancel

	s.mu.Lock()
	s.running[g.turn.MessageID] = g
	s.mu.Unlock()

	reader := g.relay.Read(0)
	s.Metrics.RunningReplies.Inc()
	go func() {
		defer cancelTimeout()
		defer cancel(nil)
		s.generate(generating, g)
	}()
	return &Reply{Started: g.started(), reader: reader}, nil
}

func (g *generation) started() streaming.Started {
	return streaming.Started{ChatID: g.turn.ChatID, UserMessageID: g.turn.UserMessageID, MessageID: g.turn.MessageID, ModelVariant: g.turn.Variant}
}

// generate asks the model, stores what it said, and only then tells the readers how it ended.
func (s *Service) generate(ctx context.Context, g *generation) {
	result, err := s.stream(ctx, g)
	reply, terminal := g.finish(ctx, result, err)
	terminal = s.save(context.WithoutCancel(ctx), g, &reply, terminal)

	s.mu.Lock()
	delete(s.running, g.turn.MessageID)
	s.mu.Unlock()
	g.status = reply.Status
	g.relay.End(terminal)
	close(g.done)
	s.report(ctx, g, reply, err)
}

// stream relays the model's reply. Its error is nil only when the model said itself that it was done.
func (s *Service) stream(ctx context.Context, g *generation) (ModelResult, error) {
	if err := context.Cause(ctx); err != nil {
		return ModelResult{}, err
	}
	s.Metrics.Overhead.Observe(time.Since(g.arrived).Seconds())
	stream, err := s.Model.Stream(ctx, g.request)
	g.request = ModelRequest{} // the largest thing a reply holds, and nobody needs it any more
	if err != nil {
		return ModelResult{}, err
	}
	defer func() { _ = stream.Close() }() // nothing is lost with a connection that is done or broken
	g.relay.Open()
	spoke := false
	for stream.Next() {
		if !spoke {
			spoke = true
			s.Metrics.FirstDelta.WithLabelValues(g.turn.Variant).Observe(time.Since(g.arrived).Seconds())
		}
		g.relay.Append(stream.Delta())
		s.recorder.more(g)
	}
	return stream.Result(), stream.Err()
}

// finish decides what a reply's row and its terminal event say.
func (g *generation) finish(ctx context.Context, result ModelResult, err error) (FinishedReply, streaming.Terminal) {
	content, chars := g.relay.Text()
	reply := FinishedReply{
		ChatID: g.turn.ChatID, MessageID: g.turn.MessageID, Content: content, Tokens: text.Tokens(content),
		Metadata: ReplyMetadata{ModelVariant: g.turn.Variant, Model: g.model, Memory: &g.receipt},
	}
	if err == nil {
		reply.Status = memory.StatusComplete
		reply.Metadata.Model, reply.Metadata.ResponseID = result.Model, result.ResponseID
		reply.Metadata.FinishReason, reply.Metadata.Usage = result.FinishReason, &result.Usage
		return reply, completed(reply.ChatID, reply.MessageID, reply.Metadata, chars)
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, errCancelled) {
		reply.Status = memory.StatusCancelled
		return reply, cancelled(reply.MessageID, chars)
	}
	reply.Status = memory.StatusFailed
	failure := failureOf(err)
	switch {
	case errors.Is(cause, errShutdown):
		reply.Status = memory.StatusInterrupted
		failure = interrupted
	case errors.Is(cause, context.DeadlineExceeded):
		failure = Failure{Code: string(fault.UpstreamTimeout), Message: "The reply took too long."}
	}
	reply.Metadata.Failure = &failure
	return reply, failed(reply.MessageID, failure, chars)
}

func failureOf(err error) Failure {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return Failure{Code: string(known.Code), Message: known.Message, RetryAfter: known.RetryAfter}
	}
	return Failure{Code: string(fault.UpstreamFailed), Message: "The model did not finish its reply."}
}

// report is the one log line and the metrics of a reply.
func (s *Service) report(ctx context.Context, g *generation, reply FinishedReply, err error) {
	s.Metrics.RunningReplies.Dec()
	s.Metrics.Replies.WithLabelValues(g.turn.Variant, string(reply.Status)).Inc()
	attrs := []slog.Attr{
		slog.String("chat_id", reply.ChatID.String()), slog.String("message_id", reply.MessageID.String()),
		slog.String("status", string(reply.Status)), slog.String("model_variant", g.turn.Variant), slog.String("model", reply.Metadata.Model),
		slog.Int64("duration_ms", time.Since(g.arrived).Milliseconds()), slog.Int("output_tokens", reply.Tokens),
		slog.Int64("brief_version", g.receipt.BriefVersion), slog.Int("dropped_turns", g.receipt.DroppedTurns),
	}
	if usage := reply.Metadata.Usage; usage != nil {
		count := s.Metrics.Tokens.WithLabelValues
		count("reply", "input").Add(float64(usage.InputTokens))
		count("reply", "cached").Add(float64(usage.CachedTokens))
		count("reply", "output").Add(float64(usage.OutputTokens))
		attrs = append(attrs, slog.Int("input_tokens", usage.InputTokens), slog.Int("cached_tokens", usage.CachedTokens))
	}
	level := slog.LevelInfo
	if reply.Status == memory.StatusFailed {
		level = slog.LevelWarn
	}
	if reply.Status == memory.StatusFailed && err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	s.Logger.LogAttrs(ctx, level, "reply ended", attrs...)
}
