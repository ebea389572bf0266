package chat

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
)

// Cancel stops the reply that a chat is busy with, wherever it is generated, and tells which reply that
// was and in what state it is: streaming when the server that generates it could not be waited for. A
// chat without any reply is fault.MessageNotFound.
func (s *Service) Cancel(ctx context.Context, user auth.Principal, chatID uuid.UUID) (StoredReply, error) {
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, uuid.Nil, 0)
	if err != nil {
		return StoredReply{}, err
	}
	if !ok {
		return StoredReply{}, fault.New(fault.MessageNotFound, "This chat has no reply to stop.")
	}
	if stored.Status != memory.StatusStreaming {
		return stored, nil
	}
	if g := s.find(stored.MessageID); g != nil {
		return stored, s.cancelHere(ctx, g, &stored)
	}
	return stored, s.cancelElsewhere(ctx, user, &stored)
}

// cancelHere stops a generation of this process and waits until it is stored.
func (s *Service) cancelHere(ctx context.Context, g *generation, stored *StoredReply) error {
	g.cancel(errCancelled)
	select {
	case <-g.done:
		stored.Status = g.status
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancelElsewhere asks the server that generates the reply to stop it, and waits as one of its readers
// for the end.
func (s *Service) cancelElsewhere(ctx context.Context, user auth.Principal, stored *StoredReply) error {
	if err := s.Store.RequestCancel(ctx, user, stored.MessageID); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	f := s.join(user, *stored)
	defer s.leave(f)
	reader := f.relay.Read(MaxReply)
	defer reader.Close()
	chunk, err := reader.Next(patience)
	if err == nil {
		stored.Status = statusOf(*chunk.End)
	}
	return ctx.Err() // that the others are slow is no failure of ours
}

// CancelsRequested tells that somebody asked for a reply to be stopped. Which one is in Postgres.
func (s *Service) CancelsRequested() {
	select {
	case s.stops <- struct{}{}:
	default: // somebody is about to look already
	}
}
