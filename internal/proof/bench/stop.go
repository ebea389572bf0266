package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// goneWithin is the longest that a server may take to end.
const goneWithin = 20 * time.Second

// measureStop sends a SIGTERM to a server with many streams. Half of the replies end within the drain time, half
// later. Every client reads to its terminal event, whichever that is.
func measureStop(ctx context.Context, f *fleet, g *group) error {
	g.title = fmt.Sprintf("SIGTERM with %d live streams, drain time %s", f.stopClients, f.drain)
	server, err := f.server(ctx, shipped, nil)
	if err != nil {
		return err
	}
	all := f.clients(f.stopClients)
	tokens := func(i int) int {
		length := f.ramp + f.drain/2 // from the first to the last request, and into the drain time
		if i%2 == 1 {
			length += 3 * f.drain
		}
		return int(length.Seconds() * tokensPerSecond)
	}
	var took time.Duration
	together, talking := errgroup.WithContext(ctx)
	together.Go(func() error {
		return evenly(talking, len(all), f.ramp, func(ctx context.Context, i int) error {
			_, err := all[i].receive(ctx, server, all[i].ask(f.askForMemory(), tokens(i)), nil)
			return err
		})
	})
	together.Go(func() error {
		if err := kit.Sleep(talking, f.ramp+f.drain/5); err != nil { // all have begun by then
			return err
		}
		began := time.Now()
		err := server.Terminate(2 * goneWithin)
		took = time.Since(began)
		return err
	})
	if err := together.Wait(); err != nil {
		return err
	}
	whole := 0
	for i, c := range all {
		complete, err := f.stored(ctx, c, tokens(i))
		if err != nil {
			return err
		}
		if complete {
			whole++
		}
	}
	g.add(row{what: "gone after", unit: "s", values: []float64{took.Seconds()}, target: atMost(goneWithin.Seconds())})
	g.note("exit code 0; all %d streams ended with a terminal event, and what was received is what is stored: %d complete, %d interrupted",
		len(all), whole, len(all)-whole)
	return nil
}
