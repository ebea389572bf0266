package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// The causes with which a generation's context is cancelled.
var (
	errCancelled = errors.New("cancelled by the user")
	errShutdown  = errors.New("the server shuts down")
)

// generation is one reply being generated. It belongs to one goroutine; others only read its relay, show parts that were stored, cancel
// it, and wait for done.
type generation struct {
	user    auth.Principal
	started streaming.Started // whose ids are all that is kept of the turn: its texts and files may be large
	variant Variant           // that answers
	arrived time.Time

	// request is the next call of the model; nil where it is to be built from the rows. Prompts are large.
	request *ModelRequest
	receipt prompt.Receipt
	state   State
	choice  ToolChoice      // of the first step
	usage   streaming.Usage // of the steps before this one
	// attempt is uuid.Nil for the first generation of a reply, and new for one that goes on with it.
	attempt uuid.UUID
	// charged says that the call may be on the bill: the model took it, or we left before it answered. inputTokens are a guess,
	// at four bytes each.
	charged     bool
	inputTokens int
	spokenFrom  int // bytes of the reply before what the call says

	relay   streaming.Relay
	showing sync.Mutex // of parts
	cancel  context.CancelCauseFunc
	done    chan struct{}

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

// launch starts the generation of a turn that was stored, and returns its first reader.
func (s *Service) launch(ctx context.Context, user auth.Principal, req sendRequest, started StartedTurn) (*Reply, error) {
	user.Begun = true
	g := &generation{
		user: user, variant: req.variant, arrived: req.arrived, choice: req.message.ToolChoice, done: make(chan struct{}),
		started: streaming.Started{ChatID: req.turn.ChatID, UserMessageID: req.turn.UserMessageID, MessageID: req.turn.MessageID, ModelVariant: req.turn.Variant},
		state: State{
			Tools: s.toolsFor(&req.message, req.variant), Sources: req.message.Sources, Instructions: req.message.ToolInstructions, Variant: req.variant.Name,
		},
	}
	s.compose(ctx, g, started.Chat, prompt.Question{Content: req.turn.Content, Done: req.done})
	return s.run(ctx, g, streaming.Place{}), nil
}

// goOn starts a generation that goes on with a reply which this server has taken over, and returns a reader from a place in it on.
func (s *Service) goOn(ctx context.Context, user auth.Principal, arrived time.Time, reply *LockedReply, at streaming.Place) *Reply {
	user.Begun = true
	g := &generation{
		user: user, arrived: arrived, attempt: uuid.New(), done: make(chan struct{}), state: *reply.State,
		started: streaming.Started{ChatID: reply.ChatID, UserMessageID: reply.UserMessageID, MessageID: reply.MessageID, ModelVariant: reply.Metadata.ModelVariant},
	}
	g.variant = s.granted(sendRequest{variant: s.Variants[0]}, g.state.Variant).variant
	if reply.Metadata.Usage != nil {
		g.usage = *reply.Metadata.Usage
	}
	if reply.Metadata.Memory != nil {
		g.receipt = *reply.Metadata.Memory
	}
	fill(&g.relay, reply.Content, 0, reply.Parts)
	g.recorded = position{len(reply.Content), utf8.RuneCountInString(reply.Content)}
	g.relay.Open()
	continued := s.run(ctx, g, g.relay.Place(at))
	continued.Started.Resumed = true
	return continued
}

// run starts the generation, detached from the request.
func (s *Service) run(ctx context.Context, g *generation, at streaming.Place) *Reply {
	detached, cancelTimeout := context.WithTimeoutCause(context.WithoutCancel(ctx), s.ReplyTimeout, context.DeadlineExceeded)
	generating, cancel := context.WithCancelCause(detached)
	g.cancel = cancel

	s.mu.Lock()
	s.running[g.started.MessageID] = g
	s.mu.Unlock()

	reply := &Reply{Started: g.started}
	reply.read(&g.relay, at)
	s.Metrics.RunningReplies.Inc()
	go func() {
		defer cancelTimeout()
		defer cancel(nil)
		s.generate(generating, g)
	}()
	return reply
}

// generate makes the reply, stores it, and only then sends the readers the terminal event.
func (s *Service) generate(ctx context.Context, g *generation) {
	reply, terminal, err := s.play(ctx, g)

	s.mu.Lock()
	delete(s.running, g.started.MessageID)
	s.mu.Unlock()
	g.relay.End(terminal)
	close(g.done)
	s.report(ctx, g, reply, err)
}

// play makes steps until the reply ends, or waits for its user. The error is the reason of a reply that failed.
func (s *Service) play(ctx context.Context, g *generation) (FinishedReply, streaming.Terminal, error) {
	for {
		waits, err := s.settle(ctx, g)
		if waits {
			reply := g.finish(ctx, ModelResult{}, nil)
			reply.Status = memory.StatusAwaiting
			s.recorder.noteEnd(reply.MessageID)
			terminal, err := s.terminalOfStored(context.WithoutCancel(ctx), g)
			return reply, terminal, err
		}
		var result ModelResult
		if err == nil {
			result, err = s.step(ctx, g)
		}
		parts := s.partsOf(g, &result)
		if err == nil && len(callsOf(parts)) > 0 {
			if err = s.recordStep(ctx, g, &result, parts); err == nil {
				continue
			}
		}
		if errors.Is(err, errTaken) {
			terminal, err := s.terminalOfStored(context.WithoutCancel(ctx), g)
			return FinishedReply{ChatID: g.started.ChatID, MessageID: g.started.MessageID, Status: statusOf(terminal)}, terminal, err
		}
		reply := g.finish(ctx, result, err)
		reply.add(parts)
		return reply, s.save(context.WithoutCancel(ctx), g, &reply), err
	}
}

// show adds the stored parts to the relay that it does not have.
func (g *generation) show(stored []memory.Part) {
	g.showing.Lock()
	defer g.showing.Unlock()
	for _, part := range stored[min(len(stored), len(g.relay.Parts())):] {
		g.relay.AddPart(part)
	}
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
