// Command quality measures what memory is worth, and proves what is promised of it:
//
//	go run ./internal/proof/quality                      everything, about ten minutes
//	go run ./internal/proof/quality -quick               in small, for CI
//	go run ./internal/proof/quality -only junk,recall    only these
//	go run ./internal/proof/quality -only recall -locomo locomo10.json
//	go run ./internal/proof/quality -only recall,topics -longmemeval file.json
//
// recall and topics are tables of what is found of dialogs (package dialogs). The others are suites about long-term
// memories, with the built program on a private Postgres: they talk over HTTP and look at the tables. Their model is a
// stand-in on loopback whose answers are canned: it proposes what a bad model would, so that what is stored shows what the
// program lets in. Each suite prints its figures beside their targets, and a missed target fails the run. docs/recall.md,
// docs/topics.md and docs/memories.md explain the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/quality/dialogs"
)

type options struct {
	quick  bool
	only   string
	seed   uint64
	source string // the module's folder
	doc    bool
	log    string // the program's log goes into this file
	dialogs.Options
}

func main() { kit.Main("quality", run) }

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("quality", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.quick, "quick", false, "small sizes and no vectors, for CI")
	flags.StringVar(&o.only, "only", "", "run only these, comma-separated: "+strings.Join(names(), ", "))
	flags.Uint64Var(&o.seed, "seed", 0, "what chance goes by; 0 takes any")
	flags.StringVar(&o.source, "source", ".", "the module's folder")
	flags.BoolVar(&o.doc, "doc", false, "put the tables into their pages in docs")
	flags.StringVar(&o.LoCoMo, "locomo", "", "a file of LoCoMo, for recall")
	flags.StringVar(&o.LongMemEval, "longmemeval", "", "a file of LongMemEval, for recall and topics")
	flags.StringVar(&o.log, "log", "", "write the program's log into this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, errors.New("wrong arguments, see -help")
	}
	o.Quick = o.quick
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1<<32) //nolint:gosec // repeatable by its seed
	}
	return o, nil
}

// suite proves one promise. size is how much of it is played: the first number with -quick, the second without.
type suite struct {
	name  string
	title string
	sizes [2]int
	run   func(ctx context.Context, s *system, size int) ([]figure, error)
	// env changes the program's environment; a suite with one has a program of its own.
	env map[string]string
}

var suites = []suite{
	{name: "junk", title: "junk that a model proposes to keep", sizes: [2]int{120, 1200}, run: replayJunk},
	{name: "changes", title: "what changes", sizes: [2]int{10, 200}, run: followChanges},
	{name: "races", title: "two workers, two chats of one user, the same facts", sizes: [2]int{8, 250}, run: raceWorkers},
	{name: "injection", title: "texts that want to be remembered as orders, or to leave their section", sizes: [2]int{60, 60}, run: attackWithWords},
	{name: "languages", title: "facts in the user's language", sizes: [2]int{12, 12}, run: speakLanguages},
	{name: "late", title: "an extraction that runs 40 days late", sizes: [2]int{12, 60}, run: runLate},
	{name: "erasure", title: "what is deleted while a job is at work", sizes: [2]int{3, 100}, run: eraseWhileWorking},
	{name: "smalltalk", title: "small talk", sizes: [2]int{40, 500}, run: talkSmall},
	{name: "cost", title: "what it costs", sizes: [2]int{24, 120}, run: countCost},
	{name: "off", title: "LONG_TERM_MEMORY=false", sizes: [2]int{12, 24}, run: leaveItOff, env: map[string]string{"LONG_TERM_MEMORY": "false"}},
}

// tables are measured of dialogs. Each stands in a page of docs.
var tables = []struct {
	name, page string
	measure    func(context.Context, dialogs.Options, string, io.Writer) (dialogs.Result, error)
}{
	{"recall", "docs/recall.md", dialogs.Recall},
	{"topics", "docs/topics.md", dialogs.Topics},
}

// memoriesPage has the table of the suites.
const memoriesPage = "docs/memories.md"

func names() []string {
	var all []string
	for _, t := range tables {
		all = append(all, t.name)
	}
	for _, s := range suites {
		all = append(all, s.name)
	}
	return all
}

// isChosen reports whether a name is among those that are to run.
func (o options) isChosen(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

// suiteTimeout bounds one suite.
const suiteTimeout = 20 * time.Minute

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(o.only, ",") {
		if o.only != "" && !slices.Contains(names(), name) {
			return fmt.Errorf("there is no suite %q, only: %s", name, strings.Join(names(), ", "))
		}
	}
	return errors.Join(o.measureTables(ctx, out, progress), o.playSuites(ctx, out, progress))
}

// measureTables prints the tables that are chosen, and puts them into their pages. Topics need vectors.
func (o options) measureTables(ctx context.Context, out, progress io.Writer) error {
	for _, t := range tables {
		if !o.isChosen(t.name) || o.quick && t.name == "topics" {
			continue
		}
		result, err := t.measure(ctx, o.Options, o.source, progress)
		if err == nil {
			_, err = io.WriteString(out, result.Text)
		}
		if err == nil && o.doc {
			err = errors.Join(kit.ReplaceInDocument(filepath.Join(o.source, t.page), t.name, result.Text), figures.Write(o.source, result.Figures))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// playSuites plays the suites that are chosen, and returns an error for targets that were missed.
func (o options) playSuites(ctx context.Context, out, progress io.Writer) (err error) {
	chosen := slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return !o.isChosen(s.name) })
	if len(chosen) == 0 {
		return nil
	}
	fmt.Fprintf(progress, "seed %d\n", o.seed)
	s, err := newSystem(ctx, o, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var r report
	if r.host, err = kit.Describe(ctx, s.admin); err != nil {
		return err
	}
	r.host = append(r.host, s.vectors)
	for _, one := range chosen {
		if err := s.play(ctx, one, &r); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", one.name, err), r.write(out, ""))
		}
	}
	page := ""
	if o.doc {
		page = filepath.Join(o.source, memoriesPage)
	}
	return errors.Join(r.write(out, page), r.missed())
}

// play runs a suite against a program with its environment.
func (s *system) play(ctx context.Context, one suite, r *report) error {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	if err := s.start(ctx, one.env); err != nil {
		return err
	}
	size := one.sizes[1]
	if s.quick {
		size = one.sizes[0]
	}
	began := time.Now()
	figures, err := one.run(ctx, s, size)
	if err == nil {
		err = s.model.irregular()
	}
	took := time.Since(began)
	fmt.Fprintf(s.progress, "%s: %.1f s\n", one.name, took.Seconds())
	r.add(one, figures, took)
	return errors.Join(err, s.stop())
}
