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
// another replica. In the end the text of each is compared with what the model sent, and each is read again, now
// that it is stored: the baseline of reading on.
func measureCuts(ctx context.Context, e *environment) (g group, err error) {
	size := e.cuts
	g.Title = fmt.Sprintf("%d connections lost at random deltas, each reply read on at once", size.clients)
	f, err := e.startFleet(ctx, role{}, roleServer, roleServer)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	model, servers := f[0], f[1:]
	all := e.clients(size.clients)
	var mu sync.Mutex
	var waited [2]kit.Times // on the same replica, on the other one
	err = evenly(ctx, size.clients, size.ramp, func(ctx context.Context, i int) error {
		first, second := servers[i/2%2], servers[(i/2+i)%2]
		took, err := all[i].cutOff(ctx, i, size.tokens, first, second)
		mu.Lock()
		defer mu.Unlock()
		if took > 0 {
			waited[i%2] = append(waited[i%2], took)
		}
		return err
	})
	if err != nil {
		return g, err
	}
	var again kit.Times
	twice := 0
	for _, c := range all {
		if err := e.checkWhole(ctx, model, c); err != nil {
			return g, err
		}
		twice += c.Repeated
		stored := newClient(c.conversation)
		stored.LastEventID = messageOf(c.LastEventID) + ":0"
		took, err := stored.receive(ctx, servers[0], stored.resume(), nil)
		if err != nil {
			return g, err
		}
		again = append(again, took)
	}
	const against = "a stored reply"
	limit := map[float64]*target{.99: atMost(300)}
	g.add(row{What: "replies whole, one row each", Unit: of(len(all)), Value: float64(len(all)), Target: atLeast(float64(len(all)))},
		row{What: "characters that came twice", Value: float64(twice), Target: atMost(0)})
	for _, p := range percentiles {
		for i, where := range []string{"same", "other"} {
			g.add(row{What: "first missing, " + where + " replica, " + p.name, Unit: "ms", Value: waited[i].MS(p.q), Baseline: again.MS(p.q), Against: against, Target: limit[p.q]})
		}
	}
	g.note("from before the connection is made to the first missing characters, which the model has yet to say: up to %d ms", 1000/tokensPerSecond)
	g.note("whole: to the byte what the model said, for the client and in Postgres")
	return g, nil
}

// cutOff is a client whose connection is cut after some deltas, the same in each run; after none it has only
// message.started. It returns how long it then waited for what it had missed: 0 when it was so far behind that it
// had got everything at once, or nothing was missing.
func (c *client) cutOff(ctx context.Context, i, tokens int, first, second endpoint) (time.Duration, error) {
	after := rand.New(rand.NewPCG(1, uint64(i))).IntN(tokens) //nolint:gosec // it protects nothing
	if _, err := c.receive(ctx, first, c.named(tokens, 0), func() bool { return c.began && c.deltas >= after }); err != nil {
		return 0, fmt.Errorf("before the cut: %w", err)
	}
	if c.End != "" {
		return 0, nil
	}
	waited, err := c.receive(ctx, second, c.resume(), nil)
	if err != nil {
		return 0, fmt.Errorf("%d deltas before the end, from %s to %s: %w", tokens-after, first.Address, second.Address, err)
	}
	return waited, nil
}

// percentiles are those of most rows.
var percentiles = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p99", .99}}

// of is the unit of a share.
func of(all int) string { return fmt.Sprintf("of %d", all) }
