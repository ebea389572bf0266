package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// recording is the size of measureRecord.
type recording struct {
	stage
	followed  int // of the streams, each by one reader on another replica
	intervals []time.Duration
}

// recordNever is an interval longer than any measurement.
const recordNever = time.Hour

// measureRecord streams with different intervals between two recordings of running replies: what do they cost,
// and how late is a reader on another replica?
func measureRecord(ctx context.Context, e *environment) (group, error) {
	g := group{Title: fmt.Sprintf("%d streams recorded in Postgres while they run; lag: of %d followed on another replica", e.record.streams, e.record.followed)}
	bare, err := e.recorded(ctx, recordNever, 0)
	if err != nil {
		return g, fmt.Errorf("without recording: %w", err)
	}
	const against, here = "nothing recorded", "the same replica"
	for _, interval := range e.record.intervals {
		name := fmt.Sprintf("every %d ms: ", interval.Milliseconds())
		r, err := e.recorded(ctx, interval, 0)
		if err != nil {
			return g, fmt.Errorf("%s%w", name, err)
		}
		// In a run of its own, because reading on another replica costs as well.
		read, err := e.recorded(ctx, interval, e.record.followed)
		if err != nil {
			return g, fmt.Errorf("%swith followers: %w", name, err)
		}
		g.add(
			row{What: name + "server's CPU per token", Unit: "µs", Value: r.cpuPerToken(), Baseline: bare.cpuPerToken(), Against: against},
			row{What: name + "Postgres's CPU per token", Unit: "µs", Value: r.perToken(r.postgres), Baseline: bare.perToken(bare.postgres), Against: against},
			row{What: name + "WAL per reply", Unit: "kB", Value: r.walPerReply, Baseline: bare.walPerReply, Against: against},
		)
		for _, p := range percentiles {
			g.add(row{What: name + "follower's lag, " + p.name, Unit: "ms", Value: read.behind.MS(p.q), Baseline: read.lag.MS(p.q), Against: here})
		}
	}
	g.note("CPU and WAL without followers; what one run differs from the next is more than what recording costs the server")
	g.note("a reply has %d tokens; WAL from a checkpoint on, so with whole pages: a turn's rows and the recording", e.record.tokens())
	return g, nil
}

// recordingCost is a load and what it cost beside the server.
type recordingCost struct {
	load
	postgres    time.Duration // CPU time
	walPerReply float64       // kB
	behind      kit.Times     // of the followers
}

func (l load) perToken(cpu time.Duration) float64 {
	return float64(cpu.Microseconds()) / max(1, l.tokens)
}

// recorded runs replicas with an interval, streams on the first and follows some on a second.
func (e *environment) recorded(ctx context.Context, interval time.Duration, followed int) (cost recordingCost, err error) {
	r, err := e.startReplicas(ctx, 1+min(followed, 1), "RECORD_INTERVAL="+interval.String())
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	// So that each run writes the same pages whole.
	if _, err := e.admin.Exec(ctx, "checkpoint"); err != nil {
		return cost, err
	}
	_, before, err := kit.UsageOfPostgres(ctx, e.admin)
	if err != nil {
		return cost, err
	}
	chats := make([]conversation, e.record.streams)
	for i := range chats {
		chats[i] = e.next()
	}
	f := &following{server: r.servers[len(r.servers)-1], tokens: e.record.tokens()}
	cost.load, err = e.loadWith(ctx, r.servers[0], e.record.stage, chats, func(ctx context.Context, from, to time.Time) error {
		f.start(ctx, chats[:followed])
		var err error
		cost.postgres, err = e.watchPostgres(ctx, from, to)
		behind, failed := f.wait(from, to)
		cost.behind = behind
		return errors.Join(err, failed)
	})
	if err != nil {
		return cost, err
	}
	_, after, err := kit.UsageOfPostgres(ctx, e.admin)
	cost.walPerReply = float64(after-before) / 1e3 / float64(e.record.streams)
	return cost, err
}

// following are readers of running replies on a replica that does not generate them.
type following struct {
	server   endpoint
	tokens   int
	reading  sync.WaitGroup
	found    []stream
	failures []error
}

func (f *following) start(ctx context.Context, chats []conversation) {
	f.found, f.failures = make([]stream, len(chats)), make([]error, len(chats))
	for i, c := range chats {
		f.reading.Go(func() { f.found[i], f.failures[i] = f.follow(ctx, c) })
	}
}

// follow reads the running reply of a chat, as soon as there is one.
func (f *following) follow(ctx context.Context, c conversation) (stream, error) {
	const again = 20 * time.Millisecond
	conn, err := f.server.connect(ctx)
	if err != nil {
		return stream{}, err
	}
	defer func() { _ = conn.Close() }()
	for {
		found, err := conn.talk(newMessage(c).resume(""), f.tokens)
		answer, answered := errors.AsType[*refused](err)
		if !answered || answer.status != http.StatusNoContent {
			return found, err
		}
		if err := kit.Sleep(ctx, again); err != nil {
			return found, err
		}
	}
}

// wait returns the lag of the tokens sent between two moments, once all replies have ended.
func (f *following) wait(from, to time.Time) (kit.Times, error) {
	f.reading.Wait()
	var l load
	l.collect(f.found, from, to)
	return l.lag, firstOf(f.failures)
}
