// Command load lets many people talk for a long time, through two replicas and two workers, to look for what a
// short test does not see: leaks, rows left behind, queues that grow, an index that bloats.
//
//	go run ./internal/proof/load                                   for an hour
//	go run ./internal/proof/load -duration 5m                      as CI does when it is asked to
//	go run ./internal/proof/load -duration 5m -doc docs/load.md    and rewrite the document's figures and charts
//
// The program is the real one, each process its own, on a durable Postgres; only the model is a stand-in. What is
// measured and what fails a run is in docs/load.md. No time is asserted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == roleModel {
		if err := runModel(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "load: the model:", err)
			os.Exit(1)
		}
		return
	}
	kit.Main("load", run)
}

// defaultChats keeps two cores busy without making users wait; see docs/load.md.
const defaultChats = 600

type options struct {
	duration time.Duration
	chats    int
	out, doc string
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.DurationVar(&o.duration, "duration", time.Hour, "how long people talk, after a warm-up")
	flags.IntVar(&o.chats, "chats", defaultChats, "how many people talk at once")
	flags.StringVar(&o.out, "out", filepath.Join(".local", "load"), "folder for samples, charts, summary and logs")
	flags.StringVar(&o.doc, "doc", "", "a document whose figures, and charts beside it, are rewritten")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q, see -help", flags.Arg(0))
	case o.duration < time.Second:
		return o, fmt.Errorf("-duration %s is less than a second", o.duration)
	case o.chats < 1:
		return o, fmt.Errorf("-chats %d is nobody", o.chats)
	case o.doc != "":
		return o, kit.CheckDocument(o.doc, docMarker)
	}
	return o, nil
}

// plan returns the run that the options ask for.
func (o options) plan() plan {
	return plan{
		source: ".", out: o.out, duration: o.duration, chats: o.chats, habits: ordinary,
		warmUp: min(o.duration/5, 30*time.Second), every: max(o.duration/300, time.Second),
		settle: 2 * time.Minute, look: time.Second, idle: 30 * time.Second,
	}
}

// errFailed is a load with a failed check.
var errFailed = errors.New("the load failed its checks")

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	r, err := execute(ctx, o.plan(), progress)
	if err != nil {
		return err
	}
	return deliver(r, o, out)
}
