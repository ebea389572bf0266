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

// parse returns the run that the arguments ask for.
func parse(args []string, usage io.Writer) (plan, error) {
	p := plan{habits: ordinary, talk: ordinaryTalk(), settle: 3 * time.Minute, look: time.Second}
	p.Source, p.Idle = ".", 30*time.Second
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.DurationVar(&p.duration, "duration", time.Hour, "how long people talk, after a warm-up")
	flags.IntVar(&p.chats, "chats", defaultChats, "how many people talk at once")
	flags.StringVar(&p.Logs, "out", filepath.Join(".local", "load"), "folder for samples, summary and logs")
	flags.BoolVar(&p.doc, "doc", false, "write the tables into docs/load.md and the figures wherever a document names them")
	if err := flags.Parse(args); err != nil {
		return p, err
	}
	switch {
	case flags.NArg() > 0:
		return p, fmt.Errorf("unexpected argument %q, see -help", flags.Arg(0))
	case p.duration < time.Second:
		return p, fmt.Errorf("-duration %s is less than a second", p.duration)
	case p.chats < 1:
		return p, fmt.Errorf("-chats %d is nobody", p.chats)
	}
	p.warmUp, p.every = min(p.duration/5, 30*time.Second), max(p.duration/300, time.Second)
	return p, nil
}

// errFailed is a load with a failed check.
var errFailed = errors.New("the load failed its checks")

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	defer kit.Catch(&err)
	p := kit.Must(parse(args, progress))
	kit.Check(os.MkdirAll(p.Logs, 0o750))
	return kit.Must(execute(ctx, p, progress)).deliver(".", out)
}

// deliver prints the summary, writes it and all samples into the folder and, where asked, the documents of the repository
// in root. It returns errFailed when a check failed.
func (r report) deliver(root string, out io.Writer) error {
	results, err := json.MarshalIndent(map[string]any{"idle_before": r.baseline, "samples": r.samples, "idle_after": r.after}, "", " ")
	summary := r.markdown()
	fmt.Fprintln(out, figures.Plain(summary))
	err = errors.Join(err, os.WriteFile(filepath.Join(r.Logs, "load.json"), results, 0o600),
		os.WriteFile(filepath.Join(r.Logs, "summary.txt"), []byte(figures.Plain(summary)), 0o600))
	switch {
	case err != nil:
		return err
	case r.failed():
		return errFailed
	case r.doc:
		return figures.Publish(root, filepath.Join("docs", "load.md"), "load", summary)
	}
	return nil
}
