package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// plan is how a run goes.
type plan struct {
	source   string // folder of the module
	out      string // folder for what the run leaves
	duration time.Duration
	warmUp   time.Duration
	every    time.Duration // from one sample to the next
	settle   time.Duration // what an idle system may take to become quiet
	look     time.Duration // from one sample of an idle system to the next
	// idle is how long the program's connections to Postgres stay open without work. With the default of half an
	// hour those that leak could not be told from the others.
	idle   time.Duration
	chats  int
	habits habits
	env    map[string]string // of the program, beside its defaults
	// enough prolongs a load until it reports true; nil for the duration alone.
	enough func(totals) bool
}

// report is what a run found out.
type report struct {
	plan
	machine            []string
	baseline           sample // idle, after the warm-up
	samples            series
	after              sample // idle, after the load
	totals             totals // of the load
	turns              []turn // of the whole run, warm-up included
	checks             []check
	pickUp50, pickUp99 float64
}

// failed reports whether a check failed.
func (r report) failed() bool {
	return slices.ContainsFunc(r.checks, func(c check) bool { return c.Problem != "" })
}

// crowd is all the people.
type crowd struct {
	people []*person
	gauges *gauges
	http   *http.Client
}

// execute runs the load and judges it. An error means that it could not run; failed checks are in the report.
func execute(ctx context.Context, p plan, progress io.Writer) (r report, err error) {
	r.plan = p
	s, err := startSystem(ctx, p, progress)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if r.machine, err = kit.Describe(ctx, s.admin); err != nil {
		return r, err
	}
	r.machine = append(r.machine, fmt.Sprintf("%d replicas, %d workers, Postgres, the model and all clients on this machine, over 127.0.0.1", replicas, workers))
	c, err := s.gather(ctx, p)
	if err != nil {
		return r, err
	}
	return r, r.measure(ctx, s, c, progress)
}

func (r *report) measure(ctx context.Context, s *system, c *crowd, progress io.Writer) error {
	fmt.Fprintf(progress, "%d chats warm up for %s\n", r.chats, r.warmUp)
	if err := c.talk(ctx, r.warmUp, func() bool { return true }); err != nil {
		return err
	}
	take := newSampler(s, c.gauges)
	var err error
	if r.baseline, err = r.calm(ctx, s, take, steady); err != nil {
		return err
	}
	fmt.Fprintf(progress, "quiet after %s\n", r.baseline.At.Round(time.Second))
	before := c.gauges.totals()
	take.began, take.last = time.Now(), before
	fmt.Fprintf(progress, "%d chats talk for %s\n", r.chats, r.duration)
	talking, over := context.WithCancel(ctx)
	var both errgroup.Group
	both.Go(func() error { return r.watch(talking, take, progress) })
	both.Go(func() error {
		defer over()
		return c.talk(ctx, r.duration, func() bool { return r.enough == nil || r.enough(c.gauges.totals().since(before)) })
	})
	if err := both.Wait(); err != nil {
		return err
	}
	now := c.gauges.totals()
	r.totals, r.turns = now.since(before), now.turns
	fmt.Fprintln(progress, "the load is over; waiting until all is quiet")
	r.after, err = r.calm(ctx, s, take, func(_, now sample) bool { return backToBaseline(r.baseline, now).Problem == "" })
	if err != nil {
		return err
	}
	return r.judge(ctx, s)
}

// judge makes the checks.
func (r *report) judge(ctx context.Context, s *system) error {
	left, err := s.leftovers(ctx)
	if err != nil {
		return err
	}
	var messages check
	err = pgx.BeginFunc(ctx, s.admin, func(tx pgx.Tx) (err error) {
		messages, err = compare(ctx, tx, r.turns)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.admin.QueryRow(ctx, readPickUp, "10 years").Scan(&r.pickUp50, &r.pickUp99); err != nil {
		return err
	}
	if err := s.stop(); err != nil {
		r.checks = append(r.checks, newCheck("every process ends in good order", "", err.Error()))
	}
	logged, first := s.logged()
	r.checks = append(r.checks, messages, nothingLeft(left), backToBaseline(r.baseline, r.after), memoryIsSteady(r.samples),
		vacuumKeepsUp(r.samples), noErrors(r.totals.errors, logged, first, r.after.Postgres))
	return nil
}

// watch takes samples until ctx ends.
func (r *report) watch(ctx context.Context, take *sampler, progress io.Writer) error {
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	reported := time.Now()
	for {
		now, err := take.take(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		r.samples = append(r.samples, now)
		if time.Since(reported) > max(r.duration/20, 10*time.Second) {
			reported = time.Now()
			fmt.Fprintf(progress, "%s: %d streams, word lag %.1f / %.1f ms (p50 / p99), folds waiting %d, errors %d\n", now.At.Round(time.Second),
				now.Heard.Open, now.Heard.P50[wordLag], now.Heard.P99[wordLag], waiting(now.Postgres.Jobs), now.Heard.Errors)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// waiting counts jobs that are not done.
func waiting(jobs map[string]int64) (count int64) {
	for state, n := range jobs {
		if state != "completed" && state != "discarded" && state != "cancelled" {
			count += n
		}
	}
	return count
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
func (p plan) calm(ctx context.Context, s *system, take *sampler, enough func(before, now sample) bool) (sample, error) {
	const running = 4
	began := time.Now()
	before, err := take.take(ctx)
	for good := 0; err == nil && good < running && time.Since(began) < p.settle; {
		if err := kit.Sleep(ctx, p.look); err != nil {
			return before, err
		}
		var now sample
		if now, err = take.take(ctx); err != nil {
			break
		}
		left, errLeft := s.leftovers(ctx)
		if errLeft != nil {
			return now, errLeft
		}
		good++
		if nothingLeft(left).Problem != "" || !enough(before, now) {
			good = 0
		}
		before = now
	}
	return before, err
}

// gather makes the users.
func (s *system) gather(ctx context.Context, p plan) (*crowd, error) {
	c := &crowd{gauges: &gauges{}, http: newHTTP()}
	for n := range p.chats {
		id, token, err := kit.NewUser(ctx, s.admin)
		if err != nil {
			return nil, err
		}
		c.people = append(c.people, &person{
			caller: caller{Client: kit.Client{HTTP: c.http, Token: token}, replicas: s.addresses(), gauges: c.gauges},
			habits: p.habits, id: id, dice: newDice(uint64(n)),
		})
	}
	return c, nil
}

// talk lets all people talk for at least a time and until enough reports true, and then read their replies to the end.
func (c *crowd) talk(ctx context.Context, d time.Duration, enough func() bool) error {
	stopping := make(chan struct{})
	var wait sync.WaitGroup
	for _, p := range c.people {
		wait.Go(func() { p.live(ctx, stopping) })
	}
	err := kit.Sleep(ctx, d)
	for err == nil && !enough() {
		err = kit.Sleep(ctx, d/10)
	}
	close(stopping)
	wait.Wait()
	c.http.CloseIdleConnections()
	return err
}
