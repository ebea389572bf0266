package chat

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// cancelInterval is how often requests to cancel are read while no notifications come.
const cancelInterval = 250 * time.Millisecond

// keepLeases renews the leases of this server's generations, ends those of its orphans, interrupts replies whose lease has
// expired, and cancels generations when a cancellation was requested at another server.
func (s *Service) keepLeases(ctx context.Context) {
	renewal := time.NewTicker(s.Lease / 3)
	defer renewal.Stop()
	poll := time.NewTicker(cancelInterval)
	defer poll.Stop()
	s.interruptAbandoned(ctx) // this server may have been killed a moment ago
	for {
		select {
		case <-ctx.Done():
			return
		case <-renewal.C:
			s.renewLeases(ctx)
			s.abandonOrphans(ctx)
			s.cancelRequested(ctx)
			s.interruptAbandoned(ctx)
		case <-s.cancelHint:
			s.cancelRequested(ctx)
		case <-poll.C:
			if !s.listening.Load() {
				s.cancelRequested(ctx)
			}
		}
	}
}

// renewLeases leaves out those that began a moment ago, as short replies have none to renew: should the next renewal fail,
// there is time for one more.
func (s *Service) renewLeases(ctx context.Context) {
	ids := s.runningIDs(time.Now().Add(-s.Lease / 6))
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Lease/3)
	defer cancel()
	if err := s.Store.RenewLeases(ctx, ids, s.Lease); err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelWarn, "leases not renewed", slog.Int("replies", len(ids)), slog.Any("error", err))
	}
}

func (s *Service) cancelRequested(ctx context.Context) {
	ids := s.runningIDs(time.Now())
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Lease/3)
	defer cancel()
	requested, err := s.Store.CancelRequested(ctx, ids)
	if err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelDebug, "cancellations not read", slog.Any("error", err)) // failing renewals are logged as warnings
	}
	for _, id := range requested {
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

// runningIDs returns the replies that this server generates since then or longer.
func (s *Service) runningIDs(since time.Time) (ids []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, g := range s.running {
		if !g.arrived.After(since) {
			ids = append(ids, id)
		}
	}
	return ids
}
