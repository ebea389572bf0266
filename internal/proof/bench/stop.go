package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

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

// measureStop sends a SIGTERM to a server with many streams. Half of the replies end within the drain time, half later.
func measureStop(ctx context.Context, e *environment) (g group, err error) {
	size := e.stop
	g.Title = fmt.Sprintf("SIGTERM with %d live streams, drain time %s", size.clients, size.drain)
	r, err := e.startReplicas(ctx, 1, "DRAIN_TIMEOUT="+size.drain.String())
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	all := e.clients(size.clients)
	talking := make(chan error, 1)
	go func() {
		talking <- evenly(ctx, all, size.ramp, func(ctx context.Context, i int, c *client) error { return r.toTheEnd(ctx, size, i, c) })
	}()
	if err := kit.Sleep(ctx, size.ramp+size.drain/5); err != nil {
		return g, errors.Join(err, <-talking)
	}
	took, refusals, err := r.terminate(ctx, e.clients(1)[0])
	if err = errors.Join(err, <-talking); err != nil {
		return g, err
	}
	return g, e.reportStop(ctx, r, all, took, refusals, &g)
}

// toTheEnd is a client that reads its reply to its terminal event, whichever that is.
func (r *replicas) toTheEnd(ctx context.Context, size stopping, i int, c *client) error {
	length := size.ramp + size.drain/2 // from the first to the last request, and into the drain time
	if i%2 == 1 {
		length += 3 * size.drain
	}
	conn, err := c.start(ctx, r.servers[0], c.named(int(length.Seconds()*tokensPerSecond), 0), never)
	if conn != nil {
		_ = conn.Close() // nothing follows the terminal event
	}
	return err
}

// terminate ends the server, and returns how long that took and how many new messages were refused meanwhile, as
// they should be.
func (r *replicas) terminate(ctx context.Context, late *client) (took time.Duration, refusals int, err error) {
	began := time.Now()
	server := r.servers[0]
	var over atomic.Bool
	counted := make(chan error, 1)
	go func() {
		const every = 50 * time.Millisecond
		for !over.Load() && kit.Sleep(ctx, every) == nil {
			refused, err := late.turnedAway(ctx, server)
			if err != nil {
				counted <- err
				return
			}
			refusals += refused
		}
		counted <- nil
	}()
	err = server.process.Terminate(2 * goneWithin)
	took = time.Since(began)
	over.Store(true)
	return took, refusals, errors.Join(err, <-counted)
}

// turnedAway sends a message to a server that is stopping. An answer other than 503 is an error; a server that
// has stopped gives none.
func (c *client) turnedAway(ctx context.Context, p endpoint) (refusals int, err error) {
	conn, err := c.start(ctx, p, c.named(1, 0), never)
	if conn != nil {
		_ = conn.Close() // it was for one answer
	}
	if err == nil {
		return 0, errors.New("a server that stops took a new message")
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

// reportStop checks that every client received all that is stored, and the right end.
func (e *environment) reportStop(ctx context.Context, r *replicas, all []*client, took time.Duration, refusals int, g *group) error {
	ended := map[string]int{}
	for _, c := range all {
		row, err := e.stored(ctx, c.sentMessage)
		if err != nil {
			return err
		}
		if row.content != string(c.Text) {
			return fmt.Errorf("a reply that is %s has %d bytes, its client heard %d", row.status, len(row.content), len(c.Text))
		}
		spoken, err := sentByModel(ctx, r.model, c.sentMessage)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(spoken, c.Text) || row.status == "complete" && len(spoken) != len(c.Text) {
			return fmt.Errorf("a reply that is %s has %d bytes, the model said %d", row.status, len(c.Text), len(spoken))
		}
		if want := map[string]string{"completion": "complete", "message.failed": "interrupted"}[c.End]; row.status != want {
			return fmt.Errorf("a reply ended with %q %q and is stored as %s", c.End, c.Code, row.status)
		}
		ended[row.status]++
	}
	count := float64(len(all))
	g.add(
		row{What: "ended with a terminal event", Unit: of(len(all)), Value: count, Target: atLeast(count)},
		row{What: "text received is text stored", Unit: of(len(all)), Value: count, Target: atLeast(count)},
		row{What: "seconds until the server was gone", Unit: "s", Value: took.Seconds(), Target: atMost(goneWithin.Seconds())},
	)
	g.note("exit code 0, no reply left streaming: %d complete, %d interrupted; %d new messages were answered 503 meanwhile",
		ended["complete"], ended["interrupted"], refusals)
	return nil
}
