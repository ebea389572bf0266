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
	atOnce int // replies that begin in the same moment, on a server that has just started
	perSec int // replies that begin in each second after that
	steady time.Duration
	tokens int // of each reply
}

// measureBurst begins replies without waiting for those before: all in one moment, then so many a second. How long do
// they wait for each other?
func measureBurst(ctx context.Context, e *environment) (group, error) {
	size := e.burst
	g := group{
		title:   fmt.Sprintf("replies of %d tokens that begin whether or not others wait: time to the first delta", size.tokens),
		columns: []string{shipped, stripped, roleRelay},
	}
	atOnce, steady := map[string]kit.Times{}, map[string]kit.Times{}
	for _, name := range []string{stripped, shipped} {
		if err := e.burstOf(ctx, name, atOnce, steady); err != nil {
			return g, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, wave := range []struct {
		name, figure string
		first        map[string]kit.Times
	}{
		{fmt.Sprintf("%d at once, server just started", size.atOnce), "burst_at_once_", atOnce},
		{fmt.Sprintf("%d a second", size.perSec), "burst_steady_", steady},
	} {
		for _, p := range percentiles {
			r := row{what: wave.name + ", " + p.name, unit: "ms", figure: wave.figure + p.name}
			for _, column := range g.columns {
				r.values = append(r.values, wave.first[column].MS(p.q))
			}
			g.add(r)
		}
	}
	g.note("each reply has a chat and a connection of its own; from the request to the first delta")
	return g, nil
}

func (e *environment) burstOf(ctx context.Context, name string, atOnce, steady map[string]kit.Times) (err error) {
	if err := e.settle(ctx); err != nil {
		return err
	}
	f, err := e.startFleet(ctx, role{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	server, err := f.server(ctx, name, nil)
	if err != nil {
		return err
	}
	for _, p := range []endpoint{server, f.points[roleRelay]} {
		if atOnce[p.name], err = e.begin(ctx, p, e.burst.atOnce, 0); err != nil {
			return fmt.Errorf("at once: %s: %w", p.name, err)
		}
		if steady[p.name], err = e.begin(ctx, p, e.burst.perSec*int(e.burst.steady.Seconds()), e.burst.steady); err != nil {
			return fmt.Errorf("steady: %s: %w", p.name, err)
		}
	}
	return nil
}

// begin opens streams evenly over a time, and returns how long each waited for its first delta.
func (e *environment) begin(ctx context.Context, p endpoint, replies int, over time.Duration) (kit.Times, error) {
	first := make(kit.Times, replies)
	chats := e.unused(replies)
	err := evenly(ctx, replies, over, func(ctx context.Context, i int) error {
		found, err := p.oneStream(ctx, p.request(chats[i], e.askForMemory(), e.burst.tokens), e.burst.tokens)
		first[i] = found.first
		return err
	})
	return first, err
}
