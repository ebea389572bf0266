// Command bench measures the server beside baselines of the same run and prints them as one table:
//
//	go run ./internal/proof/bench            everything, about four minutes
//	go run ./internal/proof/bench -runs 3    three times, medians
//	go run ./internal/proof/bench -quick     small sizes, for CI: that it still runs, not how fast
//	go run ./internal/proof/bench -only fold
//	go run ./internal/proof/bench -only cost -against DIR    what a turn costs, beside another checkout
//	go run ./internal/proof/bench -only peers,memorycost -chart docs/charts    beside others; see make peers
//
// It starts a private Postgres in a temporary folder, durable as in production, and everything else on loopback.
// A number of one machine says little; its ratio to a baseline of the same run says more, so rows have baselines
// where possible. docs/benchmarks.md explains the rows. No time is asserted: the test of this package checks that
// every row is produced. But a reply that is not whole fails its benchmark.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// timeout bounds one benchmark; timeoutByHand those that measure other programs, too.
const (
	timeout       = 4 * time.Minute
	timeoutByHand = 15 * time.Minute
)

type options struct {
	quick   bool
	only    string
	runs    int
	json    bool
	profile string
	against string
	charts  string
	doc     string
}

func main() {
	if isRole(os.Args[1:]) {
		os.Exit(runRole(os.Args[2]))
	}
	kit.Main("bench", run)
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.quick, "quick", false, "small sizes, in less than a minute")
	flags.StringVar(&o.only, "only", "", "run only these, comma-separated: "+strings.Join(names(), ", "))
	flags.IntVar(&o.runs, "runs", 1, "repeat everything and print medians")
	flags.BoolVar(&o.json, "json", false, "print JSON in place of the table")
	flags.StringVar(&o.charts, "chart", "", "write the charts of the benchmarks that have one into this folder")
	flags.StringVar(&o.doc, "doc", "", "put the table into this document, between its lines bench:begin and bench:end (peers:…, of what runs by hand)")
	flags.StringVar(&o.profile, "profile", "", "write profiles of the streaming server into this folder")
	flags.StringVar(&o.against, "against", "", "a checkout, such as one of an older commit: cost is measured of both builds, by turns")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.runs < 1 {
		return o, errors.New("wrong arguments, see -help")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	size := full
	if o.quick {
		size = quick
	}
	if !slices.ContainsFunc(chosen, func(b benchmark) bool { return !b.own }) {
		size = size.withFill(quick)
	}
	p, err := kit.StartPostgres(ctx, map[string]string{"shared_buffers": size.sharedBuffers, "max_wal_size": "4GB", "max_connections": "200"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Destroy()) }()
	e, err := newEnvironment(ctx, addresses{server: p.DSN(), admin: p.AdminDSN()}, size, progress)
	if err != nil {
		return err
	}
	defer e.close()
	e.profile, e.against = o.profile, o.against
	host, err := describe(ctx, e)
	if err != nil {
		return err
	}
	groups, err := measure(ctx, e, chosen, o.runs)
	if o.charts != "" {
		err = errors.Join(err, writeCharts(o.charts, groups))
	}
	if o.doc != "" && err == nil {
		err = writeDocument(o.doc, chosen, host, groups)
	}
	if o.json {
		return errors.Join(writeJSON(out, host, groups), err)
	}
	return errors.Join(writeTable(out, host, groups), err)
}

// benchmark is one part of the table.
type benchmark struct {
	name string
	run  func(context.Context, *environment) (group, error)
	// once: its result hardly depends on the machine, so it is not repeated.
	once bool
	// byHand: it compares with other programs, and runs only when it is named.
	byHand bool
	// own: it fills a database of its own.
	own bool
}

var benchmarks = []benchmark{
	{name: "prompt", run: measurePrompt},
	{name: "turn", run: measureTurn},
	{name: "cost", run: measureCost, own: true},
	{name: "fold", run: measureFold},
	{name: "memory", run: measureMemory, once: true},
	{name: "delta", run: measureDelta},
	{name: "text", run: measureText},
	{name: "auth", run: measureAuth},
	{name: "stream", run: measureStream},
	{name: "burst", run: measureBurst},
	{name: "cuts", run: measureCuts},
	{name: "slow", run: measureSlow, once: true},
	{name: "stop", run: measureStop, once: true},
	{name: "record", run: measureRecord},
	{name: "recall", run: measureRecall},
	{name: "remembered", run: measureRemembered},
	{name: "topics", run: measureTopics, once: true},
	{name: "peers", run: measurePeers, byHand: true},
	{name: "memorycost", run: measureMemoryCost, byHand: true},
}

func names() []string {
	var all []string
	for _, b := range benchmarks {
		all = append(all, b.name)
	}
	return all
}

func choose(only string) ([]benchmark, error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(benchmarks), func(b benchmark) bool { return b.byHand }), nil
	}
	var chosen []benchmark
	for name := range strings.SplitSeq(only, ",") {
		at := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no benchmark %q, only: %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, benchmarks[at])
	}
	return chosen, nil
}

// measure runs the benchmarks, all of them once before any of them again, so that a noisy minute does not affect
// one alone. After a failure it returns what it has.
func measure(ctx context.Context, e *environment, chosen []benchmark, runs int) ([]group, error) {
	testing.Init()
	if err := flag.Set("test.benchtime", e.microTime.String()); err != nil {
		return nil, err
	}
	results := make([][]group, len(chosen))
	for n := range runs {
		for i, b := range chosen {
			if n > 0 && b.once {
				continue
			}
			began := time.Now()
			limited, cancel := context.WithTimeout(ctx, b.limit())
			found, err := b.run(limited, e)
			cancel()
			if err != nil {
				return mediansOf(results), fmt.Errorf("%s: %w", b.name, err)
			}
			e.say("%s, run %d of %d: %.1f s", b.name, n+1, runs, time.Since(began).Seconds())
			found.Name = b.name
			results[i] = append(results[i], found)
		}
	}
	return mediansOf(results), nil
}

func (b benchmark) limit() time.Duration {
	if b.byHand {
		return timeoutByHand
	}
	return timeout
}
