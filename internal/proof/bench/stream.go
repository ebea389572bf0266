package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureStream sends replies through our server, through a bare line relay, and straight from the model, all at
// the same pace: what does the server add?
func measureStream(ctx context.Context, e *environment) (g group, err error) {
	g.Title = fmt.Sprintf("%d tokens/s per stream; added: less than the model's own median", tokensPerSecond)
	f, err := e.startFleet(ctx, role{Profile: e.profile}, roleRelay, roleServer)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	took, err := e.firsts(ctx, f)
	if err != nil {
		return g, err
	}
	direct := took[0].MS(.5)
	limit := map[float64]*target{.5: atMost(3), .99: atMost(8)}
	for _, p := range percentiles {
		g.add(row{What: "1 stream: first delta, added, " + p.name, Unit: "ms", Value: took[2].MS(p.q) - direct,
			Baseline: took[1].MS(p.q) - direct, Against: roleRelay, Target: limit[p.q]})
	}
	g.note("straight from the model: first delta %s / %s ms (p50 / p99) at 1 stream", kit.Number(direct), kit.Number(took[0].MS(.99)))
	for _, at := range e.stages {
		loads, err := e.loads(ctx, f, at)
		if err != nil {
			return g, err
		}
		g.addStage(at, loads[0], loads[1], loads[2])
	}
	g.note("the relay has no auth, no Postgres, no history and no memory; ours without folds, CPU and memory without Postgres's")
	return g, nil
}

// firsts asks for one short reply after another over warm connections, by turns, and returns the times to the
// first deltas.
func (e *environment) firsts(ctx context.Context, points []endpoint) ([]kit.Times, error) {
	took := make([]kit.Times, len(points))
	connections := make([]*connection, len(points))
	for i, p := range points {
		var err error
		if connections[i], err = p.connect(ctx); err != nil {
			return nil, err
		}
		defer func() { _ = connections[i].Close() }()
	}
	// On each connection Postgres plans the first executions of a statement again.
	warm := e.firstDeltas / 5
	const tokens = 1
	for n := range warm + e.firstDeltas {
		c := e.next()
		for i, p := range points {
			found, err := connections[i].talk(p.request(c, tokens), tokens)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if n >= warm {
				took[i] = append(took[i], found.first)
			}
		}
	}
	return took, nil
}

// load is what one endpoint did in one stage.
type load struct {
	first  kit.Times // all streams' first tokens
	lag    kit.Times // of the tokens sent while all streams were open
	used   kit.Usage // in that time
	pace   float64
	tokens float64
	broken int // streams that did not come to their end, where they may break
}

// targetStreams is how many streams the targets are about.
const targetStreams = 1000

func (g *group) addStage(at stage, direct, relay, ours load) {
	for _, figure := range []struct {
		what, unit string
		of         func(load) float64
		target     *target // of targetStreams
	}{
		{"first delta, added, p50", "ms", func(l load) float64 { return l.first.MS(.5) - direct.first.MS(.5) }, nil},
		{"token lag, p50", "ms", func(l load) float64 { return l.lag.MS(.5) }, nil},
		{"token lag, p99", "ms", func(l load) float64 { return l.lag.MS(.99) }, ratioAtMost(1.2)},
		{"memory", "MB", load.megabytes, atMost(150)},
		{"CPU per token", "µs", load.cpuPerToken, atMost(20)},
		{"pace kept", "%", func(l load) float64 { return l.pace }, atLeast(99)},
	} {
		r := row{What: fmt.Sprintf("%d streams: %s", at.streams, figure.what), Unit: figure.unit, Value: figure.of(ours), Baseline: figure.of(relay), Against: roleRelay}
		if at.streams == targetStreams {
			r.Target = figure.target
		}
		g.add(r)
	}
	g.note("straight from the model at %d streams: token lag %s / %s ms (p50 / p99), pace kept %s %%",
		at.streams, kit.Number(direct.lag.MS(.5)), kit.Number(direct.lag.MS(.99)), kit.Number(direct.pace))
}

func (l load) megabytes() float64   { return float64(l.used.RSS) / 1e6 }
func (l load) cpuPerToken() float64 { return l.perToken(l.used.CPU) }

func (l load) perToken(cpu time.Duration) float64 {
	return float64(cpu.Microseconds()) / max(1, l.tokens)
}

// longest is how many times its planned duration a stream may take where it may break; then it counts as broken.
const longest = 8

// loads measures a stage with one endpoint after another.
func (e *environment) loads(ctx context.Context, points []endpoint, at stage) ([]load, error) {
	all := make([]load, len(points))
	for i, p := range points {
		var err error
		if all[i], err = e.load(ctx, p, at); err != nil {
			return nil, fmt.Errorf("%d streams: %s: %w", at.streams, p.name, err)
		}
	}
	return all, nil
}

// load opens a stage's streams evenly over its ramp and measures while all of them are open.
func (e *environment) load(ctx context.Context, p endpoint, at stage) (load, error) {
	return e.loadWith(ctx, p, at, e.unused(at.streams), func(context.Context, time.Time, time.Time) error { return nil })
}

// loadWith is load in given chats. It calls beside with the begin and the end of the measured time.
func (e *environment) loadWith(ctx context.Context, p endpoint, at stage, chats []conversation, beside func(ctx context.Context, from, to time.Time) error) (load, error) {
	if p.mayBreak {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stopWithin+longest*(at.ramp+at.steady))
		defer cancel()
	}
	requests := make([][]byte, at.streams)
	for i := range requests {
		requests[i] = p.request(chats[i], at.tokens())
	}
	found := make([]stream, at.streams)
	var broken atomic.Int64
	var l load
	from := time.Now().Add(at.ramp)
	to := from.Add(at.steady)
	together, ctx := errgroup.WithContext(ctx)
	together.Go(func() error {
		return evenly(ctx, at.streams, at.ramp, func(ctx context.Context, i int) (err error) {
			if found[i], err = p.oneStream(ctx, requests[i], at.tokens()); err != nil && p.mayBreak {
				broken.Add(1)
				return nil
			}
			return err
		})
	})
	together.Go(func() error { return beside(ctx, from, to) })
	together.Go(func() (err error) {
		const step = 200 * time.Millisecond
		l.used, err = watch(ctx, from, to, step, p.usage)
		if err == nil && p.ours && e.profile != "" {
			err = p.Ask(snapshot+" "+strconv.Itoa(at.streams), &kit.Usage{})
		}
		return err
	})
	if err := together.Wait(); err != nil {
		return load{}, err
	}
	l.broken = int(broken.Load())
	for _, s := range found {
		if len(s.tokens) > 0 {
			l.first = append(l.first, s.first)
		}
	}
	l.lag = sentBetween(found, from, to)
	l.tokens = float64(len(l.lag))
	l.pace = 100 * l.tokens / (float64(at.streams) * tokensPerSecond * at.steady.Seconds())
	return l, nil
}

// tokens returns how many each stream has, so that the first one lasts until the measured time is over.
func (s stage) tokens() int { return int((s.ramp + s.steady).Seconds() * tokensPerSecond) }

func (p endpoint) oneStream(ctx context.Context, request []byte, tokens int) (stream, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return stream{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer func() { _ = c.Close() }()
	return c.talk(request, tokens)
}

// sentBetween returns the lag of the tokens that were sent between two moments.
func sentBetween(found []stream, from, to time.Time) kit.Times {
	var lag kit.Times
	for _, s := range found {
		for _, t := range s.tokens {
			if t.sent >= from.UnixMicro() && t.sent < to.UnixMicro() {
				lag = append(lag, t.lag)
			}
		}
	}
	return lag
}
