package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// stopping is the size of measureStop.
type stopping struct {
	clients int
	ramp    time.Duration
	drain   time.Duration // DRAIN_TIMEOUT
}

// goneWithin is the longest that a server may take to end.
const goneWithin = 20 * time.Second

// measureStop sends a SIGTERM to a server with many streams. Half of the replies end within the drain time, half
// later. Every client reads to its terminal event, whichever that is.
func measureStop(ctx context.Context, e *environment) (g group, err error) {
	size := e.stop
	g.Title = fmt.Sprintf("SIGTERM with %d live streams, drain time %s", size.clients, size.drain)
	f, err := e.startFleet(ctx, role{Settings: map[string]string{"DRAIN_TIMEOUT": size.drain.String()}}, roleServer)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	model, server := f[0], f[1]
	all := e.clients(size.clients)
	var took time.Duration
	var refusals int
	begun := make(chan struct{}, len(all)) // a value for each reply that has begun
	together, talking := errgroup.WithContext(ctx)
	together.Go(func() error {
		return evenly(talking, size.clients, size.ramp, func(ctx context.Context, i int) error {
			length := size.ramp + size.drain/2 // from the first to the last request, and into the drain time
			if i%2 == 1 {
				length += 3 * size.drain
			}
			var once sync.Once
			_, err := all[i].receive(ctx, server, all[i].named(int(length.Seconds()*tokensPerSecond), 0), func() bool {
				once.Do(func() { begun <- struct{}{} })
				return false
			})
			return err
		})
	})
	together.Go(func() (err error) {
		for range all { // a reply that is interrupted before it begins is an answer without a stream
			select {
			case <-begun:
			case <-talking.Done():
				return nil
			}
		}
		if err := kit.Sleep(talking, size.drain/5); err != nil {
			return err
		}
		took, refusals, err = e.terminate(talking, server)
		return err
	})
	if err := together.Wait(); err != nil {
		return g, err
	}
	ended := map[string]int{}
	for _, c := range all {
		status, err := e.stored(ctx, model, c)
		if err != nil {
			return g, err
		}
		ended[status]++
	}
	count := float64(len(all))
	g.add(
		row{What: "ended with a terminal event", Unit: of(len(all)), Value: count, Target: atLeast(count)},
		row{What: "text received is text stored", Unit: of(len(all)), Value: count, Target: atLeast(count)},
		row{What: "seconds until the server was gone", Unit: "s", Value: took.Seconds(), Target: atMost(goneWithin.Seconds())},
	)
	g.note("exit code 0, no reply left streaming: %d complete, %d interrupted; %d new messages were answered 503 meanwhile",
		ended["complete"], ended["interrupted"], refusals)
	return g, nil
}

// terminate ends the server, and returns how long that took and how many new messages were refused meanwhile, as
// they should be.
func (e *environment) terminate(ctx context.Context, server endpoint) (took time.Duration, refusals int, err error) {
	const every = 50 * time.Millisecond
	late := e.clients(1)[0]
	began := time.Now()
	gone := make(chan error, 1)
	go func() { gone <- server.Terminate(2 * goneWithin) }()
	for {
		select {
		case err := <-gone:
			return time.Since(began), refusals, err
		case <-time.After(every):
			refused, err := late.turnedAway(ctx, server, refusals > 0)
			if err != nil {
				return 0, 0, errors.Join(err, <-gone)
			}
			refusals += refused
		}
	}
}

// turnedAway sends a message to a server that is stopping. An answer other than 503 is an error; a server that
// has stopped gives none. Until the server has refused a message it may not have seen the signal yet.
func (c *client) turnedAway(ctx context.Context, p endpoint, refusing bool) (refusals int, err error) {
	_, err = c.receive(ctx, p, c.named(1, 0), nil)
	if err == nil && refusing {
		return 0, errors.New("a server that stops took a new message")
	}
	if err == nil {
		*c = *newClient(c.conversation)
		return 0, nil
	}
	answer, answered := errors.AsType[*refused](err)
	switch {
	case !answered:
		return 0, nil
	case answer.status != http.StatusServiceUnavailable || answer.header.Get("Retry-After") == "":
		return 0, fmt.Errorf("a server that stops answered %w", err)
	}
	return 1, nil
}
