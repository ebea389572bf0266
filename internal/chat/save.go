package chat

import (
	"context"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/streaming"
)

// save stores the reply on a context of its own and gives the terminal event that is true afterwards. A
// reply that could not be stored has failed, whatever the model said.
func (s *Service) save(ctx context.Context, g *generation, reply *FinishedReply, terminal streaming.Terminal) streaming.Terminal {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	saved, err := s.saveUntil(ctx, g, *reply)
	if err == nil && saved {
		s.recorder.end(reply.MessageID)
		return terminal
	}
	if err == nil {
		terminal, err = s.endedOtherwise(ctx, g)
	}
	if err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelError, "reply not saved", slog.String("chat_id", reply.ChatID.String()),
			slog.String("message_id", reply.MessageID.String()), slog.Any("error", err))
		terminal = failed(reply.MessageID, unstored, 0)
	}
	reply.Status = statusOf(terminal)
	return terminal
}

// patience is how long a reply's storing may take: while Postgres restarts, a reply waits in memory. A
// server that stops waits less.
func (s *Service) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.SavePatience)
	stop := context.AfterFunc(s.hurry, func() {
		last := time.AfterFunc(s.SaveTimeout, cancel)
		context.AfterFunc(ctx, func() { last.Stop() })
	})
	return ctx, func() { stop(); cancel() }
}

// saveUntil tries to store a reply until ctx ends: a Postgres that restarts breaks connections, and what
// the model said should outlive that. Storing it twice is storing it once.
func (s *Service) saveUntil(ctx context.Context, g *generation, reply FinishedReply) (bool, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		saved, err := s.saveOnce(ctx, g, reply)
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

func (s *Service) saveOnce(ctx context.Context, g *generation, reply FinishedReply) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	return s.Store.SaveReply(ctx, g.user, reply)
}

// endedOtherwise is how a reply ended whose row did not take our text: it was deleted, or given up by
// others while this server was taken for dead, and perhaps tried again.
func (s *Service) endedOtherwise(ctx context.Context, g *generation) (streaming.Terminal, error) {
	stored, ok, err := s.Store.FindReply(ctx, g.user, g.turn.ChatID, g.turn.MessageID, 0)
	switch {
	case gone(err) || err == nil && !ok:
		return failed(g.turn.MessageID, deleted, 0), nil
	case err != nil:
		return streaming.Terminal{}, err
	}
	return terminalOf(stored), nil
}
