package chat

import (
	"context"
	"maps"
	"slices"
)

// Close refuses new messages, lets running replies finish until ctx ends, and then stores the rest as interrupted. Their
// readers get a terminal event. Readers of replies that another server generates get none: they can continue there.
func (s *Service) Close(ctx context.Context) {
	running := s.drain()
	for _, g := range running {
		select {
		case <-g.done:
		case <-ctx.Done():
			s.endGrace()
			g.cancel(errShutdown)
		}
	}
	for _, g := range running {
		<-g.done
	}
	s.endGrace()
	s.mu.Lock()
	s.endLifetime() // under the lock, so that no follower starts after it
	s.mu.Unlock()
	s.following.Wait()
	s.background.Wait()
}

// drain refuses further messages and returns the generations of all earlier ones, also of those whose turn was still
// being stored.
func (s *Service) drain() []*generation {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.starting.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.running))
}

func (s *Service) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}
