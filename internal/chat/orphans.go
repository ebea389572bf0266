package chat

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/google/uuid"
)

// storeTurn starts a turn in Postgres. One that failed may be stored all the same, if only the answer was lost or what had
// to be read after it: then nobody generates its reply, which is an orphan.
func (s *Service) storeTurn(ctx context.Context, user auth.Principal, turn NewTurn) (StartedTurn, error) {
	started, err := s.Store.StartTurn(ctx, user, turn)
	switch fault.CodeOf(err) {
	case fault.NotReady, fault.Internal:
		s.mu.Lock()
		s.orphans[turn.MessageID] = time.Now().Add(s.Lease)
		s.mu.Unlock()
	}
	return started, err
}

// abandonOrphans ends the leases of orphans, so that they are interrupted at once and may be retried. It does so again and
// again, because a turn may be stored later than it failed here, until their leases have ended by themselves.
func (s *Service) abandonOrphans(ctx context.Context) {
	ids := s.leasedOrphans(time.Now())
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Lease/3)
	defer cancel()
	if err := s.Store.RenewLeases(ctx, ids, 0); err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelDebug, "replies of failed turns not abandoned", slog.Int("replies", len(ids)), slog.Any("error", err))
	}
}

// leasedOrphans returns the orphans whose lease may last, and forgets the others.
func (s *Service) leasedOrphans(now time.Time) []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.orphans, func(_ uuid.UUID, until time.Time) bool { return now.After(until) })
	return slices.Collect(maps.Keys(s.orphans))
}
