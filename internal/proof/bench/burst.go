package main

import (
	"context"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureBurst begins replies without waiting for those before: all in one moment, then so many a second. How long do
// they wait for each other?
func measureBurst(ctx context.Context, f *fleet, g *group) error {
	g.title = fmt.Sprintf("replies of %d tokens that begin whether or not others wait: time to the first delta", f.burstTokens)
	atOnce, steady := map[string]kit.Times{}, map[string]kit.Times{}
	begin := func(p endpoint) (err error) {
		if atOnce[p.name], err = f.begin(ctx, p, f.atOnce, 0); err != nil {
			return fmt.Errorf("at once: %w", err)
		}
		steady[p.name], err = f.begin(ctx, p, f.perSecond*int(f.burst.Seconds()), f.burst)
		return err
	}
	if err := begin(f.points[roleRelay]); err != nil {
		return fmt.Errorf("%s: %w", roleRelay, err)
	}
	if err := f.eachSetting(ctx, begin); err != nil {
		return err
	}
	in := func(first map[string]kit.Times) []kit.Times {
		return []kit.Times{first[shipped], first[stripped], first[roleRelay]}
	}
	g.times(fmt.Sprintf("%d at once, server just started", f.atOnce), "burst_at_once_", nil, in(atOnce)...)
	g.times(fmt.Sprintf("%d a second", f.perSecond), "burst_steady_", nil, in(steady)...)
	g.note("each reply has a chat and a connection of its own; from the request to the first delta")
	return nil
}

// begin opens streams evenly over a time, and returns how long each waited for its first delta.
func (e *environment) begin(ctx context.Context, p endpoint, replies int, over time.Duration) (kit.Times, error) {
	first := make(kit.Times, replies)
	chats := e.unused(replies)
	err := evenly(ctx, replies, over, func(ctx context.Context, i int) error {
		found, err := p.oneStream(ctx, p.request(chats[i], e.askForMemory(), e.burstTokens), e.burstTokens)
		first[i] = found.first
		return err
	})
	return first, err
}
