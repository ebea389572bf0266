package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// recording is the size of measureRecord.
type recording struct {
	stage
	followed  int   // of the streams, each by one reader on another replica
	intervals []int // milliseconds
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
		name := fmt.Sprintf("every %d ms: ", interval)
		interval := time.Duration(interval) * time.Millisecond
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
			row{What: name + "Postgres's CPU per token", Unit: "µs", Value: r.perToken(r.postgres.CPU), Baseline: bare.perToken(bare.postgres.CPU), Against: against},
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
	postgres    kit.Usage
	walPerReply float64   // kB
	behind      kit.Times // of the followers
}

// recorded runs replicas with an interval, streams on the first and follows some on a second.
func (e *environment) recorded(ctx context.Context, interval time.Duration, followed int) (cost recordingCost, err error) {
	replicas := slices.Repeat([]string{roleServer}, 1+min(followed, 1))
	f, err := e.startFleet(ctx, role{Settings: map[string]string{"RECORD_INTERVAL": interval.String()}}, replicas...)
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	// So that each run writes the same pages whole.
	if _, err := e.admin.Exec(ctx, "checkpoint"); err != nil {
		return cost, err
	}
	_, before, err := kit.UsageOfPostgres(ctx, e.admin)
	if err != nil {
		return cost, err
	}
	chats := e.unused(e.record.streams)
	cost.load, err = e.loadWith(ctx, f[1], e.record.stage, chats, func(ctx context.Context, from, to time.Time) error {
		read := make([]stream, followed)
		group, ctx := errgroup.WithContext(ctx)
		for i := range read {
			group.Go(func() (err error) {
				read[i], err = f[len(f)-1].follow(ctx, chats[i], e.record.tokens())
				return err
			})
		}
		group.Go(func() (err error) {
			cost.postgres, err = watch(ctx, from, to, to.Sub(from), func() (kit.Usage, error) {
				used, _, err := kit.UsageOfPostgres(ctx, e.admin)
				return used, err
			})
			return err
		})
		err := group.Wait()
		cost.behind = sentBetween(read, from, to)
		return err
	})
	if err != nil {
		return cost, err
	}
	_, after, err := kit.UsageOfPostgres(ctx, e.admin)
	cost.walPerReply = float64(after-before) / 1e3 / float64(e.record.streams)
	return cost, err
}

// follow reads the running reply of a chat, as soon as there is one.
func (p endpoint) follow(ctx context.Context, c conversation, tokens int) (stream, error) {
	const again = 20 * time.Millisecond
	conn, err := p.connect(ctx)
	if err != nil {
		return stream{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	for {
		found, err := conn.talk(newClient(c).resume(), tokens)
		answer, answered := errors.AsType[*refused](err)
		if !answered || answer.status != http.StatusNoContent {
			return found, err
		}
		if err := kit.Sleep(ctx, again); err != nil {
			return found, err
		}
	}
}
