package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// cutting is the size of measureCuts.
type cutting struct {
	clients, tokens int
	ramp            time.Duration
}

// measureCuts cuts every client's connection somewhere in its reply. Clients read on at once, half of them on
// another replica. In the end the text of each is compared with what the model sent.
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

// cutRun collects how long clients waited for what they had missed.
type cutRun struct {
	*environment
	*replicas

	mu          sync.Mutex
	random      *rand.Rand
	same, other kit.Times
}

// one is a client whose connection is cut after some deltas; after none it has only message.started.
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
	if c.End != "" {
		return nil // it was so far behind that it got the rest at once
	}
	waited, err := c.finish(ctx, second, c.sentMessage)
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

// report checks every reply and then reads each again, now that it is stored: the baseline of reading on.
func (r *cutRun) report(ctx context.Context, all []*client, g *group) error {
	var again kit.Times
	twice := 0
	for _, c := range all {
		if err := r.checkWhole(ctx, r.model, c.sentMessage, &c.reply); err != nil {
			return err
		}
		twice += c.Repeated
		stored := reply{Reply: kit.Reply{LastEventID: messageOf(c.LastEventID) + ":0"}}
		waited, err := stored.finish(ctx, r.servers[0], c.sentMessage)
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
			row{What: "first missing, same replica, " + p.name, Unit: "ms", Value: r.same.MS(p.q), Baseline: again.MS(p.q), Against: against, Target: limit[p.q]},
			row{What: "first missing, other replica, " + p.name, Unit: "ms", Value: r.other.MS(p.q), Baseline: again.MS(p.q), Against: against, Target: limit[p.q]},
		)
	}
	g.note("from before the connection is made to the first missing characters, which the model has yet to say: up to %d ms", 1000/tokensPerSecond)
	g.note("whole: to the byte what the model said, for the client and in Postgres")
	return nil
}

// percentiles are those of most rows.
var percentiles = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p99", .99}}

// of is the unit of a share.
func of(all int) string { return fmt.Sprintf("of %d", all) }
