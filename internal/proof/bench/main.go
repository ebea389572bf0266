// Command bench measures the built program, with its default settings, beside a stripped server and baselines of the
// same run:
//
//	go run ./internal/proof/bench              everything, about ten minutes on two quiet cores
//	go run ./internal/proof/bench -doc         and writes the tables and the figures into README.md and docs
//	go run ./internal/proof/bench -runs 3      three times, medians
//	go run ./internal/proof/bench -only fold
//	go run ./internal/proof/bench -only cost -against DIR    what a turn costs, beside another checkout
//	go run ./internal/proof/bench -only peers                beside another gateway; see make peers
//
// It starts a private Postgres in a temporary folder, durable as in production, and everything else on loopback.
// A number of one machine says little, so baselines stand beside it. docs/benchmarks.md explains the rows. No time is
// asserted: the test of this package checks that every row is produced. But a reply that is not whole fails its part.
//
// What one process can measure is a Go benchmark of the package that does it: go test -bench . ./streaming, for example.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// timeout bounds one part.
const timeout = 6 * time.Minute

type options struct {
	only    string
	runs    int
	against string
	doc     bool
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
	flags.StringVar(&o.only, "only", "", "run only these, comma-separated: "+strings.Join(names(), ", "))
	flags.IntVar(&o.runs, "runs", 1, "repeat everything and print medians")
	flags.StringVar(&o.against, "against", "", "a checkout, such as one of an older commit: cost is measured of both builds, by turns")
	flags.BoolVar(&o.doc, "doc", false, "write the tables into docs/benchmarks.md and the figures wherever a document names them")
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
	p, err := kit.StartPostgres(ctx, map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB", "max_connections": "200"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Destroy()) }()
	e, err := newEnvironment(ctx, p.DSN(), p.AdminDSN(), ".", full, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if slices.ContainsFunc(chosen, func(b benchmark) bool { return !b.own }) {
		if err := e.fill(ctx); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	if e.against = o.against; e.against != "" {
		if e.against, err = filepath.Abs(e.against); err != nil {
			return err
		}
	}
	host, err := kit.Describe(ctx, e.admin)
	if err != nil {
		return err
	}
	groups, err := measure(ctx, e, chosen, o.runs)
	for _, g := range groups {
		err = errors.Join(err, g.print(out))
	}
	fmt.Fprintln(out, "\n"+strings.Join(host, "\n"))
	if o.doc { // what was measured before a failure, too
		err = errors.Join(err, writeDocuments(".", host, groups))
	}
	return err
}

// benchmark is one part.
type benchmark struct {
	name    string
	columns []string
	run     func(context.Context, *fleet, *group) error
	model   func(sizes) role // nil for one whose tokens come at a steady pace
	// once: its result hardly depends on the machine, so it is not repeated.
	once bool
	// byHand: it compares with other programs, and runs only when it is named.
	byHand bool
	// own: it has databases of its own.
	own bool
}

// benchmarks are in this order: what makes its own chats first, and recall, which changes what a user is known for, last.
var benchmarks = []benchmark{
	{name: "stream", run: measureStream, columns: []string{shipped, stripped, roleRelay, roleModel}},
	{name: "burst", run: measureBurst, columns: []string{shipped, stripped, roleRelay}},
	{name: "cost", run: measureCost, model: func(s sizes) role { return role{Words: s.words, Pause: s.pause} }, own: true},
	{name: "memory", run: measureMemory, model: func(s sizes) role { return role{Words: s.words} }, columns: []string{shipped, stripped}, once: true, own: true},
	{name: "cuts", run: measureCuts, columns: []string{"same replica", "other replica", "a stored reply"}},
	{name: "stop", run: measureStop, columns: []string{shipped}, once: true},
	{name: "record", run: measureRecord, columns: []string{"other replica", "same replica"}},
	{name: "fold", run: measureFold, model: func(sizes) role { return role{Summary: summaryText()} }, columns: []string{shipped}},
	{name: "recall", run: measureRecall, columns: []string{shipped, stripped}},
	{name: "peers", run: measurePeers, byHand: true},
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

// measure runs the parts, all of them once before any of them again, so that a noisy minute does not affect one alone.
// After a failure it returns what it has.
func measure(ctx context.Context, e *environment, chosen []benchmark, runs int) ([]group, error) {
	results := make([][]group, len(chosen))
	for n := range runs {
		for i, b := range chosen {
			if n > 0 && b.once {
				continue
			}
			began := time.Now()
			g, err := b.measure(ctx, e)
			if err != nil {
				return mediansOf(results), fmt.Errorf("%s: %w", b.name, err)
			}
			e.say("%s, run %d of %d: %.1f s", b.name, n+1, runs, time.Since(began).Seconds())
			results[i] = append(results[i], g)
		}
	}
	return mediansOf(results), nil
}

// measure runs a part with a model and a relay of its own.
func (b benchmark) measure(ctx context.Context, e *environment) (g group, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	g = group{name: b.name, columns: slices.Clone(b.columns)}
	if !b.own {
		if err := e.settle(ctx); err != nil {
			return g, err
		}
	}
	model := role{}
	if b.model != nil {
		model = b.model(e.sizes)
	}
	f, err := e.startFleet(ctx, model)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	return g, b.run(ctx, f, &g)
}

// page is the document that has the tables.
var page = filepath.Join("docs", "benchmarks.md")
