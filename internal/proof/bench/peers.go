package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// measurePeers sends the same paced streams through the model alone, the bare line relay, our server and
// another gateway. What the parts are and do is as in measureStream.
func measurePeers(ctx context.Context, e *environment) (g group, err error) {
	g.Title = fmt.Sprintf("the same streams of %d tokens/s through others", tokensPerSecond)
	s, err := e.startStreams(ctx)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	gateway, err := startPortkey(ctx, s.direct.process.address)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, gateway.process.stop()) }()

	points := append(s.all(), gateway)
	for i := range points {
		points[i].mayBreak = true
		g.Columns = append(g.Columns, points[i].name)
	}
	if err := e.peersAtOne(ctx, points, &g); err != nil {
		return g, fmt.Errorf("one stream: %w", err)
	}
	for _, stage := range e.stages {
		if err := e.peersAt(ctx, points, stage, &g); err != nil {
			return g, fmt.Errorf("%d streams: %w", stage.streams, err)
		}
	}
	g.note("added: less than the model's own median; auth, storage, history and memory are in ours alone")
	g.note("CPU and memory: of the process and its children, without Postgres's; broken: without a terminal event")
	g.panels = peersPanels
	return g, nil
}

// peersAtOne compares first deltas when there is nothing else to do.
func (e *environment) peersAtOne(ctx context.Context, points []endpoint, g *group) error {
	took, err := e.firsts(ctx, points)
	if err != nil {
		return err
	}
	direct := took[0].ms(.5)
	for _, p := range []struct {
		name string
		q    float64
	}{{"p50", .5}, {"p99", .99}} {
		for i := range points {
			g.add(row{What: "1 stream: first delta, added, " + p.name, Unit: "ms", Of: points[i].name, Value: took[i].ms(p.q) - direct})
		}
	}
	return nil
}

// figure is one thing that is told of a load.
type figure struct {
	what, unit string
	of         func(load) float64
}

var peersFigures = []figure{
	{"first delta, p50", "ms", func(l load) float64 { return l.first.ms(.5) }},
	{"first delta, p99", "ms", func(l load) float64 { return l.first.ms(.99) }},
	{"token lag, p50", "ms", func(l load) float64 { return l.lag.ms(.5) }},
	{"token lag, p99", "ms", func(l load) float64 { return l.lag.ms(.99) }},
	{"pace kept", "%", func(l load) float64 { return l.pace }},
	{"memory", "MB", load.megabytes},
	{"CPU per token", "µs", load.cpuPerToken},
	{"streams that broke", "", func(l load) float64 { return float64(l.broken) }},
}

func (e *environment) peersAt(ctx context.Context, points []endpoint, at stage, g *group) error {
	loads := make([]load, len(points))
	for i, p := range points {
		var err error
		if loads[i], err = e.load(ctx, p, at); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for _, f := range peersFigures {
		for i, p := range points {
			g.add(row{What: fmt.Sprintf("%d streams: %s", at.streams, f.what), Unit: f.unit, Of: p.name, Value: f.of(loads[i])})
		}
	}
	return nil
}

// peersPanels draws the rows of the stages.
func peersPanels(rows []row) []panel {
	var panels []panel
	for _, drawn := range []struct {
		title, what string
		log         bool
	}{
		{"Token lag, 99 of 100 are below", "token lag, p99", true},
		{"First delta, median", "first delta, p50", true},
		{"Memory of the process", "memory", false},
		{"CPU time per token", "CPU per token", false},
	} {
		p := panel{title: drawn.title, x: "streams at once", log: drawn.log}
		for _, r := range rows {
			if streams, what, found := strings.Cut(r.What, " streams: "); found && what == drawn.what {
				p.unit = r.Unit
				p.put(streams, r)
			}
		}
		panels = append(panels, p)
	}
	return panels
}

// put adds a row's value to the line of its column, at a place.
func (p *panel) put(place string, r row) {
	if !slices.Contains(p.places, place) {
		p.places = append(p.places, place)
	}
	at := slices.IndexFunc(p.lines, func(c curve) bool { return c.name == r.Of })
	if at < 0 {
		at = len(p.lines)
		p.lines = append(p.lines, curve{name: r.Of})
	}
	p.lines[at].values = append(p.lines[at].values, r.Value)
}
