// Command crash kills the built program while people talk through it, and checks the database against what they received:
//
//	go run ./internal/proof/crash                  20 rounds, about a minute and a half
//	go run ./internal/proof/crash -rounds 500      as many as there is time for
//	go run ./internal/proof/crash -seed 7          the same choices again; their timing is up to the machine
//	go run ./internal/proof/crash -mutations       breaks the program on purpose, and reports whether it is noticed
//
// Two servers and two workers run as processes on a private Postgres, durable as in production. In every round
// some of them are killed with SIGKILL, in every tenth Postgres ends as `pg_ctl stop -m immediate` ends it. What
// must be true of the database is in checks.sql; docs/crash.md has the rest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

type options struct {
	rounds     int
	quietEvery int
	within     time.Duration // what is promised: from the restart until nothing is left of the crash
	seed       uint64
	source     string // the module's folder
	keep       bool   // logs and database after a violation
	mutations  bool
	only       string
}

func main() { kit.Main("crash", run) }

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&o.rounds, "rounds", 20, "how often to kill")
	flags.IntVar(&o.quietEvery, "quiet-every", 10, "after how many rounds to wait for quiet")
	flags.DurationVar(&o.within, "within", time.Minute, "how long a recovery may take")
	flags.Uint64Var(&o.seed, "seed", 0, "what chance goes by; 0 takes any")
	flags.StringVar(&o.source, "source", ".", "the module's folder")
	flags.BoolVar(&o.keep, "keep", true, "keep logs and database after a violation")
	flags.BoolVar(&o.mutations, "mutations", false, "run against each patch in internal/proof/crash/mutations")
	flags.StringVar(&o.only, "only", "", "of the mutations, only those whose name holds this")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.quietEvery < 1 {
		return o, errors.New("wrong arguments, see -help")
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1<<32) //nolint:gosec // repeatable by its seed
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	if o.mutations {
		return mutate(ctx, o, out, progress)
	}
	return crash(ctx, o, out, progress)
}

// crash plays all rounds and prints the table. After a violation logs and database are kept.
func crash(ctx context.Context, o options, out, progress io.Writer) error {
	fmt.Fprintf(progress, "seed %d\n", o.seed)
	h, err := newHarness(ctx, o, progress)
	if err != nil {
		return err
	}
	ended := h.run(ctx)
	counted := h.count(ctx)
	h.figures.write(out, h)
	keep := o.keep && errors.Is(ended, errBroken)
	if keep {
		fmt.Fprintf(out, "kept: logs in %s, the database in %s (seed %d)\n", h.folder, h.postgres.Dir(), o.seed)
	}
	return errors.Join(ended, counted, h.close(keep))
}

// figures are the contents of the table at the end.
type figures struct {
	rounds, crashes, looks int
	recoveries             []time.Duration
	violations             []violation
	// As the database has them at the end.
	chats, turns, again, folds, rebuilds, clears int
	extractions, memories, superseded, edited    int
}

// count reads the figures that the database has.
func (h *harness) count(ctx context.Context) error {
	return h.connected(ctx, func(conn *pgx.Conn) error {
		f := &h.figures
		err := conn.QueryRow(ctx, `
			select count(*) filter (where e.result <> 'skipped'), (select count(*) from public.memories),
			       (select count(*) from public.memories y where y.status = 'superseded'), (select count(*) from public.memories y where y.edited)
			  from public.memory_extractions e`).Scan(&f.extractions, &f.memories, &f.superseded, &f.edited)
		if err != nil {
			return err
		}
		return conn.QueryRow(ctx, `
			select (select count(*) from public.chats), (select count(*) from public.messages where role = 'user'),
			       (select count(*) from public.messages where superseded_by is not null),
			       count(*) filter (where kind = 'fold'), count(*) filter (where kind = 'rebuild'), count(*) filter (where kind = 'clear')
			  from public.conversation_brief_revisions`).Scan(&f.chats, &f.turns, &f.again, &f.folds, &f.rebuilds, &f.clears)
	})
}

func (f *figures) write(out io.Writer, h *harness) {
	ended, acknowledged, deleted := h.record.now().tally()
	for _, row := range []struct {
		name  string
		value any
	}{
		{"rounds", f.rounds},
		{"processes killed", h.crew.kills},
		{"crashes of Postgres", f.crashes},
		{"messages acknowledged", acknowledged},
		{"replies heard to their end", ended[streaming.EventCompleted]},
		{"replies stopped by their user", ended[streaming.EventCancelled]},
		{"replies heard to break off", ended[streaming.EventFailed]},
		{"replies written again", f.again},
		{"messages deleted", deleted},
		{"chats", f.chats},
		{"turns stored", f.turns},
		{"folds", f.folds},
		{"briefs rebuilt", f.rebuilds},
		{"contexts cleared", f.clears},
		{"extractions", f.extractions},
		{"memories", f.memories},
		{"memories superseded", f.superseded},
		{"memories edited by their user", f.edited},
		{"times everything was checked", f.looks},
		{"recovery, median", seconds(f.recoveries, 0.5)},
		{"recovery, longest", seconds(f.recoveries, 1)},
		{"violations", len(f.violations)},
	} {
		fmt.Fprintf(out, "%-30s %10v\n", row.name, row.value)
	}
	for _, v := range f.violations {
		fmt.Fprintf(out, "violation: %s: %s\n", v.name, v.sentence)
		for _, row := range v.rows {
			fmt.Fprintf(out, "  %s\n", row)
		}
	}
}

// seconds formats the duration below which that share of the durations lies.
func seconds(durations []time.Duration, share float64) string {
	if len(durations) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", kit.Percentile(durations, share).Seconds())
}
