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

// How often a follower reads without a notification: while notifications come, only for those that were lost.
const (
	pollWhileListening = time.Second
	pollOtherwise      = 100 * time.Millisecond
)

// readsAtOnce is how many followers of a process read at the same time. One notification wakes many, and each read is short:
// in order they are done sooner than all at once, each on a connection of its own.
const readsAtOnce = 4

// follower copies a reply that another server generates from Postgres to a relay, for all of its readers in this
// process. It reads when a notification comes and, because notifications may be lost, now and then without one.
type follower struct {
	user   auth.Principal
	reply  StoredReply // as it was when following began
	relay  streaming.Relay
	wake   chan struct{}
	cancel context.CancelFunc

	chars   int // characters read; only the follower's goroutine uses it
	readers int // guarded by Service.mu
}

// joinFollower adds a reader to the follower of a running reply, and starts it for the first one. The caller calls
// leaveFollower when it has finished reading.
func (s *Service) joinFollower(user auth.Principal, stored StoredReply) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followers[stored.MessageID]
	if f == nil {
		ctx, cancel := context.WithCancel(s.lifetime)
		f = &follower{user: user, reply: stored, wake: make(chan struct{}, 1), cancel: cancel}
		f.relay.Open()
		f.add(stored.Content)
		if ctx.Err() != nil { // the service is closed
			f.relay.Break()
			return f
		}
		s.followers[stored.MessageID] = f
		s.Metrics.FollowedReplies.Inc()
		s.following.Go(func() { s.follow(ctx, f) })
	}
	f.readers++
	return f
}

// leaveFollower removes a reader. The follower ends with its last one.
func (s *Service) leaveFollower(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.readers--; f.readers == 0 {
		s.endFollower(f)
	}
}

// endFollower ends a follower, so that the next reader starts another one. The caller holds mu.
func (s *Service) endFollower(f *follower) {
	f.cancel()
	if s.followers[f.reply.MessageID] == f {
		delete(s.followers, f.reply.MessageID)
		s.Metrics.FollowedReplies.Dec()
	}
}

// follow reads until the reply has ended. When this server stops, or Postgres stays unavailable, the readers get no
// terminal event: the reply continues, and they can resume on another server or later.
func (s *Service) follow(ctx context.Context, f *follower) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endFollower(f)
	}()
	lastRead := time.Now()
	for {
		ended, err := s.readMore(ctx, f)
		if ended {
			return
		}
		if err == nil {
			lastRead = time.Now()
		}
		if time.Since(lastRead) > s.SavePatience {
			f.relay.Break()
			return
		}
		select {
		case <-ctx.Done():
			f.relay.Break()
			return
		case <-f.wake:
		case <-time.After(s.pollInterval(err)):
		}
	}
}

func (s *Service) pollInterval(err error) time.Duration {
	if err == nil && !s.listening.Load() {
		return pollOtherwise
	}
	return pollWhileListening
}

// readMore copies what was stored since the last call.
func (s *Service) readMore(ctx context.Context, f *follower) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	if err := s.reads.Acquire(ctx, 1); err != nil {
		return false, err
	}
	now, ok, err := s.Store.FindReply(ctx, f.user, f.reply.ChatID, f.reply.MessageID, f.chars)
	s.reads.Release(1)
	switch {
	case isChatGone(err) || err == nil && !ok:
		f.relay.End(failed(f.reply.MessageID, deleted, 0))
		return true, nil
	case err != nil:
		return false, err
	}
	if now.Status == memory.StatusStreaming {
		f.add(now.Content)
		return false, nil
	}
	f.add(now.Content[min(len(f.relay.After(0)), len(now.Content)):])
	f.relay.End(terminalOf(now))
	return true, nil
}

// isChatGone reports whether err means that the whole chat was deleted.
func isChatGone(err error) bool { return fault.CodeOf(err) == fault.ChatNotFound }

func (f *follower) add(text string) {
	f.relay.Append(text)
	f.chars += utf8.RuneCountInString(text)
}

// RepliesChanged notifies the service that Postgres may hold more of these replies; of all replies when none is named.
func (s *Service) RepliesChanged(messageIDs ...uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range messageIDs {
		if f := s.followers[id]; f != nil {
			notify(f.wake)
		}
	}
	if len(messageIDs) > 0 {
		return
	}
	for _, f := range s.followers {
		notify(f.wake)
	}
}

// notify wakes the one goroutine that receives from a channel with room for one; if it is about to wake, once is enough.
func notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Listening sets whether notifications come. Until then the service polls.
func (s *Service) Listening(now bool) {
	s.listening.Store(now)
	s.Metrics.Listening.Set(0)
	if now {
		s.Metrics.Listening.Set(1)
	}
}
