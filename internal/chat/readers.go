package chat

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// announceInterval is how often a server announces which replies of other servers are read on it.
	announceInterval = time.Second
	// announcedFor is how long an announcement counts, so that a lost one or two make no difference.
	announcedFor = 3 * time.Second
)

// announceReaders announces which replies of other servers are read here: new ones at once, all of them now and then.
func (s *Service) announceReaders(ctx context.Context) {
	again := time.NewTicker(announceInterval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			s.announce(ctx, s.followed(false))
		case <-s.newFollower:
			s.announce(ctx, s.followed(true))
		}
	}
}

// followed returns the replies that are followed; only those that nobody was told of yet, if onlyNew is set.
func (s *Service) followed(onlyNew bool) (messageIDs []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.followers {
		if !onlyNew || !f.announced {
			messageIDs = append(messageIDs, id)
		}
		f.announced = true
	}
	return messageIDs
}

func (s *Service) announce(ctx context.Context, messageIDs []uuid.UUID) {
	if len(messageIDs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.SaveTimeout)
	defer cancel()
	if err := s.Store.AnnounceReaders(ctx, messageIDs); err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelDebug, "readers not announced", slog.Int("replies", len(messageIDs)), slog.Any("error", err))
	}
}

// RepliesRead notifies the service that these replies are read on some server, perhaps on this one.
func (s *Service) RepliesRead(messageIDs ...uuid.UUID) {
	if s.recorder.readers.note(time.Now(), messageIDs) {
		s.recorder.hurry()
	}
}

// readers knows which replies are read on other servers. While announcements cannot be heard, all may be. Its methods are
// safe for concurrent use.
type readers struct {
	mu        sync.Mutex
	heardFrom time.Time // from when on announcements are heard; the zero time while they are not
	announced map[uuid.UUID]announcement
}

// announcement is when the readers of a reply were announced first and last.
type announcement struct{ first, last time.Time }

func (a announcement) expired(now time.Time) bool { return now.Sub(a.last) > announcedFor }

// hear sets whether announcements are heard from now on.
func (r *readers) hear(now time.Time, heard bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heardFrom = time.Time{}
	if heard {
		r.heardFrom = now
	}
}

// note notes that these replies are read, and reports whether that is new of one of them.
func (r *readers) note(now time.Time, messageIDs []uuid.UUID) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.announced, func(_ uuid.UUID, a announcement) bool { return a.expired(now) })
	for _, id := range messageIDs {
		a, known := r.announced[id]
		if !known {
			a.first, isNew = now, true
		}
		a.last = now
		r.announced[id] = a
	}
	return isNew
}

// read reports whether a reply may be read on another server, and since when; the zero time if that is not known.
func (r *readers) read(now time.Time, messageID uuid.UUID) (since time.Time, read bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.announced[messageID]; ok && !a.expired(now) {
		return a.first, true
	}
	// What was announced before is announced again within this time.
	return time.Time{}, r.heardFrom.IsZero() || now.Sub(r.heardFrom) <= announcedFor
}

// among returns those of the replies that may be read on another server.
func (r *readers) among(now time.Time, messageIDs []uuid.UUID) (read []uuid.UUID) {
	for _, id := range messageIDs {
		if _, ok := r.read(now, id); ok {
			read = append(read, id)
		}
	}
	return read
}
