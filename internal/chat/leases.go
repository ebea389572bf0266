package chat

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// cancelInterval is how often requests to cancel are read while no notifications come.
const cancelInterval = 250 * time.Millisecond

// keepLeases renews this server's lease, ends the leases of its orphans, interrupts replies whose lease has
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
			s.renewLease(ctx)
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

// renewLease is for a server with replies: each has a lease of its own to begin with, which lasts for two tries.
func (s *Service) renewLease(ctx context.Context) {
	ids := s.runningIDs()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Lease/3)
	defer cancel()
	if err := s.Store.RenewLease(ctx, s.id, ids, s.Lease); err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelWarn, "lease not renewed", slog.Int("replies", len(ids)), slog.Any("error", err))
	}
}

func (s *Service) cancelRequested(ctx context.Context) {
	ids := s.runningIDs()
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

// runningIDs returns the replies that this server generates.
func (s *Service) runningIDs() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.running))
}

// storeTurn starts a turn in Postgres. One that failed may be stored all the same, if only the answer did not
// arrive, or a later read failed: then no server generates its reply, which is an orphan.
func (s *Service) storeTurn(ctx context.Context, user auth.Principal, turn NewTurn) (StartedTurn, error) {
	began, lately := time.Now(), s.slowest.Load()*31/32
	started, err := s.Store.StartTurn(ctx, user, turn)
	s.slowest.Store(max(int64(time.Since(began)), lately)) // two at once may lose one: the next says the same
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
	if err := s.Store.Abandon(ctx, ids); err != nil {
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

// Stopped is the reply that Cancel stopped.
type Stopped struct {
	_         struct{}      `description:"The reply that was stopped."`
	ChatID    uuid.UUID     `json:"chat_id"`
	MessageID uuid.UUID     `json:"message_id" description:"The reply that was stopped, or the chat's latest one when none was running."`
	Status    memory.Status `json:"status" enum:"complete,streaming,awaiting,failed,cancelled,interrupted" doc:"cancelResult.status"`
}

// Cancel stops the running reply of a chat, on whichever server it is generated, and returns it with its status, which
// is still streaming when another server did not stop it in time. A chat without any reply is fault.MessageNotFound.
func (s *Service) Cancel(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Stopped, error) {
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, uuid.Nil, 0)
	if err != nil {
		return Stopped{}, err
	}
	if !ok {
		return Stopped{}, fault.New(fault.MessageNotFound, "This chat has no reply to stop.")
	}
	stopped := Stopped{ChatID: stored.ChatID, MessageID: stored.MessageID, Status: stored.Status}
	if stored.Status == memory.StatusAwaiting {
		return s.skip(ctx, user, stopped)
	}
	if stored.Status != memory.StatusStreaming {
		return stopped, nil
	}
	if g := s.find(stored.MessageID); g != nil {
		g.cancel(errCancelled)
		stopped.waitFor(ctx, &g.relay)
		return stopped, ctx.Err()
	}
	if err := s.Store.RequestCancel(ctx, user, stored.MessageID); err != nil {
		return stopped, err
	}
	f := s.joinFollower(user, stored, 0)
	defer s.leaveFollower(f)
	waiting, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	stopped.waitFor(waiting, &f.relay)
	return stopped, ctx.Err() // another server that is slow is not an error
}

// skip ends a reply that waits. One that goes on at the same moment is stopped as any other.
func (s *Service) skip(ctx context.Context, user auth.Principal, stopped Stopped) (Stopped, error) {
	skipped, err := s.Store.SkipCalls(ctx, user, stopped.MessageID)
	switch {
	case err != nil:
		return stopped, err
	case skipped:
		stopped.Status = memory.StatusCancelled
		return stopped, nil
	}
	if g := s.find(stopped.MessageID); g != nil {
		g.cancel(errCancelled)
		stopped.waitFor(ctx, &g.relay)
		return stopped, ctx.Err()
	}
	return stopped, s.Store.RequestCancel(ctx, user, stopped.MessageID)
}

// waitFor waits until the reply in the relay has ended, and is stored.
func (s *Stopped) waitFor(ctx context.Context, reply *streaming.Relay) {
	reader := reply.Read(streaming.Place{Chars: maxReplyChars})
	defer reader.Close()
	if chunk, err := reader.Next(ctx); err == nil {
		s.Status = statusOf(*chunk.End)
	}
}

// CancelsRequested notifies the service that Postgres may hold new requests to cancel a reply.
func (s *Service) CancelsRequested() { notify(s.cancelHint) }
