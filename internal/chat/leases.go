package chat

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// keepLeases says every few seconds that our generations are alive, and stops those that somebody
// asked another server to stop.
func (s *Service) keepLeases(ctx context.Context) {
	defer close(s.stopped)
	ticker := time.NewTicker(s.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.renewLeases(ctx)
		}
	}
}

func (s *Service) renewLeases(ctx context.Context) {
	s.mu.Lock()
	ids := make([]uuid.UUID, 0, len(s.running))
	for id := range s.running {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Lease/3)
	defer cancel()
	cancelled, err := s.Store.RenewLeases(ctx, ids, s.Lease)
	if err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelWarn, "leases not renewed", slog.Int("replies", len(ids)), slog.Any("error", err))
		return
	}
	for _, id := range cancelled {
		if g := s.find(id); g != nil {
			g.cancel(errCancelled)
		}
	}
}
