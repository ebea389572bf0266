// Command crash kills the built program while people talk through it, and holds the database to what they were told:
//
//	go run ./internal/proof/crash                  20 rounds, about a minute and a half
//	go run ./internal/proof/crash -rounds 500      as many as there is time for
//	go run ./internal/proof/crash -seed 7          the same chances again; what they meet is up to the machine
//	go run ./internal/proof/crash -mutations       breaks the program on purpose, and tells whether it is noticed
//
// Two servers and two workers run as processes on a private Postgres, durable as in production. In every round some
// of them are killed with SIGKILL, in every tenth Postgres ends as `pg_ctl stop -m immediate` ends it. What must be
// true of the database is in checks.sql; docs/crash.md tells the rest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
)

type options struct {
	rounds     int
	quietEvery int
	seed       uint64
	source     string // the module's folder
	race       bool
	keep       bool // logs and database after a violation
	mutations  bool
	only       string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&o.rounds, "rounds", 20, "how often to kill")
	flags.IntVar(&o.quietEvery, "quiet-every", 10, "after how many rounds to wait for quiet")
	flags.Uint64Var(&o.seed, "seed", 0, "what chance goes by; 0 takes any")
	flags.StringVar(&o.source, "source", ".", "the module's folder")
	flags.BoolVar(&o.race, "race", false, "build the program with the race detector")
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
		o.seed = 1 + rand.Uint64N(1<<32) //nolint:gosec // chance that can be had again
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
