// Command load lets many people talk for a long time, through two servers and two workers, to look for what a
// short test does not see: leaks, rows left behind, queues that grow, an index that bloats.
//
//	go run ./internal/proof/load                   for an hour
//	go run ./internal/proof/load -duration 5m      as CI does when it is asked to
//	go run ./internal/proof/load -doc              and writes the figures into README.md and docs
//
// The program is the real one with the settings that a user gets, each process its own, on a durable Postgres; only the
// model is a stand-in, and the keyless embedder is in the place of OpenAI's. What is measured and what fails a run is in
// docs/load.md. No time is asserted.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

func main() { kit.Main("load", run) }

// defaultChats keeps two cores busy without making users wait; see docs/load.md.
const defaultChats = 250

type options struct {
	duration time.Duration
	chats    int
	out      string
	doc      bool
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.DurationVar(&o.duration, "duration", time.Hour, "how long people talk, after a warm-up")
	flags.IntVar(&o.chats, "chats", defaultChats, "how many people talk at once")
	flags.StringVar(&o.out, "out", filepath.Join(".local", "load"), "folder for samples, summary and logs")
	flags.BoolVar(&o.doc, "doc", false, "write the tables into docs/load.md and the figures wherever a document names them")
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
	}
	return o, nil
}

// plan returns the run that the options ask for.
func (o options) plan() plan {
	return plan{
		source: ".", out: o.out, duration: o.duration, chats: o.chats, habits: ordinary, talk: ordinaryTalk(),
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
	return deliver(r, o, ".", out)
}

// deliver prints the summary, writes it and all samples into the folder and, where asked, the documents of the repository
// in root. It returns errFailed when a check failed.
func deliver(r report, o options, root string, out io.Writer) error {
	var summary bytes.Buffer
	r.print(&summary)
	results, err := json.MarshalIndent(map[string]any{
		"machine": r.machine, "tables": r.tables(), "checks": r.checks, "idle_before": r.baseline, "samples": r.samples, "idle_after": r.after,
	}, "", " ")
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"load.json": results, "summary.txt": summary.Bytes()} {
		if err := os.WriteFile(filepath.Join(o.out, name), content, 0o600); err != nil {
			return err
		}
	}
	if _, err := out.Write(summary.Bytes()); err != nil {
		return err
	}
	if r.failed() {
		return errFailed
	}
	if o.doc {
		return figures.Publish(root, filepath.Join("docs", "load.md"), "load", r.markdown())
	}
	return nil
}
