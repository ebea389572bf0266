// Command scale measures and computes what lies beyond one machine, and prints three tables:
//
//	go run ./internal/proof/scale                         all of it, about three minutes
//	go run ./internal/proof/scale -rows 1000000           the first table with a million messages
//	go run ./internal/proof/scale -only capacity -pg-ms 6.1 -wal-kb 15
//	go run ./internal/proof/scale -quick                  tiny sizes: that it runs, not what it measures
//
// layouts measures, on a private Postgres that is durable as in production, the table of messages as the
// migrations make it beside the same table in partitions, with the server's own statements, policies and
// triggers. shards spreads users over several databases and counts what moves when there is one more. capacity
// computes from what a turn costs how many of them a Postgres carries, and how long they wait for it. What the
// figures mean is in docs/scale.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

var parts = []string{"layouts", "shards", "capacity"}

type options struct {
	only    []string
	layouts []layout
	size    size
	inputs  *inputs
}

func main() { kit.Main("scale", run) }

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	for _, part := range o.only {
		switch part {
		case "layouts":
			err = runLayouts(ctx, o, out, progress)
		case "shards":
			err = write(out, shardsTables(o.size.users)...)
		case "capacity":
			err = write(out, capacityTables(o.inputs)...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

func parse(args []string, usage io.Writer) (options, error) {
	o := options{size: full}
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(usage)
	only := flags.String("only", strings.Join(parts, ","), "run only these, comma-separated")
	names := flags.String("layouts", "plain,hash16,hash64,months", "what messages are kept in: plain, hash<number of partitions>, months")
	rows := flags.Int("rows", full.rows, "messages in the table")
	quick := flags.Bool("quick", false, "tiny sizes, for CI")
	o.inputs = newInputs(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *quick {
		o.size = tiny
	} else {
		o.size.rows = *rows
	}
	if flags.NArg() > 0 || o.size.rows < tiny.rows {
		return o, fmt.Errorf("wrong arguments, or fewer than %d rows: see -help", tiny.rows)
	}
	for part := range strings.SplitSeq(*only, ",") {
		if !slices.Contains(parts, part) {
			return o, fmt.Errorf("there is no part %q, only: %s", part, strings.Join(parts, ", "))
		}
		o.only = append(o.only, part)
	}
	for name := range strings.SplitSeq(*names, ",") {
		l, err := layoutNamed(name)
		if err != nil {
			return o, err
		}
		o.layouts = append(o.layouts, l)
	}
	return o, o.inputs.check()
}

// runLayouts fills and measures one layout after the other, each in a database of its own.
func runLayouts(ctx context.Context, o options, out, progress io.Writer) (err error) {
	p, err := startPostgres(ctx, o.size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Destroy()) }()
	t := table{title: fmt.Sprintf("layouts: %d messages, and what a turn costs in each", o.size.rows)}
	for _, l := range o.layouts {
		fmt.Fprintf(progress, "%s: filling\n", l.name)
		figures, err := measureLayout(ctx, p, l, o.size, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		t.addColumn(l.name, figures)
	}
	t.notes = append(t.notes, layoutNotes...)
	return write(out, t)
}
