package chat

import (
	"context"
	"maps"
	"slices"
)

// Close refuses new messages, lets running replies finish until ctx ends, then stores the rest as
// interrupted. Each of their readers gets a terminal event. Those of a reply that another server generates
// are let go without one, to read on elsewhere.
func (s *Service) Close(ctx context.Context) {
	running := s.drain()
	for _, g := range running {
		select {
		case <-g.done:
		case <-ctx.Done():
			s.hasty()
			g.cancel(errShutdown)
		}
	}
	for _, g := range running {
		<-g.done
	}
	s.hasty()
	s.mu.Lock()
	s.end() // with the lock: nobody joins a follower after this
	s.mu.Unlock()
	s.following.Wait()
	s.keeping.Wait()
}

// drain lets no message in any more and gives the generations of all that came before, also of those
// whose turn was still being stored.
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
