package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// finish returns the reply to store. err is how the last step ended.
func (g *generation) finish(ctx context.Context, result ModelResult, err error) FinishedReply {
	if err != nil {
		result = ModelResult{}
	}
	content, _ := g.relay.Text()
	reply := FinishedReply{
		ChatID: g.started.ChatID, MessageID: g.started.MessageID, Content: content, Parts: g.relay.Parts(), Metadata: g.metadata(result),
		Spent: g.spent(result, err),
	}
	reply.count()
	if err == nil {
		reply.Status = memory.StatusComplete
		return reply
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, errCancelled) {
		reply.Status = memory.StatusCancelled
		reply.add(at(utf8.RuneCountInString(content), withoutResult(openCalls(reply.Parts), memory.ResultSkipped)))
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

// metadata is our part of the row's, after a step that reported this.
func (g *generation) metadata(result ModelResult) ReplyMetadata {
	metadata := ReplyMetadata{ModelVariant: g.started.ModelVariant, Model: cmp.Or(result.Model, g.variant.Model), Memory: &g.receipt}
	if g.variant.Name != g.started.ModelVariant {
		metadata.AnsweredBy = g.variant.Name
	}
	usage := g.usage.Plus(result.Usage)
	if result.Model != "" || usage != (streaming.Usage{}) {
		metadata.ResponseID, metadata.FinishReason, metadata.Usage = result.ResponseID, result.FinishReason, &usage
	}
	if result.FinishReason == finishToolCalls { // of a reply it is said only while it waits
		metadata.FinishReason = "stop"
	}
	return metadata
}

// spent is what the last step has cost; nil where no call was made, or the provider refused it.
func (g *generation) spent(result ModelResult, err error) *work.Spent {
	if !g.charged {
		return nil
	}
	usage := result.Usage
	if err != nil {
		usage = g.estimated(nil)
	}
	spent := &work.Spent{
		Purpose: work.PurposeReply, Model: cmp.Or(result.Model, g.variant.Model), Variant: g.variant.Name, UserID: g.user.UserID, ChatID: g.started.ChatID,
		MessageID: g.started.MessageID, InputTokens: usage.InputTokens, CachedTokens: usage.CachedTokens, OutputTokens: usage.OutputTokens,
		Estimated: usage.Estimated,
	}
	if steps := len(g.state.Steps); steps > 0 || g.attempt != uuid.Nil {
		spent.ID = uuid.NewSHA1(cmp.Or(g.attempt, g.started.MessageID), []byte{byte(steps)})
	}
	spent.MicroUSD = g.variant.Price.Of(*spent)
	return spent
}

// count sets Tokens to those of all that prompts show of the reply.
func (r *FinishedReply) count() { r.Tokens = text.Tokens(prompt.ReplyText(r.Content, r.Parts)) }

// add adds parts that are not in the relay yet.
func (r *FinishedReply) add(parts []memory.Part) {
	if len(parts) > 0 {
		r.Parts = slices.Concat(r.Parts, parts)
		r.count()
	}
}

func failureOf(err error) Failure {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return Failure{Code: string(known.Code), Message: known.Message, RetryAfter: known.RetryAfter}
	}
	return Failure{Code: string(fault.UpstreamFailed), Message: "The model did not finish its reply."}
}

// save stores the reply, also after the end of the request and the generation's context, and returns the terminal event. A
// reply that could not be stored has failed. save sets reply.Status to the row's.
func (s *Service) save(ctx context.Context, g *generation, reply *FinishedReply) streaming.Terminal {
	ctx, cancel := s.saveContext(ctx)
	defer cancel()
	reply.Server = s.id
	saved, err := s.saveWithRetries(ctx, g, *reply)
	if err == nil && saved {
		g.show(reply.Parts)
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
func (s *Service) saveWithRetries(ctx context.Context, g *generation, reply FinishedReply) (saved bool, err error) {
	err = s.patiently(ctx, func(ctx context.Context) (err error) {
		saved, err = s.Store.SaveReply(ctx, g.user, reply)
		return err
	})
	return saved && err == nil, err
}

// patiently calls store until it succeeds, ctx ends, or trying again is of no use.
func (s *Service) patiently(ctx context.Context, store func(context.Context) error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := s.inTime(ctx, store)
		if err == nil || isForbidden(err) || errors.Is(err, errTaken) || fault.CodeOf(err) == fault.MessageNotFound {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// inTime calls store with SaveTimeout.
func (s *Service) inTime(ctx context.Context, store func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	return store(ctx)
}

func isForbidden(err error) bool { return fault.CodeOf(err) == fault.ForbiddenByPolicy }

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
	case memory.StatusAwaiting:
		return streaming.Terminal{Awaiting: waiting(stored, chars)}
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
	return terminalOf(StoredReply{ChatID: r.ChatID, MessageID: r.MessageID, Status: r.Status, Content: r.Content, Parts: r.Parts, Metadata: r.Metadata})
}

func completed(stored StoredReply, chars int) streaming.Terminal {
	metadata := stored.Metadata
	done := &streaming.Completed{
		MessageID: stored.MessageID, ChatID: stored.ChatID,
		FinishReason: cmp.Or(metadata.FinishReason, "stop"), // rows that another program wrote have none
		ModelVariant: metadata.ModelVariant, AnsweredBy: metadata.AnsweredBy, ContentLength: chars, Parts: len(stored.Parts),
		Memory: json.RawMessage("null"),
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

// waiting says for what a reply waits.
func waiting(stored StoredReply, chars int) *streaming.Awaiting {
	awaiting := &streaming.Awaiting{MessageID: stored.MessageID, ChatID: stored.ChatID, ContentLength: chars, ExpiresAt: stored.Expires}
	for _, call := range openCalls(stored.Parts) {
		awaiting.Open = append(awaiting.Open, streaming.OpenCall{CallID: call.CallID, Name: call.Name, Run: call.Run, Approval: *call.Approval})
	}
	return awaiting
}

// statusOf returns the status of a reply with that terminal event.
func statusOf(end streaming.Terminal) memory.Status {
	switch {
	case end.Completed != nil:
		return memory.StatusComplete
	case end.Awaiting != nil:
		return memory.StatusAwaiting
	case end.Cancelled != nil:
		return memory.StatusCancelled
	case end.Failed.Code == interrupted.Code:
		return memory.StatusInterrupted
	}
	return memory.StatusFailed
}
