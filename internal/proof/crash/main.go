// Command crash kills the built program while people talk through it, and checks the database against what they received:
//
//	go run ./internal/proof/crash                  20 rounds, about three minutes
//	go run ./internal/proof/crash -rounds 500      as many as there is time for
//	go run ./internal/proof/crash -seed 7          the same choices again; their timing is up to the machine
//	go run ./internal/proof/crash -mutations       breaks the program on purpose, and reports whether it is noticed
//	go run ./internal/proof/crash -failover        instead kills the primary, and promotes its standby (failover.go)
//	go run ./internal/proof/crash -doc             and writes the figures into README.md and docs, with -mutations theirs
//
// Two servers and two workers run as processes on a private Postgres, durable as in production. In every round there is an
// attack (attack.go) and some of them are killed with SIGKILL, in every tenth Postgres ends as `pg_ctl stop -m immediate` ends it. What
// must be true of the database is in internal/proof/people/checks.sql; docs/results/crash.md has the rest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

type options struct {
	rounds     int
	crashEvery int
	quietEvery int
	within     time.Duration // the promise: from the restart until nothing is left of the crash
	seed       uint64
	source     string // the module's folder
	build      []string
	mutations  bool
	only       string
	doc        bool
	failover   bool // the primary dies, and a standby follows it
	async      bool // which does not have all
}

func main() { kit.Main("crash", run) }

func parse(args []string, usage io.Writer) (options, error) {
	o := options{crashEvery: crashEvery}
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&o.rounds, "rounds", 20, "how often to kill")
	flags.IntVar(&o.quietEvery, "quiet-every", 10, "after how many rounds to wait for quiet")
	flags.DurationVar(&o.within, "within", time.Minute, "how long a recovery may take")
	flags.Uint64Var(&o.seed, "seed", 0, "what chance goes by; 0 takes any")
	flags.StringVar(&o.source, "source", ".", "the module's folder")
	flags.BoolVar(&o.mutations, "mutations", false, "run against each patch in internal/proof/crash/mutations")
	flags.StringVar(&o.only, "only", "", "of the mutations, only those whose name holds this")
	flags.BoolVar(&o.doc, "doc", false, "write the tables into docs/results/crash.md and the figures wherever a document names them")
	flags.BoolVar(&o.failover, "failover", false, "instead: kill the primary and promote its standby, in every round")
	flags.BoolVar(&o.async, "async", false, "with -failover, and a standby that has not received everything")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.quietEvery < 1 || o.doc && o.only != "" {
		return o, errors.New("wrong arguments, see -help")
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1<<32) //nolint:gosec // repeatable by its seed
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	defer kit.Catch(&err)
	o := kit.Must(parse(args, progress))
	if o.mutations {
		return mutate(ctx, o, out, progress)
	}
	return crash(ctx, o, out, progress)
}

// crash plays all rounds and prints the table. After a violation logs and database are kept.
func crash(ctx context.Context, o options, out, progress io.Writer) error {
	fmt.Fprintf(progress, "seed %d\n", o.seed)
	h := kit.Must(newHarness(ctx, o, progress))
	ended := h.run(ctx)
	rows, counted := h.rows(ctx)
	for _, r := range rows {
		fmt.Fprintf(out, "%-30s %10s\n", r.name, figures.Plain(r.value))
	}
	for _, v := range h.violations {
		fmt.Fprintf(out, "violation: %s: %s\n", v.Name, v.Sentence)
		for _, row := range v.Rows {
			fmt.Fprintf(out, "  %s\n", row)
		}
	}
	keep := errors.Is(ended, errBroken)
	if keep {
		fmt.Fprintf(out, "kept: logs in %s, the database in %s (seed %d)\n", h.system.Logs(), h.system.Postgres.Dir(), o.seed)
	}
	err := errors.Join(ended, counted, h.failing.close(), h.system.Close(keep))
	if o.doc && err == nil {
		block := "crash"
		if o.failover {
			block = "failover"
		}
		var table strings.Builder
		fmt.Fprintf(&table, "`make %s ROUNDS=%d`:\n\n| | |\n|---|--:|\n", block, o.rounds)
		for _, r := range rows {
			fmt.Fprintf(&table, "| %s | %s |\n", r.name, r.value)
		}
		err = figures.Publish(o.source, page, block, table.String())
	}
	return err
}

const page = "docs/results/crash.md"

type row struct{ name, value string }

// rows are what happened, as the record and the database have it at the end.
func (h *harness) rows(ctx context.Context) (rows []row, err error) {
	defer kit.Catch(&err)
	if h.failing != nil {
		return h.failing.rows(h), nil
	}
	t := h.record.Tally()
	figure := func(name, figure string, n int) row { return row{name, figures.Mark(figure, strconv.Itoa(n))} }
	number := func(name string, n int) row { return figure(name, "", n) }
	recovery := func(name, figure string, share float64) row {
		return row{name, figures.Mark(figure, fmt.Sprintf("%.1f", kit.Percentile(h.recoveries, share).Seconds())) + " s"}
	}
	rows = []row{
		figure("rounds", "crash_rounds", h.played),
		figure("processes killed", "crash_killed", h.system.Kills),
		figure("crashes of Postgres", "crash_postgres", h.crashes),
		figure("messages acknowledged", "crash_messages", t.Acknowledged),
		number("replies heard to their end", t.Completed),
		number("replies stopped by their user", t.Cancelled),
		number("replies heard to break off", t.Failed),
		number("messages deleted", t.Deleted),
		number("messages edited", t.Edited),
		number("replies asked for again", t.Regenerated),
		number("versions selected", t.Selected),
	}
	ran, keys, most := h.system.Tools.Ran()
	rows = append(rows, number("calls that a tool ran for", keys), number("requests for them", ran), number("most requests of one call", most))
	for _, attack := range attacks {
		rows = append(rows, number(attack.name, h.struck[attack.name]))
	}
	for _, stored := range []struct{ name, figure, rows string }{
		{"messages off the path", "", "messages where superseded_by is not null"},
		{"chats", "", "chats"},
		{"turns stored", "", "messages where role = 'user'"},
		{"briefs taken back", "", "conversation_brief_revisions where kind = 'rollback'"},
		{"contexts cleared", "", "conversation_brief_revisions where kind = 'clear'"},
		{"extractions", "", "memory_extractions where result <> 'skipped'"},
		{"memories", "", "memories"},
		{"memories superseded", "", "memories where status = 'superseded'"},
		{"memories edited by their user", "", "memories where edited"},
		{"folds", "crash_folds", "conversation_brief_revisions where kind = 'fold'"},
	} {
		var n int
		kit.Check(h.system.Admin.QueryRow(ctx, "select count(*) from public."+stored.rows).Scan(&n))
		rows = append(rows, figure(stored.name, stored.figure, n))
	}
	return append(rows,
		number("times everything was checked", h.looks),
		recovery("recovery, median", "crash_recovery_p50", .5),
		recovery("recovery, longest", "crash_recovery_max", 1),
		figure("violations", "crash_violations", len(h.violations)),
	), nil
}
