// Command scale measures what lies beyond one machine, and prints two tables:
//
//	go run ./internal/proof/scale                         both, about three minutes
//	go run ./internal/proof/scale -rows 1000000           the first table with a million messages
//	go run ./internal/proof/scale -only shards            the second table
//	go run ./internal/proof/scale -quick                  tiny sizes: that it runs, not what it measures
//
// layouts measures, on a private Postgres that is durable as in production, the table of messages as the
// migrations make it beside the same table in partitions, with the server's own statements, policies and
// triggers. shards spreads users over several databases and counts what moves when there is one more. What the
// figures mean is in docs/scale.md, with the computation of what one Postgres carries.
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

type options struct {
	only    []string
	layouts []layout
	size    size
}

func main() { kit.Main("scale", run) }

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	if slices.Contains(o.only, "layouts") {
		if err := runLayouts(ctx, o, out, progress); err != nil {
			return fmt.Errorf("layouts: %w", err)
		}
	}
	if slices.Contains(o.only, "shards") {
		return shardsTable(o.size.users).write(out)
	}
	return nil
}

func parse(args []string, usage io.Writer) (options, error) {
	o := options{size: full}
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(usage)
	only := flags.String("only", "layouts,shards", "run only these, comma-separated")
	names := flags.String("layouts", "plain,hash16,hash64,months", "what messages are kept in: plain, hash<number of partitions>, months")
	flags.IntVar(&o.size.rows, "rows", full.rows, "messages in the table")
	quick := flags.Bool("quick", false, "tiny sizes, for CI")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *quick {
		o.size = tiny
	}
	if flags.NArg() > 0 || o.size.rows < tiny.rows {
		return o, fmt.Errorf("wrong arguments, or fewer than %d rows: see -help", tiny.rows)
	}
	for part := range strings.SplitSeq(*only, ",") {
		if part != "layouts" && part != "shards" {
			return o, fmt.Errorf("there is no part %q, only layouts and shards", part)
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
	return o, nil
}

// runLayouts fills and measures one layout after the other, each in a database of its own. Autovacuum is off
// because the vacuum is one of the things measured.
func runLayouts(ctx context.Context, o options, out, progress io.Writer) (err error) {
	p, err := kit.StartPostgres(ctx, map[string]string{
		"shared_buffers": o.size.sharedBuffers, "max_wal_size": "8GB", "autovacuum": "off", "maintenance_work_mem": "256MB",
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Destroy()) }()
	t := table{title: fmt.Sprintf("layouts: %d messages, and what a turn costs in each", o.size.rows), notes: layoutNotes}
	for _, l := range o.layouts {
		fmt.Fprintf(progress, "%s: filling\n", l.name)
		err := withDatabase(ctx, p, l.name, func(d *database) error {
			figures, err := measureLayout(ctx, d, l, o.size, progress)
			t.addColumn(l.name, figures)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return t.write(out)
}
