package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureStream sends replies through the program, as shipped and stripped, through a bare line relay, and straight from
// the model, all at the same pace: what does the program add?
func measureStream(ctx context.Context, f *fleet, g *group) error {
	g.title = fmt.Sprintf("%d tokens/s per stream; added: less than the model's own median", tokensPerSecond)
	all := map[string]flow{}
	err := f.eachSetting(ctx, func(server endpoint) error {
		began := time.Now()
		err := f.through(ctx, all, f.points[roleModel], f.points[roleRelay], server)
		if err == nil && server.name == shipped {
			err = f.noteNamed(ctx, g, began)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range percentiles {
		r := g.rowOf("1 stream: first delta, added, "+p.name, "ms", all, func(s flow) float64 { return s.firsts.MS(p.q) - s.direct })
		r.target, r.figure = atMost(map[float64]float64{.5: 3, .99: 8}[p.q]), "stream_added_"+p.name
		g.add(r)
	}
	g.stages(f.stages, all)
	g.note("refused or broken: without a terminal event, or with more than %d times its length", longest)
	g.note("the relay has no auth, no Postgres and no memory; CPU and memory without Postgres's, the model's and the embedder's")
	return nil
}

// flow is what one endpoint did.
type flow struct {
	firsts kit.Times // one stream after another
	direct float64   // the model's own median, of the same run
	loads  []load
}

func (g *group) rowOf(what, unit string, all map[string]flow, of func(flow) float64) row {
	r := row{what: what, unit: unit}
	for _, column := range g.columns {
		r.values = append(r.values, of(all[column]))
	}
	return r
}

// stages adds what all endpoints did with many streams.
func (g *group) stages(stages []stage, all map[string]flow) {
	for n, at := range stages {
		for _, figure := range stageFigures {
			r := g.rowOf(fmt.Sprintf("%d streams: %s", at.streams, figure.what), figure.unit, all, func(s flow) float64 { return figure.of(s.loads[n]) })
			if at.streams == targetStreams {
				r.target, r.figure = figure.target, figure.name
			}
			g.add(r)
		}
	}
}

// through sends the streams of all stages through endpoints, of which the first is the model. What was measured already
// is not again.
func (f *fleet) through(ctx context.Context, into map[string]flow, points ...endpoint) error {
	took, err := firsts(ctx, points, f.firstDeltas, func() func(endpoint) []byte {
		c, question := f.unused(1)[0], f.askForMemory()
		return func(p endpoint) []byte { return p.request(c, question, 1) }
	})
	if err != nil {
		return err
	}
	for i, p := range points {
		if _, known := into[p.name]; known {
			continue
		}
		p.mayBreak = true
		s := flow{firsts: took[i], direct: took[0].MS(.5)}
		for _, at := range f.stages {
			l, err := f.load(ctx, p, at, f.unused(at.streams), nil)
			if err != nil {
				return fmt.Errorf("%d streams: %s: %w", at.streams, p.name, err)
			}
			s.loads = append(s.loads, l)
		}
		into[p.name] = s
	}
	return nil
}

// noteNamed says how many replies since a time were shown memories, by their receipts.
func (f *fleet) noteNamed(ctx context.Context, g *group, since time.Time) error {
	var named, replies int
	err := f.admin.QueryRow(ctx, `
		select count(*) filter (where jsonb_array_length(m.metadata->'memory'->'memories') > 0), count(*) from public.messages m
		 where m.role = 'assistant' and m.created_at >= $1`, since).Scan(&named, &replies)
	g.note("as shipped, each question finds memories of its user: %d of %d replies name some", named, replies)
	return err
}

// firsts asks for one short reply after another over warm connections, and returns the times to the first deltas. ask
// returns what each endpoint is sent. Each comes first as often as the others: the first one finds the chat less often in
// Postgres's memory.
func firsts(ctx context.Context, points []endpoint, count int, ask func() func(p endpoint) []byte) ([]kit.Times, error) {
	took := make([]kit.Times, len(points))
	connections := make([]*connection, len(points))
	for i, p := range points {
		var err error
		if connections[i], err = p.connect(ctx); err != nil {
			return nil, err
		}
		defer func() { _ = connections[i].Close() }()
	}
	warm := count / 5 // on each connection Postgres plans the first executions of a statement again
	for n := range warm + count {
		request := ask()
		for turn := range points {
			i := (n + turn) % len(points)
			found, err := connections[i].talk(request(points[i]), 1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", points[i].name, err)
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

var stageFigures = []struct {
	what, unit, name string
	of               func(load) float64
	target           *target // of targetStreams
}{
	{"first delta, p50", "ms", "", func(l load) float64 { return l.first.MS(.5) }, nil},
	{"first delta, p99", "ms", "", func(l load) float64 { return l.first.MS(.99) }, nil},
	{"token lag, p50", "ms", "", func(l load) float64 { return l.lag.MS(.5) }, nil},
	{"token lag, p99", "ms", "stream_lag_p99", func(l load) float64 { return l.lag.MS(.99) }, atMost(40)},
	{"pace kept", "%", "stream_pace", func(l load) float64 { return l.pace }, atLeast(99)},
	{"memory", "MB", "stream_memory", func(l load) float64 { return float64(l.used.RSS) / 1e6 }, atMost(155)},
	{"CPU per token", "µs", "stream_cpu", func(l load) float64 { return float64(l.used.CPU.Microseconds()) / max(1, l.tokens) }, atMost(18)},
	{"refused or broken", "", "", func(l load) float64 { return float64(l.broken) }, atMost(0)},
}

// longest is how many times its planned duration a stream may take where it may break; then it counts as broken.
const longest = 8

// load opens a stage's streams in chats evenly over its ramp and measures while all of them are open. It calls beside, if
// there is one, with the begin and the end of the measured time.
func (e *environment) load(
	ctx context.Context, p endpoint, at stage, chats []conversation, beside func(ctx context.Context, from, to time.Time) error,
) (load, error) {
	if p.mayBreak {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest*(at.ramp+at.steady)+goneWithin)
		defer cancel()
	}
	requests := make([][]byte, at.streams)
	for i := range requests {
		requests[i] = p.request(chats[i], e.askForMemory(), at.tokens())
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
	if beside != nil {
		together.Go(func() error { return beside(ctx, from, to) })
	}
	together.Go(func() (err error) {
		l.used, err = watch(ctx, from, to, p.usage)
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
