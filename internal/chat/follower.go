package chat

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// How often a follower looks when nobody tells it to: while notifications come, for those that were
// lost; without them, to be in time.
const (
	lookAnyway = time.Second
	lookOften  = 100 * time.Millisecond
)

// follower reads one reply that another server generates from Postgres into a relay, for all of its
// readers in this process. It looks when a notification says that there is more, and now and then
// without: notifications are hints that may be lost, the rows decide.
type follower struct {
	user   auth.Principal
	reply  StoredReply // as it was found first
	relay  streaming.Relay
	look   chan struct{}
	cancel context.CancelFunc

	chars   int // read so far; the follower's goroutine's
	readers int // under Service.mu
}

// join gives the follower of a running reply, which ends with its last reader.
func (s *Service) join(user auth.Principal, stored StoredReply) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followers[stored.MessageID]
	if f == nil {
		ctx, cancel := context.WithCancel(s.life)
		f = &follower{user: user, reply: stored, look: make(chan struct{}, 1), cancel: cancel}
		f.relay.Open()
		f.read(stored.Content)
		if ctx.Err() != nil { // the service has ended
			f.relay.Break()
			return f
		}
		s.followers[stored.MessageID] = f
		s.Metrics.FollowedReplies.Inc()
		s.following.Go(func() { s.keepUp(ctx, f) })
	}
	f.readers++
	return f
}

func (s *Service) leave(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.readers--; f.readers == 0 {
		s.dismiss(f)
	}
}

// dismiss ends a follower and makes room for another one of the same reply. The caller holds mu.
func (s *Service) dismiss(f *follower) {
	f.cancel()
	if s.followers[f.reply.MessageID] == f {
		delete(s.followers, f.reply.MessageID)
		s.Metrics.FollowedReplies.Dec()
	}
}

// keepUp reads on until the reply has ended. When this server stops, or Postgres stays away, its readers
// are let go without an end: the reply goes on, and they can read on elsewhere or later.
func (s *Service) keepUp(ctx context.Context, f *follower) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dismiss(f)
	}()
	seen := time.Now()
	for {
		ended, err := s.readOn(ctx, f)
		if ended {
			return
		}
		if err == nil {
			seen = time.Now()
		}
		if time.Since(seen) > s.SavePatience {
			f.relay.Break()
			return
		}
		select {
		case <-ctx.Done():
			f.relay.Break()
			return
		case <-f.look:
		case <-time.After(s.lookAfter(err)):
		}
	}
}

func (s *Service) lookAfter(err error) time.Duration {
	if err == nil && !s.listening.Load() {
		return lookOften
	}
	return lookAnyway
}

// readOn takes over what was stored since the last look.
func (s *Service) readOn(ctx context.Context, f *follower) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	now, ok, err := s.Store.FindReply(ctx, f.user, f.reply.ChatID, f.reply.MessageID, f.chars)
	switch {
	case gone(err) || err == nil && !ok:
		f.relay.End(failed(f.reply.MessageID, deleted, 0))
		return true, nil
	case err != nil:
		return false, err
	}
	if now.Status == memory.StatusStreaming {
		f.read(now.Content)
		return false, nil
	}
	f.read(now.Content[min(len(f.relay.After(0)), len(now.Content)):])
	f.relay.End(terminalOf(now))
	return true, nil
}

// gone tells whether the error says that the whole chat was deleted.
func gone(err error) bool { return fault.CodeOf(err) == fault.ChatNotFound }

func (f *follower) read(text string) {
	f.relay.Append(text)
	f.chars += utf8.RuneCountInString(text)
}

// RepliesChanged tells that there may be more to read of these replies, wherever they are generated; of
// all of them when none is named.
func (s *Service) RepliesChanged(messageIDs ...uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range messageIDs {
		if f := s.followers[id]; f != nil {
			f.lookNow()
		}
	}
	if len(messageIDs) > 0 {
		return
	}
	for _, f := range s.followers {
		f.lookNow()
	}
}

func (f *follower) lookNow() {
	select {
	case f.look <- struct{}{}:
	default: // it is about to look already
	}
}

// Listening tells whether notifications come. Until it is told so, the service looks for itself.
func (s *Service) Listening(now bool) {
	s.listening.Store(now)
	s.Metrics.Listening.Set(0)
	if now {
		s.Metrics.Listening.Set(1)
	}
}
