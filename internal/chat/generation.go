package chat

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// The causes with which a generation's context is cancelled.
var (
	errCancelled = errors.New("cancelled by the user")
	errShutdown  = errors.New("the server shuts down")
)

// generation is one reply being generated. It belongs to one goroutine; others only read its relay, cancel it, and wait
// for done.
type generation struct {
	user    auth.Principal
	started streaming.Started // whose ids are all that is kept of the turn: its texts and files may be large
	request ModelRequest
	receipt prompt.Receipt
	model   string
	arrived time.Time
	// charged says that the call may be on the bill: the model took it, or we left before it answered. inputTokens are a guess,
	// at four bytes each.
	charged     bool
	inputTokens int

	relay  streaming.Relay
	cancel context.CancelCauseFunc
	done   chan struct{}

	unrecorded atomic.Bool // the recorder knows that there is more text
	// Only the recorder's goroutine uses these: how far and when the text was recorded last.
	recorded   position
	recordedAt time.Time
}

// position is an offset in a text.
type position struct{ bytes, chars int }

// takeUnrecorded returns the text since the last call.
func (g *generation) takeUnrecorded(now time.Time) Delta {
	g.recordedAt = now
	g.unrecorded.Store(false) // before reading the text, so that later text is noted again
	text := g.relay.After(g.recorded.bytes)
	delta := Delta{MessageID: g.started.MessageID, UserID: g.user.UserID, StartChar: g.recorded.chars, Text: string(text)}
	g.recorded.bytes += len(text)
	g.recorded.chars += utf8.RuneCount(text)
	return delta
}

func (s *Service) newGeneration(ctx context.Context, user auth.Principal, req sendRequest, started StartedTurn) *generation {
	instructions := s.instructions(started.Chat.SystemPrompt, req.message.ToolInstructions)
	question := prompt.Question{Content: req.turn.Content, Sources: req.message.Sources, Instructions: instructions}
	prompt := s.prompt(ctx, user, req.turn.ChatID, started.Chat, question, req.variant)
	s.reportMissing(ctx, req.turn.ChatID, started.Chat, prompt)
	return &generation{
		user: user, model: req.variant.Model, arrived: req.arrived, receipt: prompt.Receipt, done: make(chan struct{}),
		started: streaming.Started{ChatID: req.turn.ChatID, UserMessageID: req.turn.UserMessageID, MessageID: req.turn.MessageID, ModelVariant: req.turn.Variant},
		request: ModelRequest{Model: req.variant.Model, Instructions: instructions, Input: prompt.Input, ChatID: req.turn.ChatID, UserID: user.UserID},
	}
}

// launch starts the generation, detached from the request, and returns its first reader.
func (s *Service) launch(ctx context.Context, user auth.Principal, req sendRequest, started StartedTurn) (*Reply, error) {
	user.Begun = true
	g := s.newGeneration(ctx, user, req, started)
	detached, cancelTimeout := context.WithTimeoutCause(context.WithoutCancel(ctx), s.ReplyTimeout, context.DeadlineExceeded)
	generating, cancel := context.WithCancelCause(detached)
	g.cancel = cancel

	s.mu.Lock()
	s.running[g.started.MessageID] = g
	s.mu.Unlock()

	reader := g.relay.Read(0)
	s.Metrics.RunningReplies.Inc()
	go func() {
		defer cancelTimeout()
		defer cancel(nil)
		s.generate(generating, g)
	}()
	return &Reply{Started: g.started, reader: reader}, nil
}

// generate calls the model, stores the reply, and only then sends the readers the terminal event.
func (s *Service) generate(ctx context.Context, g *generation) {
	result, err := s.stream(ctx, g)
	reply := g.finish(ctx, result, err)
	terminal := s.save(context.WithoutCancel(ctx), g, &reply)

	s.mu.Lock()
	delete(s.running, g.started.MessageID)
	s.mu.Unlock()
	g.relay.End(terminal)
	close(g.done)
	s.report(ctx, g, reply, err)
}

// stream relays the model's reply. The error is nil only when the model reported the end of its reply.
func (s *Service) stream(ctx context.Context, g *generation) (ModelResult, error) {
	if err := context.Cause(ctx); err != nil {
		return ModelResult{}, err
	}
	s.Metrics.Overhead.Observe(time.Since(g.arrived).Seconds())
	g.inputTokens = (len(g.request.Instructions) + len(g.request.Input)) / 4
	stream, err := s.Model.Stream(ctx, g.request)
	g.charged = err == nil || ctx.Err() != nil
	g.request = ModelRequest{} // it is large and no longer needed
	if err != nil {
		return ModelResult{}, err
	}
	defer func() { _ = stream.Close() }() // nothing can be lost with the connection
	g.relay.Open()
	first := true
	for stream.Next() {
		if first {
			first = false
			s.Metrics.FirstDelta.WithLabelValues(g.started.ModelVariant).Observe(time.Since(g.arrived).Seconds())
		}
		g.relay.Append(stream.Delta())
		s.recorder.noteText(g)
	}
	return stream.Result(), stream.Err()
}

// finish returns the reply to store. err is how the stream ended.
func (g *generation) finish(ctx context.Context, result ModelResult, err error) FinishedReply {
	content, _ := g.relay.Text()
	reply := FinishedReply{
		ChatID: g.started.ChatID, MessageID: g.started.MessageID, Content: content, Tokens: text.Tokens(content),
		Metadata: ReplyMetadata{ModelVariant: g.started.ModelVariant, Model: g.model, Memory: &g.receipt},
	}
	if g.charged {
		reply.Spent = &work.Spent{
			Purpose: work.PurposeReply, Model: g.model, Variant: g.started.ModelVariant, UserID: g.user.UserID, ChatID: g.started.ChatID,
			MessageID: g.started.MessageID, InputTokens: g.inputTokens, OutputTokens: reply.Tokens, Estimated: true,
		}
	}
	if err == nil {
		reply.Spent.Model, reply.Spent.Estimated = result.Model, result.Usage == streaming.Usage{}
		if !reply.Spent.Estimated {
			reply.Spent.InputTokens, reply.Spent.CachedTokens = result.Usage.InputTokens, result.Usage.CachedTokens
			reply.Spent.OutputTokens = result.Usage.OutputTokens
		}
		reply.Status = memory.StatusComplete
		reply.Metadata.Model, reply.Metadata.ResponseID = result.Model, result.ResponseID
		reply.Metadata.FinishReason, reply.Metadata.Usage = result.FinishReason, &result.Usage
		return reply
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, errCancelled) {
		reply.Status = memory.StatusCancelled
		return reply
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
	return reply
}

func failureOf(err error) Failure {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return Failure{Code: string(known.Code), Message: known.Message, RetryAfter: known.RetryAfter}
	}
	return Failure{Code: string(fault.UpstreamFailed), Message: "The model did not finish its reply."}
}

// report writes the log line and the metrics of a reply.
func (s *Service) report(ctx context.Context, g *generation, reply FinishedReply, err error) {
	s.Metrics.RunningReplies.Dec()
	s.Metrics.Replies.WithLabelValues(g.started.ModelVariant, string(reply.Status)).Inc()
	attrs := []slog.Attr{
		slog.String("chat_id", reply.ChatID.String()), slog.String("message_id", reply.MessageID.String()),
		slog.String("status", string(reply.Status)), slog.String("model_variant", g.started.ModelVariant), slog.String("model", reply.Metadata.Model),
		slog.Int64("duration_ms", time.Since(g.arrived).Milliseconds()), slog.Int("output_tokens", reply.Tokens),
		slog.Int64("brief_version", g.receipt.BriefVersion), slog.Int("dropped_turns", g.receipt.DroppedTurns),
	}
	if usage := reply.Metadata.Usage; usage != nil {
		s.Metrics.CountTokens("reply", usage.InputTokens, usage.CachedTokens, usage.OutputTokens)
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

// save stores the reply, also after the end of the request and the generation's context, and returns the terminal event. A
// reply that could not be stored has failed. save sets reply.Status to the row's.
func (s *Service) save(ctx context.Context, g *generation, reply *FinishedReply) streaming.Terminal {
	ctx, cancel := s.saveContext(ctx)
	defer cancel()
	saved, err := s.saveWithRetries(ctx, g, *reply)
	if err == nil && saved {
		s.recorder.noteEnd(reply.MessageID)
		return reply.terminal()
	}
	var terminal streaming.Terminal
	if err == nil {
		terminal, err = s.terminalOfStored(ctx, g)
	}
	if err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelError, "reply not saved", slog.String("chat_id", reply.ChatID.String()),
			slog.String("message_id", reply.MessageID.String()), slog.Any("error", err))
		terminal = failed(reply.MessageID, notStored, 0)
		if isForbidden(err) {
			terminal = failed(reply.MessageID, notAllowed, 0)
		}
	}
	reply.Status = statusOf(terminal)
	return terminal
}

// saveContext returns the context for storing a reply. It ends after SavePatience, so that a reply survives a restart of
// Postgres; in a server that stops, SaveTimeout after the grace period.
func (s *Service) saveContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.SavePatience)
	stop := context.AfterFunc(s.grace, func() {
		last := time.AfterFunc(s.SaveTimeout, cancel)
		context.AfterFunc(ctx, func() { last.Stop() })
	})
	return ctx, func() { stop(); cancel() }
}

// saveWithRetries tries to store a reply until ctx ends, or a rule of the app's forbids it. Storing it twice has the
// effect of storing it once.
func (s *Service) saveWithRetries(ctx context.Context, g *generation, reply FinishedReply) (bool, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		saved, err := s.saveOnce(ctx, g, reply)
		if err == nil || isForbidden(err) {
			return saved, err
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(wait):
		}
	}
}

func isForbidden(err error) bool { return fault.CodeOf(err) == fault.ForbiddenByPolicy }

func (s *Service) saveOnce(ctx context.Context, g *generation, reply FinishedReply) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	return s.Store.SaveReply(ctx, g.user, reply)
}

// terminalOfStored returns the terminal event of a reply whose row was not there to be saved: it was deleted, or another
// server interrupted it because this one had not renewed its lease.
func (s *Service) terminalOfStored(ctx context.Context, g *generation) (streaming.Terminal, error) {
	stored, ok, err := s.Store.FindReply(ctx, g.user, g.started.ChatID, g.started.MessageID, 0)
	switch {
	case isChatGone(err) || err == nil && !ok:
		return failed(g.started.MessageID, deleted, 0), nil
	case err != nil:
		return streaming.Terminal{}, err
	}
	return terminalOf(stored), nil
}

// The failures of a reply that are not the model's.
var (
	interrupted = Failure{Code: string(fault.Interrupted), Message: "The reply was interrupted. What was said so far is kept."}
	deleted     = Failure{Code: string(fault.MessageNotFound), Message: "The reply was deleted."}
	notAllowed  = Failure{Code: string(fault.ForbiddenByPolicy), Message: "The reply was not stored: the app's own rules do not allow it."}
	notStored   = Failure{Code: string(fault.NotReady), Message: "The reply could not be stored: the database was not available."}
)

// terminalOf returns the terminal event of a reply that has ended.
func terminalOf(stored StoredReply) streaming.Terminal {
	chars := utf8.RuneCountInString(stored.Content)
	switch stored.Status {
	case memory.StatusComplete:
		return completed(stored, chars)
	case memory.StatusCancelled:
		return streaming.Terminal{Cancelled: &streaming.Cancelled{MessageID: stored.MessageID, ContentLength: chars}}
	}
	failure := stored.Metadata.Failure
	if failure == nil {
		failure = &interrupted
	}
	return failed(stored.MessageID, *failure, chars)
}

// terminal returns the terminal event of the reply once it is stored.
func (r *FinishedReply) terminal() streaming.Terminal {
	return terminalOf(StoredReply{ChatID: r.ChatID, MessageID: r.MessageID, Status: r.Status, Content: r.Content, Metadata: r.Metadata})
}

func completed(stored StoredReply, chars int) streaming.Terminal {
	metadata := stored.Metadata
	done := &streaming.Completed{
		MessageID: stored.MessageID, ChatID: stored.ChatID,
		FinishReason: cmp.Or(metadata.FinishReason, "stop"), // rows that another program wrote have none
		ModelVariant: metadata.ModelVariant, ContentLength: chars, Memory: json.RawMessage("null"),
	}
	if metadata.Usage != nil {
		done.Usage = *metadata.Usage
	}
	if receipt, err := json.Marshal(metadata.Memory); err == nil {
		done.Memory = receipt
	}
	return streaming.Terminal{Completed: done}
}

func failed(messageID uuid.UUID, failure Failure, chars int) streaming.Terminal {
	return streaming.Terminal{Failed: &streaming.Failed{
		MessageID: messageID, Code: failure.Code, Message: failure.Message, Retryable: fault.Retryable(fault.Code(failure.Code)),
		ContentLength: chars, RetryAfter: failure.RetryAfter,
	}}
}

// statusOf returns the status of a reply with that terminal event.
func statusOf(end streaming.Terminal) memory.Status {
	switch {
	case end.Completed != nil:
		return memory.StatusComplete
	case end.Cancelled != nil:
		return memory.StatusCancelled
	case end.Failed.Code == interrupted.Code:
		return memory.StatusInterrupted
	}
	return memory.StatusFailed
}
