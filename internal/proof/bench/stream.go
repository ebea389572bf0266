package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureStream sends replies through our server, through a bare line relay, and straight from the model, all at
// the same pace: what does the server add?
func measureStream(ctx context.Context, e *environment) (g group, err error) {
	g.Title = fmt.Sprintf("%d tokens/s per stream; added: less than the model's own median", tokensPerSecond)
	s, err := e.startStreams(ctx)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.measureFirst(ctx, e, &g); err != nil {
		return g, fmt.Errorf("one stream: %w", err)
	}
	for _, stage := range e.stages {
		if err := s.measureStage(ctx, e, stage, &g); err != nil {
			return g, fmt.Errorf("%d streams: %w", stage.streams, err)
		}
	}
	g.note("the relay has no auth, no Postgres, no history and no memory; ours without folds, CPU and memory without Postgres's")
	return g, nil
}

// oursName is the name of our server beside others.
const oursName = "ours"

// streams are the endpoints of the benchmark.
type streams struct {
	direct, relay, ours endpoint
}

func (e *environment) startStreams(ctx context.Context) (*streams, error) {
	s := &streams{direct: endpoint{name: "the model"}, relay: endpoint{name: "bare line relay"}, ours: endpoint{name: oursName, ours: true}}
	var err error
	if s.direct.process, err = startRole(ctx, roleModel); err != nil {
		return nil, err
	}
	if s.relay.process, err = startRole(ctx, roleRelay, "-model", s.direct.process.Address); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if s.ours.process, err = startRole(ctx, roleServer, "-model", s.direct.process.Address, "-database", e.at.server, "-profile", e.profile); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *streams) all() []endpoint { return []endpoint{s.direct, s.relay, s.ours} }

func (s *streams) stop() error {
	var errs []error
	for _, p := range []*process{s.ours.process, s.relay.process, s.direct.process} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
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

// measureFirst compares the first deltas at one stream.
func (s *streams) measureFirst(ctx context.Context, e *environment, g *group) error {
	took, err := e.firsts(ctx, s.all())
	if err != nil {
		return err
	}
	direct := took[0].MS(.5)
	for _, p := range []struct {
		name  string
		q     float64
		limit float64
	}{{"p50", .5, 3}, {"p99", .99, 8}} {
		g.add(row{What: "1 stream: first delta, added, " + p.name, Unit: "ms", Value: took[2].MS(p.q) - direct,
			Baseline: took[1].MS(p.q) - direct, Against: s.relay.name, Target: atMost(p.limit)})
	}
	g.note("straight from the model: first delta %s / %s ms (p50 / p99) at 1 stream", kit.Number(direct), kit.Number(took[0].MS(.99)))
	return nil
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

func (s *streams) measureStage(ctx context.Context, e *environment, at stage, g *group) error {
	var loads [3]load
	for i, p := range s.all() {
		var err error
		if loads[i], err = e.load(ctx, p, at); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	direct, relay, ours := loads[0], loads[1], loads[2]
	name := fmt.Sprintf("%d streams: ", at.streams)
	when := func(t *target) *target {
		if at.streams == targetStreams {
			return t
		}
		return nil
	}
	against := s.relay.name
	g.add(
		row{What: name + "first delta, added, p50", Unit: "ms", Value: ours.first.MS(.5) - direct.first.MS(.5), Baseline: relay.first.MS(.5) - direct.first.MS(.5), Against: against},
		row{What: name + "token lag, p50", Unit: "ms", Value: ours.lag.MS(.5), Baseline: relay.lag.MS(.5), Against: against},
		row{What: name + "token lag, p99", Unit: "ms", Value: ours.lag.MS(.99), Baseline: relay.lag.MS(.99), Against: against, Target: when(atMost(30))},
		row{What: name + "memory", Unit: "MB", Value: ours.megabytes(), Baseline: relay.megabytes(), Against: against, Target: when(atMost(150))},
		row{What: name + "CPU per token", Unit: "µs", Value: ours.cpuPerToken(), Baseline: relay.cpuPerToken(), Against: against, Target: when(atMost(25))},
		row{What: name + "pace kept", Unit: "%", Value: ours.pace, Baseline: relay.pace, Against: against},
	)
	g.note("straight from the model at %d streams: token lag %s / %s ms (p50 / p99), pace kept %s %%",
		at.streams, kit.Number(direct.lag.MS(.5)), kit.Number(direct.lag.MS(.99)), kit.Number(direct.pace))
	return nil
}

func (l load) megabytes() float64   { return float64(l.used.RSS) / 1e6 }
func (l load) cpuPerToken() float64 { return float64(l.used.CPU.Microseconds()) / max(1, l.tokens) }

// longest is how many times its planned duration a stream may take where it may break; then it counts as broken.
const longest = 8

// load opens a stage's streams evenly over its ramp and measures while all of them are open.
func (e *environment) load(ctx context.Context, p endpoint, at stage) (load, error) {
	chats := make([]conversation, at.streams)
	for i := range chats {
		chats[i] = e.next()
	}
	return e.loadWith(ctx, p, at, chats, func(context.Context, time.Time, time.Time) error { return nil })
}

// loadWith is load in given chats. It calls beside with the begin and the end of the measured time.
func (e *environment) loadWith(ctx context.Context, p endpoint, at stage, chats []conversation, beside func(ctx context.Context, from, to time.Time) error) (load, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.mayBreak {
		ctx, cancel = context.WithTimeout(ctx, stopWithin+longest*(at.ramp+at.steady))
		defer cancel()
	}
	tokens := at.tokens()
	requests := make([][]byte, at.streams)
	for i := range requests {
		requests[i] = p.request(chats[i], tokens)
	}
	began := time.Now()
	found := make([]stream, at.streams)
	failures := make([]error, at.streams, at.streams+1)
	var wait sync.WaitGroup
	for i, request := range requests {
		wait.Go(func() {
			start := began.Add(at.ramp * time.Duration(i) / time.Duration(at.streams))
			if found[i], failures[i] = p.oneStream(ctx, start, request, tokens); failures[i] != nil && !p.mayBreak {
				cancel() // the others' figures are of no use now
			}
		})
	}
	from, to := began.Add(at.ramp), began.Add(at.ramp+at.steady)
	besides := make(chan error, 1)
	go func() { besides <- beside(ctx, from, to) }()
	used, err := p.process.watch(ctx, from, to)
	if err == nil && p.ours && e.profile != "" {
		err = p.process.snapshot(strconv.Itoa(at.streams))
	}
	wait.Wait()
	broken := 0
	if p.mayBreak {
		broken, failures = countBroken(failures), nil
	}
	failures = append(failures, <-besides)
	if err := errors.Join(firstOf(failures), err); err != nil {
		return load{}, err
	}
	l := load{used: used, broken: broken}
	l.collect(found, from, to)
	l.pace = 100 * l.tokens / (float64(at.streams) * tokensPerSecond * at.steady.Seconds())
	return l, nil
}

// tokens returns how many each stream has, so that the first one lasts until the measured time is over.
func (s stage) tokens() int { return int((s.ramp + s.steady).Seconds() * tokensPerSecond) }

func countBroken(failures []error) int {
	broken := 0
	for _, err := range failures {
		if err != nil {
			broken++
		}
	}
	return broken
}

// firstOf returns the first failure, before those that are only its consequence.
func firstOf(failures []error) error {
	var cancelled error
	for _, err := range failures {
		switch {
		case errors.Is(err, context.Canceled):
			cancelled = err
		case err != nil:
			return err
		}
	}
	return cancelled
}

func (p endpoint) oneStream(ctx context.Context, start time.Time, request []byte, tokens int) (stream, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return stream{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer func() { _ = c.Close() }()
	if err := kit.SleepUntil(ctx, start); err != nil {
		return stream{}, err
	}
	return c.talk(request, tokens)
}

func (l *load) collect(found []stream, from, to time.Time) {
	first, last := from.UnixMicro(), to.UnixMicro()
	for _, s := range found {
		if len(s.tokens) > 0 {
			l.first = append(l.first, s.first)
		}
		for _, t := range s.tokens {
			if t.sent >= first && t.sent < last {
				l.lag = append(l.lag, t.lag)
				l.tokens++
			}
		}
	}
}
