// Command bench measures the built program, with its default settings, beside a stripped server and baselines of the
// same run:
//
//	go run ./internal/proof/bench              everything, about ten minutes on two quiet cores
//	go run ./internal/proof/bench -doc         and writes the tables and the figures into README.md and docs
//	go run ./internal/proof/bench -runs 3      three times, medians
//	go run ./internal/proof/bench -only fold
//	go run ./internal/proof/bench -only cost -against DIR    what a turn costs, beside another checkout
//
// It starts a private Postgres in a temporary folder, durable as in production, and everything else on loopback.
// A number of one machine says little, so baselines stand beside it. docs/results/benchmarks.md explains the rows. No time is
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
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

type part struct {
	name    string
	columns []string
	run     func(context.Context, *bench, *table)
	script  people.Script // of a model whose answers are ready; nil for one whose tokens come at a steady pace
	// once: its result hardly depends on the machine, so it is not repeated.
	once bool
	// own: it has databases of its own.
	own bool
}

// parts are in this order: what makes its own chats first, and recall, which changes what a user is known for, last.
var parts = []part{
	{name: "stream", run: measureStream, columns: []string{shipped, stripped, roleRelay, roleModel}},
	{name: "burst", run: measureBurst, columns: []string{shipped, stripped, roleRelay}},
	{name: "cost", run: measureCost, columns: []string{shipped, stripped}, script: replies(10 * time.Millisecond), own: true},
	{name: "memory", run: measureMemory, columns: []string{shipped, stripped}, script: replies(0), once: true, own: true},
	{name: "cuts", run: measureCuts, columns: []string{sameReplica, otherReplica, storedReply}},
	{name: "stop", run: measureStop, columns: []string{shipped}, once: true},
	{name: "record", run: measureRecord, columns: []string{otherReplica, sameReplica}},
	{name: "fold", run: measureFold, columns: []string{shipped}, script: summaries},
	{name: "recall", run: measureRecall, columns: []string{shipped, stripped}},
}

func main() {
	if !playRole(os.Args[1:]) {
		kit.Main("bench", run)
	}
}

func names() (all []string) {
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

// choose returns the parts of these names, and all for "".
func choose(only string) (chosen []part, err error) {
	wanted := strings.Split(only, ",")
	for _, p := range parts {
		if only == "" || slices.Contains(wanted, p.name) {
			chosen = append(chosen, p)
		}
	}
	if only != "" && len(chosen) != len(wanted) {
		return nil, fmt.Errorf("%q names no benchmark, or one twice; there are %s", only, strings.Join(names(), ", "))
	}
	return chosen, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	defer kit.Catch(&err)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	only := flags.String("only", "", "run only these, comma-separated: "+strings.Join(names(), ", "))
	runs := flags.Int("runs", 1, "repeat everything and print medians")
	against := flags.String("against", "", "a checkout, such as one of an older commit: cost is measured of both builds, by turns")
	doc := flags.Bool("doc", false, "write the tables into docs/results/benchmarks.md and the figures wherever a document names them")
	kit.Check(flags.Parse(args))
	if flags.NArg() > 0 || *runs < 1 {
		return errors.New("wrong arguments, see -help")
	}
	chosen := kit.Must(choose(*only))
	b := kit.Must(open(ctx, ".", 1, progress))
	defer func() { err = errors.Join(err, b.end(0)) }()
	b.against = *against
	host := kit.Must(kit.Describe(ctx, b.admin))
	tables, err := b.measure(ctx, chosen, *runs)
	for _, t := range tables {
		fmt.Fprintf(out, "\n%s\n\n%s", t.name, figures.Plain(t.markdown(nil)))
	}
	fmt.Fprintln(out, "\n"+strings.Join(host, "\n"))
	if *doc { // also the figures from before a failure
		err = errors.Join(err, publish(".", host, tables))
	}
	return err
}

var page = filepath.Join("docs", "results", "benchmarks.md")

// publish puts the tables into their page, and their figures wherever a document of the repository quotes them.
func publish(root string, host []string, tables []*table) (err error) {
	for _, t := range tables {
		err = errors.Join(err, figures.Publish(root, page, t.name, t.markdown(host)))
	}
	return err
}

// measure runs all parts once before any of them again: a noisy minute affects all. After a failure it returns what it has.
func (b *bench) measure(ctx context.Context, chosen []part, runs int) (tables []*table, err error) {
	for n := range runs {
		for i, p := range chosen {
			if n > 0 && p.once {
				continue
			}
			began := time.Now()
			t := &table{name: p.name, columns: p.columns}
			if n > 0 {
				t = tables[i]
			}
			if err := b.run(ctx, p, t); err != nil {
				return tables, fmt.Errorf("%s: %w", p.name, err)
			}
			if n == 0 {
				tables = append(tables, t)
			}
			fmt.Fprintf(b.progress, "%s, run %d of %d: %.1f s\n", p.name, n+1, runs, time.Since(began).Seconds())
		}
	}
	return tables, nil
}

// run runs a part with a model of its own, and ends what the part started.
func (b *bench) run(ctx context.Context, p part, t *table) (err error) {
	const most = 6 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	defer kit.Catch(&err)
	if !p.own {
		b.fill(ctx)
		b.settle(ctx)
	}
	since := len(b.ends)
	defer func() { err = errors.Join(err, b.end(since)) }()
	b.startModel(ctx, p.script)
	t.notes = nil
	p.run(ctx, b, t)
	return nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// bench is what all parts share: a filled database, its users, the built program, and what runs at the moment. End it.
type bench struct {
	scale    int // of everything that is counted or takes a time: 1 measures, more only shows that all works
	system   *people.System
	admin    *pgxpool.Pool // as the superuser: prepares, is never measured
	source   string        // folder of this module
	against  string        // folder of another checkout, "" for none
	progress io.Writer
	filled   bool
	used     atomic.Int64 // chats
	asked    atomic.Int64 // questions
	folded   int          // runs of measureFold
	talks    []talk       // of measureRecall; nil before it runs

	ends []func() error
	// Of the part that runs:
	script       people.Script
	model, relay endpoint
}

// open starts a system for the module in a folder.
func open(ctx context.Context, source string, scale int, progress io.Writer) (b *bench, err error) {
	b = &bench{scale: scale, progress: progress}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.end(0))
		}
	}()
	defer kit.Catch(&err)
	b.source = kit.Must(filepath.Abs(source))
	b.system = b.startSystem(ctx, people.Plan{
		Source: b.source, Postgres: map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB", "max_connections": "200"},
	})
	const most = 20
	b.admin, _, err = postgres.Open(ctx, b.system.Postgres.AdminDSN(), most)
	kit.Check(err)
	b.later(func() error { b.admin.Close(); return nil })
	return b, nil
}

// of returns a number of things as the scale has it, and lasting a time.
func (b *bench) of(count int) int { return max(count/b.scale, 2) }

func (b *bench) lasting(d time.Duration) time.Duration {
	const least = 500 * time.Millisecond
	return max(d/time.Duration(b.scale), min(d, least))
}

func (b *bench) users() int { return b.of(1000) }

// later has something ended with the part that runs, or with everything.
func (b *bench) later(end func() error) { b.ends = append(b.ends, end) }

// end ends all that was started since there were so many ends, the latest first.
func (b *bench) end(since int) (err error) {
	for _, end := range slices.Backward(b.ends[since:]) {
		err = errors.Join(err, end())
	}
	b.ends = b.ends[:since]
	return err
}

type chat struct {
	id    uuid.UUID
	token string
}

// chat returns the one of a number; see fill for the kinds.
func (b *bench) chat(kind string, n int) chat {
	token, _ := kit.Token(idOf("user", n%b.users())) // its secret is not empty
	return chat{idOf(kind, n), token}
}

// unused returns a number of short chats that were not used yet, as long as there are any.
func (b *bench) unused(count int) []chat {
	all := make([]chat, count)
	for i := range all {
		all[i] = b.chat(shortChat, int(b.used.Add(1))%b.shortChats())
	}
	return all
}

// settle forgets the jobs that earlier parts left, and what they made due.
func (b *bench) settle(ctx context.Context) {
	kit.Check(kit.Exec(ctx, b.admin, "truncate river.river_job",
		"update public.conversation_briefs set extract_due_at = null, extracted_seq = seen.seq from (select id, last_seq as seq from public.chats) seen "+
			"where extract_due_at is not null and seen.id = chat_id"))
}

// evenly runs work a number of times at once, started evenly over the ramp. The first failure ends the others.
func evenly(ctx context.Context, count int, ramp time.Duration, work func(ctx context.Context, i int)) error {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range count {
		group.Go(func() (err error) {
			defer kit.Catch(&err)
			kit.Check(kit.Sleep(ctx, time.Until(began.Add(ramp*time.Duration(i)/time.Duration(count)))))
			work(ctx, i)
			return nil
		})
	}
	return group.Wait()
}

const (
	shortTurns = 10
	// tokensPerSecond is the pace of each stream.
	tokensPerSecond = 50
)
