package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureCuts cuts every client's connection somewhere in its reply. Clients read on at once, half of them on
// another replica. In the end each reply is compared with what is stored, and read again: the baseline of reading on.
func measureCuts(ctx context.Context, f *fleet, g *group) error {
	g.title = fmt.Sprintf("%d connections lost at random deltas, each reply read on at once", f.cutClients)
	servers, err := f.replicas(ctx)
	if err != nil {
		return err
	}
	all := f.clients(f.cutClients)
	var mu sync.Mutex
	var waited [2]kit.Times // on the same replica, on the other one
	err = evenly(ctx, len(all), f.ramp, func(ctx context.Context, i int) error {
		took, err := all[i].cutOff(ctx, f.askForMemory(), i, f.cutTokens, servers[i/2%2], servers[(i/2+i)%2])
		mu.Lock()
		defer mu.Unlock()
		if took > 0 {
			waited[i%2] = append(waited[i%2], took)
		}
		return err
	})
	if err != nil {
		return err
	}
	var again kit.Times
	for _, c := range all {
		if complete, err := f.stored(ctx, c, f.cutTokens); err != nil || !complete {
			return errors.Join(err, errors.New("a reply is not complete"))
		}
		stored := newClient(c.conversation)
		message, _, _ := strings.Cut(c.LastEventID, ":")
		stored.LastEventID = message + ":0"
		took, err := stored.receive(ctx, servers[0], stored.resume(), nil)
		if err != nil {
			return err
		}
		again = append(again, took)
	}
	g.times("first missing character", "", []*target{nil, atMost(300)}, waited[0], waited[1], again)
	g.note("%d of %d replies arrived whole, as one row; no character came twice", len(all), len(all))
	g.note("from before the connection is made to the first missing character, which the model has yet to say: up to %d ms", 1000/tokensPerSecond)
	return nil
}

// cutOff is a client whose connection is cut after some deltas, the same in each run; after none it has only
// message.started. It returns how long it then waited for what it had missed: 0 when it was so far behind that it
// had got everything at once, or nothing was missing.
func (c *client) cutOff(ctx context.Context, question string, i, tokens int, first, second endpoint) (time.Duration, error) {
	after := rand.New(rand.NewPCG(1, uint64(i))).IntN(tokens) //nolint:gosec // it protects nothing
	if _, err := c.receive(ctx, first, c.ask(question, tokens), func() bool { return c.deltas >= after }); err != nil {
		return 0, fmt.Errorf("before the cut: %w", err)
	}
	if c.End != "" {
		return 0, nil
	}
	waited, err := c.receive(ctx, second, c.resume(), nil)
	if err != nil {
		return 0, fmt.Errorf("%d deltas before the end, from %s to %s: %w", tokens-after, first.address, second.address, err)
	}
	return waited, nil
}
