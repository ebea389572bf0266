package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// stopping is the size of measureStop.
type stopping struct {
	clients int
	ramp    time.Duration
	drain   time.Duration // how long replies run on after the signal, of the server's 15 s at most
}

// goneWithin is the longest that a server may take to end.
const goneWithin = 20 * time.Second

// measureStop sends a SIGTERM to a server with many streams. Half of the replies end within the drain time, half
// later. Every client reads to its terminal event, whichever that is.
func measureStop(ctx context.Context, e *environment) (g group, err error) {
	size := e.stop
	g.title = fmt.Sprintf("SIGTERM with %d live streams, drain time %s", size.clients, size.drain)
	g.columns = []string{shipped}
	f, err := e.startFleet(ctx, role{})
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	server, err := f.server(ctx, shipped, nil)
	if err != nil {
		return g, err
	}
	all := e.clients(size.clients)
	tokens := func(i int) int {
		length := size.ramp + size.drain/2 // from the first to the last request, and into the drain time
		if i%2 == 1 {
			length += 3 * size.drain
		}
		return int(length.Seconds() * tokensPerSecond)
	}
	var took time.Duration
	together, talking := errgroup.WithContext(ctx)
	together.Go(func() error {
		return evenly(talking, size.clients, size.ramp, func(ctx context.Context, i int) error {
			_, err := all[i].receive(ctx, server, all[i].ask(e.askForMemory(), tokens(i)), nil)
			return err
		})
	})
	together.Go(func() error {
		if err := kit.Sleep(talking, size.ramp+size.drain/5); err != nil { // all have begun by then
			return err
		}
		began := time.Now()
		err := server.Terminate(2 * goneWithin)
		took = time.Since(began)
		return err
	})
	if err := together.Wait(); err != nil {
		return g, err
	}
	whole := 0
	for i, c := range all {
		complete, err := e.stored(ctx, c, tokens(i))
		if err != nil {
			return g, err
		}
		if complete {
			whole++
		}
	}
	g.add(row{what: "gone after", unit: "s", values: []float64{took.Seconds()}, target: atMost(goneWithin.Seconds())})
	g.note("exit code 0; all %d streams ended with a terminal event, and what was received is what is stored: %d complete, %d interrupted",
		len(all), whole, len(all)-whole)
	return g, nil
}
