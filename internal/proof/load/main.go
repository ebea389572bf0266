// Command load lets many people talk for a long time, through two servers and two workers, to look for what a
// short test does not see: leaks, rows left behind, queues that grow, an index that bloats.
//
//	go run ./internal/proof/load                   for an hour
//	go run ./internal/proof/load -duration 5m      as CI does when it is asked to
//	go run ./internal/proof/load -doc              and writes the figures into README.md and docs
//
// The program is the real one with the settings that a user gets, each process its own, on a durable Postgres; only the
// model is a stand-in, and the keyless embedder is in the place of OpenAI's. The figures, and the reasons for which a run fails, are in
// docs/results/load.md. No time is asserted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

func main() { kit.Main("load", run) }

func parse(args []string, usage io.Writer) (plan, error) {
	p := plan{habits: ordinary, talk: ordinaryTalk(), look: time.Second}
	p.Source, p.Idle = ".", 30*time.Second
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.DurationVar(&p.duration, "duration", time.Hour, "how long people talk, after a warm-up")
	const keepsTwoCoresBusy = 250 // without making users wait; see docs/results/load.md
	flags.IntVar(&p.chats, "chats", keepsTwoCoresBusy, "how many people talk at once")
	flags.StringVar(&p.Logs, "out", filepath.Join(".local", "load"), "folder for samples, summary and logs")
	flags.BoolVar(&p.doc, "doc", false, "write the tables into docs/results/load.md and the figures wherever a document names them")
	err := flags.Parse(args)
	if err == nil && (flags.NArg() > 0 || p.duration < time.Second || p.chats < 1) {
		err = errors.New("wrong arguments, see -help")
	}
	p.warmUp, p.every = min(p.duration/5, 30*time.Second), max(p.duration/300, time.Second)
	return p, err
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	defer kit.Catch(&err)
	p := kit.Must(parse(args, progress))
	kit.Check(os.MkdirAll(p.Logs, 0o750))
	return kit.Must(execute(ctx, p, progress)).deliver(".", out)
}

// deliver prints the summary, and writes it and all samples into the folder and, where asked, the documents below root.
func (r report) deliver(root string, out io.Writer) error {
	results, err := json.MarshalIndent(map[string]any{"idle_before": r.baseline, "samples": r.samples, "idle_after": r.after}, "", " ")
	summary := r.markdown()
	fmt.Fprintln(out, figures.Plain(summary))
	err = errors.Join(err, os.WriteFile(filepath.Join(r.Logs, "load.json"), results, 0o600),
		os.WriteFile(filepath.Join(r.Logs, "summary.txt"), []byte(figures.Plain(summary)), 0o600))
	switch failed := func(c check) bool { return c.Problem != "" }; {
	case err != nil:
		return err
	case slices.ContainsFunc(r.checks, failed):
		return errors.New("the load failed its checks")
	case r.doc:
		return figures.Publish(root, filepath.Join("docs", "results", "load.md"), "load", summary)
	}
	return nil
}

// endless is longer than any load.
const endless = 1000 * time.Hour

// ordinary people think between messages.
var ordinary = people.Habits{
	Pause: 8 * time.Second, Away: 2 * time.Second, Patience: endless, ChatsAtOnce: 1, TurnsPerChat: 40, Soon: 60,
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

type plan struct {
	people.Plan // of which Logs is the folder for all that the run leaves
	duration    time.Duration
	warmUp      time.Duration
	every       time.Duration // from one sample to the next
	look        time.Duration // from one sample of an idle system to the next

	chats  int
	doc    bool // write the documents
	habits people.Habits
	talk   *people.Talk

	// enough prolongs a load until it reports true; nil for the duration alone.
	enough func(*people.Gauges) bool
}

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
	r.machine = append(kit.Must(kit.Describe(ctx, s.Admin)),
		"the program's defaults: recall, topics and memories are on, with vectors of "+s.Settings["EMBEDDING_MODEL"],
		"2 servers, 2 workers, Postgres, the model, the embedder and all people on this machine, over 127.0.0.1")
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
	take := &sampler{system: s, gauges: r.gauges, began: time.Now()}
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

// examine runs the checks that must hold at these moments, but for the ones that do not here.
func examine(ctx context.Context, s *people.System, record *people.Record, when ...string) []people.Violation {
	checks := slices.DeleteFunc(people.Chosen(people.Checks(), when...), func(c people.Check) bool { return slices.Contains(notHere, c.Name) })
	return kit.Must(s.Examine(ctx, record, limits(), nil, checks))
}

func (r *report) judge(ctx context.Context, s *people.System) {
	violations := examine(ctx, s, r.record, people.Always, people.Quiet)
	files := kit.Must(s.TemporaryFiles())
	kit.Check(s.Admin.QueryRow(ctx, readPickUp).Scan(&r.pickUp50, &r.pickUp99))
	stopped := s.Stop()
	logged, first := s.Logged()
	r.checks = append(r.checks, holds(violations, r.record.Tally(), files), backToBaseline(r.baseline, r.after), memoryIsSteady(r.samples),
		vacuumKeepsUp(r.samples), noErrors(r.record.Failures(), logged, first, r.after, stopped, s.Model.Irregular()))
}

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
			fmt.Fprintf(progress, "%s: %.0f turns, word lag %.1f / %.1f ms (p50 / p99), %.0f jobs wait, failures %v\n", now.At.Round(time.Second),
				now.Values["turns"], lag.MS(.5), lag.MS(.99), now.Values["jobs"], r.record.Failures())
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
	for name, is := range now.Values {
		what, _, _ := strings.Cut(name, " of ")
		if spares[what] > 0 && math.Abs(is-before.Values[name]) > little {
			return false
		}
	}
	return true
}

// calm waits until an idle system has nothing left to do and enough reports true several times in a row. It returns the
// last sample, also of a system that does not become quiet: the checks then report its faults.
func (p plan) calm(ctx context.Context, take *sampler, enough func(before, now sample) bool) sample {
	const running, settle = 4, 3 * time.Minute
	began := time.Now()
	before := take.take(ctx)
	for good := 0; good < running && time.Since(began) < settle; {
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
