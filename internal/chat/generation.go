package chat

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
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
	receipt memory.Receipt
	model   string
	arrived time.Time

	relay  streaming.Relay
	cancel context.CancelCauseFunc
	done   chan struct{}
	status memory.Status
}

func (s *Service) newGeneration(ctx context.Context, user auth.Principal, turn NewTurn, started StartedTurn, message Message) *generation {
	turns := memory.Turns(started.Buffer)
	prompt := memory.Build(started.Brief, turns, memory.Question{Content: turn.Content, Sources: message.Sources}, s.Limits)
	prompt.Receipt.DroppedTurns += unreadTurns(started)
	s.reportDropped(ctx, turn.ChatID, started, prompt.Receipt)
	instructions := s.Instructions
	if started.SystemPrompt != "" {
		instructions += "\n\n" + started.SystemPrompt
	}
	return &generation{
		user: user, turn: turn, receipt: prompt.Receipt, done: make(chan struct{}),
		request: ModelRequest{Instructions: instructions, Input: prompt.Input, ChatID: turn.ChatID, UserID: user.UserID},
	}
}

// unreadTurns counts the turns of the buffer that were too old even to be read.
func unreadTurns(started StartedTurn) int {
	read := 0
	for _, message := range started.Buffer {
		if message.Role == memory.RoleUser {
			read++
		}
	}
	return max(0, started.PendingTurns-read)
}

// reportDropped makes a broken promise visible: turns that the model cannot see.
func (s *Service) reportDropped(ctx context.Context, chatID uuid.UUID, started StartedTurn, receipt memory.Receipt) {
	if receipt.Truncated {
		s.Metrics.TruncatedPrompts.Inc()
	}
	if receipt.DroppedTurns == 0 && !receipt.Truncated {
		return
	}
	s.Metrics.DroppedTurns.Add(float64(receipt.DroppedTurns))
	s.Logger.LogAttrs(ctx, slog.LevelWarn, "prompt does not hold the whole conversation",
		slog.String("chat_id", chatID.String()), slog.Int("dropped_turns", receipt.DroppedTurns),
		slog.Bool("truncated", receipt.Truncated), slog.Int("pending_turns", started.PendingTurns),
		slog.Int("brief_tokens", receipt.BriefTokens), slog.Int("tail_turns", receipt.TailTurns), slog.Int("bridge_turns", receipt.BridgeTurns))
}

// launch starts the generation, detached from the request, and gives its first reader.
func (s *Service) launch(ctx context.Context, g *generation) (*Reply, error) {
	g.request.Model = g.model
	detached, cancelTimeout := context.WithTimeoutCause(context.WithoutCancel(ctx), s.ReplyTimeout, context.DeadlineExceeded)
	generating, cancel := context.WithCancelCause(detached)
	g.cancel = cancel

	s.mu.Lock()
	if s.draining {
		// Between the first look and here the server began to stop: the turn is stored, so it ends as
		// every other interrupted one.
		cancel(errShutdown)
	}
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
	}
	return stream.Result(), stream.Err()
}

// finish decides what a reply's row and its terminal event say.
func (g *generation) finish(ctx context.Context, result ModelResult, err error) (FinishedReply, streaming.Terminal) {
	text, chars := g.relay.Text()
	reply := FinishedReply{
		ChatID: g.turn.ChatID, MessageID: g.turn.MessageID, Content: text, Tokens: memory.Tokens(text),
		Metadata: ReplyMetadata{ModelVariant: g.turn.Variant, Model: g.model, Memory: &g.receipt},
	}
	if err == nil {
		reply.Status = memory.StatusComplete
		reply.Metadata.Model, reply.Metadata.ResponseID = result.Model, result.ResponseID
		reply.Metadata.FinishReason, reply.Metadata.Usage = result.FinishReason, &result.Usage
		return reply, completed(reply, chars)
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, errCancelled) {
		reply.Status = memory.StatusCancelled
		return reply, streaming.Terminal{Cancelled: &streaming.Cancelled{MessageID: reply.MessageID, ContentLength: chars}}
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
	return reply, failed(reply.MessageID, failure)
}

var interrupted = Failure{Code: string(fault.Interrupted), Message: "The reply was interrupted. What was said so far is kept."}

func failureOf(err error) Failure {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return Failure{Code: string(known.Code), Message: known.Message, RetryAfter: known.RetryAfter}
	}
	return Failure{Code: string(fault.UpstreamFailed), Message: "The model did not finish its reply."}
}

// save stores the reply on a context of its own and gives the terminal event that is true afterwards. A
// reply that could not be stored has failed, whatever the model said.
func (s *Service) save(ctx context.Context, g *generation, reply *FinishedReply, terminal streaming.Terminal) streaming.Terminal {
	ctx, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	saved, err := s.saveUntil(ctx, g, *reply)
	if err == nil && saved {
		return terminal
	}
	reply.Status = memory.StatusFailed
	if err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelError, "reply not saved", slog.String("chat_id", reply.ChatID.String()),
			slog.String("message_id", reply.MessageID.String()), slog.Any("error", err))
		return failed(reply.MessageID, Failure{Code: string(fault.Internal), Message: "The reply could not be stored."})
	}
	return failed(reply.MessageID, Failure{Code: string(fault.ChatNotFound), Message: "The chat was deleted while the reply was being written."})
}

// saveUntil tries to store a reply until ctx ends: a Postgres that restarts breaks connections, and what
// the model said should outlive that. Storing it twice is storing it once.
func (s *Service) saveUntil(ctx context.Context, g *generation, reply FinishedReply) (bool, error) {
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		saved, err := s.Store.SaveReply(ctx, g.user, reply)
		if err == nil {
			return saved, nil
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(wait):
		}
	}
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
