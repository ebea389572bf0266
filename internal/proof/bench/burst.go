package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// bursting is the size of measureBurst.
type bursting struct {
	atOnce int // replies that begin in the same moment, on servers that have just started
	perSec int // replies that begin in each second after that
	steady time.Duration
	tokens int // of each reply
}

// measureBurst begins replies without waiting for those before: all in one moment, then so many a second. How long do
// they wait for each other?
func measureBurst(ctx context.Context, e *environment) (g group, err error) {
	size := e.burst
	g.Title = fmt.Sprintf("replies of %d tokens that begin whether or not others wait: time to the first delta", size.tokens)
	f, err := e.startFleet(ctx, role{Profile: e.profile}, roleRelay, roleServer)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	relay, ours := f[1], f[2]
	for _, wave := range []struct {
		name    string
		replies int
		over    time.Duration
		target  *target
	}{
		{fmt.Sprintf("%d at once, server just started", size.atOnce), size.atOnce, 0, nil},
		{fmt.Sprintf("%d a second", size.perSec), size.perSec * int(size.steady.Seconds()), size.steady, ratioAtMost(3)},
	} {
		var first [2]kit.Times
		for i, p := range []endpoint{relay, ours} {
			if first[i], err = e.begin(ctx, p, wave.replies, wave.over); err != nil {
				return g, fmt.Errorf("%s: %s: %w", wave.name, p.name, err)
			}
		}
		p50, p99 := first[1].MS(.5), first[1].MS(.99)
		g.add(row{What: wave.name + ", p50", Unit: "ms", Value: p50, Baseline: first[0].MS(.5), Against: roleRelay},
			row{What: wave.name + ", p99", Unit: "ms", Value: p99, Baseline: first[0].MS(.99), Against: roleRelay},
			row{What: wave.name + ", p99", Unit: "ms", Value: p99, Baseline: p50, Against: "its p50", Target: wave.target})
	}
	g.note("each reply has a chat and a connection of its own; from the request to the first delta")
	return g, nil
}

// begin opens streams evenly over a time, and returns how long each waited for its first delta.
func (e *environment) begin(ctx context.Context, p endpoint, replies int, over time.Duration) (kit.Times, error) {
	first := make(kit.Times, replies)
	chats := e.unused(replies)
	err := evenly(ctx, replies, over, func(ctx context.Context, i int) error {
		found, err := p.oneStream(ctx, p.request(chats[i], e.burst.tokens), e.burst.tokens)
		first[i] = found.first
		return err
	})
	return first, err
}
