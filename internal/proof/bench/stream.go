package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// measureStream sends replies through the program, as shipped and stripped, through a bare relay, and straight from
// the model, all at the same pace: what does the program add?
func measureStream(ctx context.Context, b *bench, t *table) {
	known := 0 // figures of the server as shipped are not measured again
	b.each(ctx, func(server endpoint) {
		began := time.Now()
		b.through(ctx, t, known, b.model, b.relay, server)
		if known == 0 {
			what := "as shipped, each question finds memories of its user; replies that name some"
			b.noteReceipts(ctx, t, what, "jsonb_array_length(memory->'memories') > 0", began)
		}
		known = 2
	})
	t.note("refused or broken: without a terminal event, or with more than %d times its length", longest)
	t.note("the relay has no auth, no Postgres and no memory; CPU and memory without Postgres's, the model's and the embedder's")
}

// through sends one stream after another, and then those of all stages, through endpoints of which the first is the model.
// The known ones at the beginning have their column already.
func (b *bench) through(ctx context.Context, t *table, known int, points ...endpoint) {
	took := firsts(ctx, points, b.of(300), func() (chat, string) { return b.unused(1)[0], wishing(b.askForMemory(), 1) })
	direct := kit.Percentile(took[0], .5)
	for i, p := range points[known:] {
		for n := range took[known+i] {
			took[known+i][n] -= direct
		}
		t.times(p.name, "1 stream: first delta, added", "stream_added_", took[known+i], atMost(3), atMost(8))
		for _, at := range stages {
			at.ramp, at.steady = b.lasting(at.ramp), b.lasting(at.steady)
			b.load(ctx, t, p, at)
		}
	}
}

// firsts asks for one short reply after another over warm connections, and returns the times to the first deltas. Each
// endpoint comes first as often as the others: the first one finds the chat less often in Postgres's memory.
func firsts(ctx context.Context, points []endpoint, count int, ask func() (chat, string)) []kit.Times {
	took := make([]kit.Times, len(points))
	warmUp := count / 5 // on each connection Postgres plans the first executions of a statement again
	for n := range warmUp + count {
		c, text := ask()
		for turn := range points {
			i := (n + turn) % len(points)
			if found := kit.Must(points[i].whole(ctx, warm, points[i].asks(c, text), 1)); n >= warmUp {
				took[i] = append(took[i], found.first)
			}
		}
	}
	return took
}

// stage is many streams at once: opened evenly over ramp, then measured for steady.
type stage struct {
	streams      int
	ramp, steady time.Duration
}

var stages = []stage{{100, time.Second, 3 * time.Second}, {300, 1500 * time.Millisecond, 3 * time.Second}, {targetStreams, 4 * time.Second, 5 * time.Second}}

// targetStreams is how many streams the targets are about.
const targetStreams = 1000

// longest is how many times its planned duration a stream may take; then it counts as broken.
const longest = 8

// tokens returns how many each stream has, so that the first one lasts until the measured time is over.
func (s stage) tokens() int { return int((s.ramp + s.steady).Seconds() * tokensPerSecond) }

// load opens a stage's streams evenly over its ramp and puts the figures from while all of them were open.
func (b *bench) load(ctx context.Context, t *table, p endpoint, at stage) {
	defer kit.In("%d streams: %s", at.streams, p.name)
	ctx, cancel := context.WithTimeout(ctx, longest*(at.ramp+at.steady)+goneWithin)
	defer cancel()
	chats := b.unused(b.of(at.streams))
	var found []reply
	var broken []error
	from := time.Now().Add(at.ramp)
	to := from.Add(at.steady)
	var streams sync.WaitGroup
	streams.Go(func() { found, broken = b.replies(ctx, p, chats, at.ramp, at.tokens()) })
	err := kit.Sleep(ctx, time.Until(from))
	before := kit.UsageOf(p.PID())
	err = errors.Join(err, kit.Sleep(ctx, time.Until(to)))
	used := kit.UsageOf(p.PID())
	streams.Wait()
	kit.Check(err)
	lag := kit.Must(lagsBetween(found, from, to))
	var first kit.Times
	for _, r := range found {
		if r.first > 0 {
			first = append(first, r.first)
		}
	}
	put := func(what, unit, figure string, value float64, goal *target) {
		if at.streams != targetStreams {
			figure, goal = "", nil
		}
		t.put(p.name, row{what: fmt.Sprintf("%d streams: %s", at.streams, what), unit: unit, figure: figure, target: goal}, value)
	}
	tokens := float64(len(lag))
	put("first delta, p50", "ms", "", first.MS(.5), nil)
	put("first delta, p99", "ms", "", first.MS(.99), nil)
	put("token lag, p50", "ms", "", lag.MS(.5), nil)
	put("token lag, p99", "ms", "stream_lag_p99", lag.MS(.99), atMost(40))
	put("pace kept", "%", "stream_pace", 100*tokens/(float64(len(chats))*tokensPerSecond*at.steady.Seconds()), atLeast(99))
	put("memory", "MB", "stream_memory", float64(max(before.RSS, used.RSS))/1e6, atMost(155))
	put("CPU per token", "µs", "stream_cpu", float64((used.CPU-before.CPU).Microseconds())/max(1, tokens), atMost(18))
	put("refused or broken", "", "", float64(len(broken)), atMost(0))
}

// replies asks for a reply of so many tokens in each chat, evenly over a time; broken says why some are not whole.
func (b *bench) replies(ctx context.Context, p endpoint, chats []chat, over time.Duration, tokens int) (found []reply, broken []error) {
	found, broken = make([]reply, len(chats)), make([]error, len(chats))
	err := evenly(ctx, len(chats), over, func(ctx context.Context, i int) {
		found[i], broken[i] = p.whole(ctx, fresh, p.asks(chats[i], wishing(b.askForMemory(), tokens)), tokens)
	})
	return found, slices.DeleteFunc(slices.Concat(broken, []error{err}), func(err error) bool { return err == nil })
}

// measureBurst begins replies without waiting for those before, at once and then so many a second: how long do they wait?
func measureBurst(ctx context.Context, b *bench, t *table) {
	const together, perSecond, lasts = 300, 100, 8 * time.Second
	begin := func(p endpoint) {
		atOnce := b.begin(ctx, p, b.of(together), 0)
		t.times(p.name, fmt.Sprintf("%d at once, server just started", together), "burst_at_once_", atOnce)
		steady := b.begin(ctx, p, b.of(perSecond*int(lasts.Seconds())), b.lasting(lasts))
		t.times(p.name, fmt.Sprintf("%d a second", perSecond), "burst_steady_", steady)
	}
	begin(b.relay)
	t.note("each reply has a chat and a connection of its own; from before the connection is made to the first delta")
	b.each(ctx, begin)
}

// begin opens short streams evenly over a time, and returns how long each waited for its first delta.
func (b *bench) begin(ctx context.Context, p endpoint, count int, over time.Duration) (first kit.Times) {
	const tokens = 25
	found, broken := b.replies(ctx, p, b.unused(count), over, tokens)
	if len(broken) > 0 {
		kit.Fail("%s: %d replies are not whole, one because of %w", p.name, len(broken), broken[0])
	}
	for _, r := range found {
		first = append(first, r.first)
	}
	return first
}

// measureRecord follows running replies on another replica, which reads their records: how late is that?
func measureRecord(ctx context.Context, b *bench, t *table) {
	servers := [2]endpoint{b.server(ctx, shipped), b.server(ctx, shipped)}
	at := stage{300, b.lasting(time.Second), b.lasting(3 * time.Second)}
	chats := b.unused(b.of(at.streams))
	read := make([]reply, min(b.of(50), len(chats)))
	from := time.Now().Add(at.ramp)
	var reading errgroup.Group
	reading.Go(func() error {
		return evenly(ctx, len(read), 0, func(ctx context.Context, i int) {
			read[i] = servers[1].follow(ctx, chats[i], at.tokens())
		})
	})
	same, broken := b.replies(ctx, servers[0], chats, at.ramp, at.tokens())
	kit.Check(errors.Join(append(broken, reading.Wait())...))
	t.times(otherReplica, "token lag", "", kit.Must(lagsBetween(read, from, from.Add(at.steady))), nil, atMost(300))
	t.times(sameReplica, "token lag", "", kit.Must(lagsBetween(same, from, from.Add(at.steady))))
}

// follow reads the running reply of a chat, as soon as there is one.
func (p endpoint) follow(ctx context.Context, c chat, tokens int) reply {
	const again = 20 * time.Millisecond
	for {
		found, err := p.whole(ctx, fresh, c.readsOn(""), tokens)
		refusal, refused := errors.AsType[*people.RefusedError](err)
		if !refused || refusal.Status != http.StatusNoContent {
			return kit.Must(found, err)
		}
		kit.Check(kit.Sleep(ctx, again))
	}
}

// The columns of what reads replies elsewhere.
const (
	sameReplica  = "same replica"
	otherReplica = "other replica"
	storedReply  = "a stored reply"
)

// ramp is the time over which the clients of cuts and stop send their messages.
const ramp = time.Second

// measureCuts cuts every client's connection somewhere in its reply. Clients read on at once, half of them on
// another replica. In the end each reply is compared with the stored one, and read again: the baseline of reading on.
func measureCuts(ctx context.Context, b *bench, t *table) {
	const tokens = 200
	servers := [2]endpoint{b.server(ctx, shipped), b.server(ctx, shipped)}
	chats, all := b.unused(b.of(200)), make([]reply, b.of(200))
	kit.Check(evenly(ctx, len(all), ramp, func(ctx context.Context, i int) {
		all[i].cutOff(ctx, chats[i], wishing(b.askForMemory(), tokens), i, tokens, servers[i/2%2], servers[(i/2+i)%2])
	}))
	took := map[string]kit.Times{}
	for i, r := range all {
		if !b.stored(ctx, chats[i], r, tokens) {
			kit.Fail("a reply is not complete")
		}
		if replica := []string{sameReplica, otherReplica}[i%2]; r.first > 0 {
			took[replica] = append(took[replica], r.first)
		}
		message, _, _ := strings.Cut(string(r.cursor), ":")
		again := kit.Must(servers[0].whole(ctx, fresh, chats[i].readsOn(message+":0"), tokens))
		took[storedReply] = append(took[storedReply], again.first)
	}
	for _, column := range t.columns {
		t.times(column, "first missing character", "", took[column], nil, atMost(300))
	}
	t.note("%d of %d replies arrived whole, as one row; no character came twice", len(all), len(all))
	t.note("from before the connection is made to the first missing character, which the model has yet to say: up to %d ms", 1000/tokensPerSecond)
}

// cutOff is a client whose connection is cut after some deltas, the same in each run; after none it has only
// message.started. What it then waited for what it had missed is in first: 0 when it was so far behind that it had got
// everything at once, or nothing was missing.
func (r *reply) cutOff(ctx context.Context, c chat, text string, i, tokens int, first, second endpoint) {
	after := rand.New(rand.NewPCG(1, uint64(i))).IntN(tokens) //nolint:gosec // it protects nothing
	defer kit.In("cut %d deltas before the end, from %s to %s", tokens-after, first.address, second.address)
	kit.Check(r.receive(ctx, first, fresh, first.asks(c, text), after))
	r.first = 0
	if r.end == "" {
		kit.Check(r.receive(ctx, second, fresh, c.readsOn(string(r.cursor)), toTheEnd))
	}
}

// goneWithin is the longest that a server may take to end.
const goneWithin = 20 * time.Second

// measureStop sends a SIGTERM to a server with many streams. Half of the replies end within the drain time, half
// later. Every client reads to its terminal event, whichever that is.
func measureStop(ctx context.Context, b *bench, t *table) {
	server := b.server(ctx, shipped)
	chats, all := b.unused(b.of(100)), make([]reply, b.of(100))
	drain := b.lasting(15 * time.Second) // how long replies run on after the signal, which is as long as the server lets them
	tokens := func(i int) int {
		length := ramp + drain/2 // from the first to the last request, and into the drain time
		if i%2 == 1 {
			length += 3 * drain
		}
		return int(length.Seconds() * tokensPerSecond)
	}
	var talking errgroup.Group
	talking.Go(func() error {
		return evenly(ctx, len(all), ramp, func(ctx context.Context, i int) {
			kit.Check(all[i].receive(ctx, server, fresh, server.asks(chats[i], wishing(b.askForMemory(), tokens(i))), toTheEnd))
		})
	})
	err := kit.Sleep(ctx, ramp+drain/5) // all have begun by then
	began := time.Now()
	err = errors.Join(err, server.Terminate(2*goneWithin))
	took := time.Since(began)
	kit.Check(errors.Join(err, talking.Wait()))
	whole := 0
	for i, r := range all {
		if b.stored(ctx, chats[i], r, tokens(i)) {
			whole++
		}
	}
	t.put(shipped, row{what: "gone after", unit: "s", target: atMost(goneWithin.Seconds())}, took.Seconds())
	t.note("exit code 0; all %d streams ended with a terminal event, and all received texts are the stored ones: %d complete, %d interrupted",
		len(all), whole, len(all)-whole)
}
