package chat

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

// stopInterval is how often cancellations are looked for when no notifications come.
const stopInterval = 250 * time.Millisecond

// keepLeases says every few seconds that our generations are alive, ends those of servers that have not
// said so for long, and stops ours when somebody asked another server for it.
func (s *Service) keepLeases(ctx context.Context) {
	renewal := time.NewTicker(s.Lease / 3)
	defer renewal.Stop()
	stops := time.NewTicker(stopInterval)
	defer stops.Stop()
	s.interruptAbandoned(ctx) // perhaps this server was killed a moment ago
	for {
		select {
		case <-ctx.Done():
			return
		case <-renewal.C:
			s.renewLeases(ctx)
			s.stopRequested(ctx)
			s.interruptAbandoned(ctx)
		case <-s.stops:
			s.stopRequested(ctx)
		case <-stops.C:
			if !s.listening.Load() {
				s.stopRequested(ctx)
			}
		}
	}
}

func (s *Service) renewLeases(ctx context.Context) {
	ids := s.runningIDs()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Lease/3)
	defer cancel()
	if err := s.Store.RenewLeases(ctx, ids, s.Lease); err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelWarn, "leases not renewed", slog.Int("replies", len(ids)), slog.Any("error", err))
	}
}

func (s *Service) stopRequested(ctx context.Context) {
	ids := s.runningIDs()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Lease/3)
	defer cancel()
	asked, err := s.Store.CancelRequested(ctx, ids)
	if err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelDebug, "cancellations not read", slog.Any("error", err)) // the renewals say it louder
	}
	for _, id := range asked {
		if g := s.find(id); g != nil {
			g.cancel(errCancelled)
		}
	}
}

func (s *Service) interruptAbandoned(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.Lease/3)
	defer cancel()
	switch ended, err := s.Store.InterruptAbandoned(ctx); {
	case err != nil:
		s.Logger.LogAttrs(ctx, slog.LevelDebug, "abandoned replies not looked for", slog.Any("error", err))
	case ended > 0:
		s.Metrics.Swept.WithLabelValues("message").Add(float64(ended))
		s.Logger.LogAttrs(ctx, slog.LevelWarn, "replies of a server that is gone were interrupted", slog.Int("replies", ended))
	}
}

func (s *Service) runningIDs() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.running))
}
