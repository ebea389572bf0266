package chat

import (
	"context"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

// save stores the reply, whatever happens to the request or the generation's context, and returns the terminal event. A
// reply that could not be stored has failed. save sets reply.Status to what the row holds afterwards.
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
