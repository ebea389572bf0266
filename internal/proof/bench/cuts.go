package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// cutting is how much of it cuts does.
type cutting struct {
	clients, tokens int
	ramp            time.Duration
}

// measureCuts lets every client lose its connection somewhere in its reply and read on at once, half of them
// on another replica. What each has put together in the end is compared with what the model said.
func measureCuts(ctx context.Context, e *environment) (g group, err error) {
	size := e.cuts
	g.Title = fmt.Sprintf("%d connections lost at random deltas, each reply read on at once", size.clients)
	r, err := e.startReplicas(ctx, 2)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	cuts := &cutRun{environment: e, replicas: r, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the same cuts in each run
	all := e.clients(size.clients)
	if err := evenly(ctx, all, size.ramp, cuts.one); err != nil {
		return g, err
	}
	return g, cuts.report(ctx, all, &g)
}

// cutRun collects how long readers waited for what they had missed.
type cutRun struct {
	*environment
	*replicas

	mu          sync.Mutex
	random      *rand.Rand
	same, other times
}

// one is a client whose connection is lost after some deltas; after none it has only message.started.
func (r *cutRun) one(ctx context.Context, i int, c *client) error {
	r.mu.Lock()
	after := r.random.IntN(r.cuts.tokens)
	r.mu.Unlock()
	first, second := r.servers[i/2%2], r.servers[(i/2+i)%2] // half the time another one
	conn, err := c.start(ctx, first, c.named(r.cuts.tokens, 0), func() bool { return c.began && c.deltas >= after })
	if conn != nil {
		_ = conn.Close() // in the middle of what it sends
	}
	if err != nil {
		return fmt.Errorf("before the cut: %w", err)
	}
	if c.end != "" {
		return nil // it was so far behind that it got the rest at once
	}
	waited, err := c.finish(ctx, second, c.asking)
	if err != nil {
		return fmt.Errorf("%d deltas before the end, from %s to %s: %w", r.cuts.tokens-after, first.name, second.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if first == second {
		r.same = append(r.same, waited)
	} else {
		r.other = append(r.other, waited)
	}
	return nil
}

// report checks every reply and then reads each again, now that it is stored: the least that reading on
// could take.
func (r *cutRun) report(ctx context.Context, all []*client, g *group) error {
	var again times
	twice := 0
	for _, c := range all {
		if err := r.whole(ctx, r.model, c.asking, &c.heard); err != nil {
			return err
		}
		twice += c.twice
		stored := heard{last: fmt.Sprintf("%s:0", messageOf(c.last))}
		waited, err := stored.finish(ctx, r.servers[0], c.asking)
		if err != nil {
			return err
		}
		again = append(again, waited)
	}
	const against = "a stored reply"
	limit := map[float64]*target{.99: atMost(300)}
	g.add(row{What: "replies whole, one row each", Unit: of(len(all)), Value: float64(len(all)), Target: atLeast(float64(len(all)))},
		row{What: "characters that came twice", Value: float64(twice), Target: atMost(0)})
	for _, p := range percentiles {
		g.add(
			row{What: "first missing, same replica, " + p.name, Unit: "ms", Value: r.same.ms(p.q), Baseline: again.ms(p.q), Against: against, Target: limit[p.q]},
			row{What: "first missing, other replica, " + p.name, Unit: "ms", Value: r.other.ms(p.q), Baseline: again.ms(p.q), Against: against, Target: limit[p.q]},
		)
	}
	g.note("from before the connection is made to the first missing characters, which the model has yet to say: up to %d ms", 1000/tokensPerSecond)
	g.note("whole: to the byte what the model said, for the client and in Postgres")
	return nil
}

// percentiles are those that most rows come in.
var percentiles = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p99", .99}}

// of is the unit of a share.
func of(all int) string { return fmt.Sprintf("of %d", all) }
