package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// How many of each process there are.
const (
	servers = 2
	workers = 2
)

// ordinary people think between messages.
var ordinary = people.Habits{
	Pause: 8 * time.Second, Away: 2 * time.Second, ChatsAtOnce: 1, TurnsPerChat: 40, Soon: 60,
	Stop: .03, Lose: .10, Twice: .02, Again: .02, Look: .20, Edit: .01, Tend: .02,
}

// ordinaryTalk is what they say: mostly short, sometimes an article or files, and in one message of ten something to remember.
func ordinaryTalk() *people.Talk {
	return &people.Talk{
		Subjects: people.Subjects{Words: strings.Fields(
			"cello garden kitchen budget journey novel marathon piano workshop thesis bicycle orchestra harvest bakery telescope")},
		Words: people.Range{Least: 10, Most: 35}, Article: people.Range{Least: 600, Most: 3000, Every: 20},
		Reply: people.Range{Least: 30, Most: 90}, LongReply: people.Range{Least: 150, Most: 400, Every: 7},
		Files: people.Range{Least: 200, Most: 2200, Every: 33}, SayEvery: 10,
		First: 300 * time.Millisecond, Pace: [2]time.Duration{15 * time.Millisecond, 30 * time.Millisecond}, Summary: 4 * time.Second,
	}
}

// limits are the program's defaults.
func limits() people.Limits {
	l := memory.DefaultLimits()
	return people.Limits{
		"threshold": l.ChunkThreshold, "tail": l.KRawTurns, "bridge": l.BridgeTokenBudget, "least": l.MinTailTurns, "prompt": l.PromptTokenBudget,
		"topic_most": 12, "topic_room": 20, "topics_from_brief": true,
	}
}

// notHere are the checks that need a model that lists what it covers and remembers all messages, or to wait for the two
// minutes after which a chat that rests is read for memories.
var notHere = []string{"folded_once", "summarized_once", "extracted_once", "all_extracted"}

// plan is how a run goes.
type plan struct {
	people.Plan // of which Logs is the folder for all that the run leaves
	duration    time.Duration
	warmUp      time.Duration
	every       time.Duration // from one sample to the next
	settle      time.Duration // what an idle system may take to become quiet
	look        time.Duration // from one sample of an idle system to the next

	chats  int
	doc    bool // write the documents
	habits people.Habits
	talk   *people.Talk

	// enough prolongs a load until it reports true; nil for the duration alone.
	enough func(*people.Gauges) bool
}

// report is what a run found out.
type report struct {
	plan
	machine            []string
	baseline           sample // idle, after the warm-up
	samples            series
	after              sample // idle, after the load
	gauges             *people.Gauges
	record             *people.Record
	checks             []check
	pickUp50, pickUp99 float64
}

// failed reports whether a check failed.
func (r report) failed() bool {
	return slices.ContainsFunc(r.checks, func(c check) bool { return c.Problem != "" })
}

// execute runs the load and judges it. An error means that it could not run; failed checks are in the report.
func execute(ctx context.Context, p plan, progress io.Writer) (r report, err error) {
	r = report{plan: p, gauges: &people.Gauges{}, record: &people.Record{Talk: p.talk}}
	defer kit.Catch(&err)
	p.Commands = []string{"serve --no-workers", "serve --no-workers", "work", "work"}
	p.Postgres = map[string]string{"shared_buffers": "256MB", "max_wal_size": "2GB", "max_connections": "250", "track_io_timing": "on"}
	p.Script, p.Warnings = p.talk.Answer, true
	s := kit.Must(people.Start(ctx, p.Plan, progress))
	defer func() { err = errors.Join(err, s.Close(false)) }()
	kit.Check(s.Run(ctx))
	r.machine = append(kit.Must(kit.Describe(ctx, s.Admin)), "the program's defaults: recall, topics and memories are on, with vectors of "+s.Settings["EMBEDDING_MODEL"],
		fmt.Sprintf("%d servers, %d workers, Postgres, the model, the embedder and all people on this machine, over 127.0.0.1", servers, workers))
	var all []*people.Person
	for n := range p.chats {
		all = append(all, kit.Must(s.NewPerson(ctx, r.record, r.gauges, p.habits, 1, n)))
	}
	r.measure(ctx, s, all, progress)
	r.judge(ctx, s)
	return r, nil
}

func (r *report) measure(ctx context.Context, s *people.System, all []*people.Person, progress io.Writer) {
	fmt.Fprintf(progress, "%d people warm up for %s\n", r.chats, r.warmUp)
	kit.Check(talk(ctx, s, all, r.warmUp, func() bool { return true }))
	take := newSampler(s, r.gauges)
	r.baseline = r.calm(ctx, take, steady)
	fmt.Fprintf(progress, "quiet after %s\n", r.baseline.At.Round(time.Second))
	r.gauges.Reset()
	take.began = time.Now()
	fmt.Fprintf(progress, "%d people talk for %s\n", r.chats, r.duration)
	talking, over := context.WithCancel(ctx)
	var both errgroup.Group
	both.Go(func() error { return r.watch(talking, take, progress) })
	both.Go(func() error {
		defer over()
		return talk(ctx, s, all, r.duration, func() bool { return r.enough == nil || r.enough(r.gauges) })
	})
	kit.Check(both.Wait())
	fmt.Fprintln(progress, "the load is over; waiting until all is quiet")
	r.after = r.calm(ctx, take, func(_, now sample) bool { return backToBaseline(r.baseline, now).Problem == "" })
}

// examine runs the checks that must hold at these moments, but for those that do not here.
func examine(ctx context.Context, s *people.System, record *people.Record, when ...string) []people.Violation {
	checks := slices.DeleteFunc(people.Chosen(people.Checks(), when...), func(c people.Check) bool { return slices.Contains(notHere, c.Name) })
	return kit.Must(s.Examine(ctx, record, limits(), nil, checks))
}

// judge makes the checks.
func (r *report) judge(ctx context.Context, s *people.System) {
	violations := examine(ctx, s, r.record, people.Always, people.Quiet)
	files := kit.Must(s.TemporaryFiles())
	kit.Check(s.Admin.QueryRow(ctx, readPickUp).Scan(&r.pickUp50, &r.pickUp99))
	stopped := s.Stop()
	logged, first := s.Logged()
	r.checks = append(r.checks, holds(violations, r.record.Tally(), files), backToBaseline(r.baseline, r.after), memoryIsSteady(r.samples),
		vacuumKeepsUp(r.samples), noErrors(r.record.Failures(), logged, first, r.after.Postgres, stopped, s.Model.Irregular()))
}

// watch takes samples until ctx ends.
func (r *report) watch(ctx context.Context, take *sampler, progress io.Writer) (err error) {
	defer kit.Catch(&err)
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	reported := time.Now()
	for {
		now := take.take(context.WithoutCancel(ctx))
		r.samples = append(r.samples, now)
		if time.Since(reported) > max(r.duration/20, 10*time.Second) {
			reported = time.Now()
			lag := r.gauges.Times(people.WordLag)
			fmt.Fprintf(progress, "%s: %d turns, %d streams, word lag %.1f / %.1f ms (p50 / p99), %d jobs wait, failures %v\n", now.At.Round(time.Second),
				now.Turns, now.Open, lag.MS(.5), lag.MS(.99), now.Postgres.Waiting, r.record.Failures())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// steady reports whether two samples are nearly the same. Periodic work comes and goes.
func steady(before, now sample) bool {
	const little = 2
	near := func(a, b float64) bool { return math.Abs(a-b) <= little }
	for n, p := range now.Parts {
		if !near(p.Goroutines, before.Parts[n].Goroutines) || !near(p.Files, before.Parts[n].Files) {
			return false
		}
	}
	return near(float64(now.Postgres.Connections), float64(before.Postgres.Connections))
}

// calm waits until an idle system has nothing left to do and enough reports true several times in a row. It
// returns the last sample, also of a system that does not become quiet: the checks then report what is wrong with
// it.
func (p plan) calm(ctx context.Context, take *sampler, enough func(before, now sample) bool) sample {
	const running = 4
	began := time.Now()
	before := take.take(ctx)
	for good := 0; good < running && time.Since(began) < p.settle; {
		kit.Check(kit.Sleep(ctx, p.look))
		now := take.take(ctx)
		good++
		if len(examine(ctx, take.system, &people.Record{}, people.Quiet)) > 0 || !enough(before, now) {
			good = 0
		}
		before = now
	}
	return before
}

// talk lets all people talk for at least a time and until enough reports true, and then read their replies to the end.
func talk(ctx context.Context, s *people.System, all []*people.Person, d time.Duration, enough func() bool) error {
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	for _, p := range all {
		wait.Go(func() { p.Live(ctx, stopping) })
	}
	err := kit.Sleep(ctx, d)
	for err == nil && !enough() {
		err = kit.Sleep(ctx, d/10)
	}
	stop()
	wait.Wait()
	s.HTTP.CloseIdleConnections()
	return err
}
