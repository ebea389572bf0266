// Command quality measures what memory is worth, and proves what is promised of it:
//
//	go run ./internal/proof/quality                      everything, about ten minutes
//	go run ./internal/proof/quality -quick               in small, for CI
//	go run ./internal/proof/quality -only junk,recall    only these
//	go run ./internal/proof/quality -only recall -locomo locomo10.json
//	go run ./internal/proof/quality -only recall,topics -longmemeval file.json
//
// recall and topics are tables of what is found of dialogs (package dialogs). The others are suites about long-term
// memories, with the built program on a private Postgres: people talk over HTTP, and checks look at the tables. The model's
// answers are canned: it proposes what a bad model would, so that what is stored shows what the program lets in. Each suite
// prints its figures beside their targets, and a missed target fails the run. docs/recall.md, docs/topics.md and
// docs/memories.md explain the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/internal/proof/quality/dialogs"
)

type options struct {
	only   string
	source string // the module's folder
	doc    bool
	logs   string // folder of the program's logs
	dialogs.Options
}

func main() { kit.Main("quality", run) }

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("quality", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.Quick, "quick", false, "small sizes and no vectors, for CI")
	flags.StringVar(&o.only, "only", "", "run only these, comma-separated: "+strings.Join(names(), ", "))
	flags.StringVar(&o.source, "source", ".", "the module's folder")
	flags.BoolVar(&o.doc, "doc", false, "put the tables into their pages in docs")
	flags.StringVar(&o.LoCoMo, "locomo", "", "a file of LoCoMo, for recall")
	flags.StringVar(&o.LongMemEval, "longmemeval", "", "a file of LongMemEval, for recall and topics")
	flags.StringVar(&o.logs, "logs", "", "keep the program's logs in this folder")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, errors.New("wrong arguments, see -help")
	}
	for name := range strings.SplitSeq(o.only, ",") {
		if o.only != "" && !slices.Contains(names(), name) {
			return o, fmt.Errorf("there is no suite %q, only: %s", name, strings.Join(names(), ", "))
		}
	}
	return o, nil
}

// suite proves one promise. size is how much of it is played: the first number with -quick, the second without.
type suite struct {
	name  string
	sizes [2]int
	run   func(s *scene, size int) []figure
	env   map[string]string // changes the program's environment
}

var suites = []suite{
	{name: "junk", sizes: [2]int{120, 1200}, run: replayJunk},
	{name: "changes", sizes: [2]int{10, 200}, run: followChanges},
	{name: "races", sizes: [2]int{8, 250}, run: raceWorkers},
	{name: "injection", sizes: [2]int{60, 60}, run: attackWithWords},
	{name: "languages", sizes: [2]int{12, 12}, run: speakLanguages},
	{name: "late", sizes: [2]int{12, 60}, run: runLate},
	{name: "erasure", sizes: [2]int{3, 100}, run: eraseWhileWorking},
	{name: "smalltalk", sizes: [2]int{40, 500}, run: talkSmall},
	{name: "cost", sizes: [2]int{24, 120}, run: countCost},
	{name: "off", sizes: [2]int{12, 24}, run: leaveItOff, env: map[string]string{"LONG_TERM_MEMORY": "false"}},
}

// tables are measured of dialogs. Each stands in a page of docs.
var tables = []struct {
	name    string
	measure func(context.Context, dialogs.Options, string, io.Writer) (dialogs.Result, error)
}{
	{"recall", dialogs.Recall},
	{"topics", dialogs.Topics},
}

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

// page is the document that has a table.
func (o options) page(name string) string { return filepath.Join(o.source, "docs", name+".md") }

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	return errors.Join(o.measureTables(ctx, out, progress), o.playSuites(ctx, out, progress))
}

// measureTables prints the tables that are chosen, and puts them into their pages. Topics need vectors.
func (o options) measureTables(ctx context.Context, out, progress io.Writer) error {
	for _, t := range tables {
		if !o.isChosen(t.name) || o.Quick && t.name == "topics" {
			continue
		}
		result, err := t.measure(ctx, o.Options, o.source, progress)
		if err == nil {
			_, err = io.WriteString(out, result.Text)
		}
		if err == nil && o.doc {
			err = errors.Join(figures.Replace(o.page(t.name), t.name, result.Text), figures.Write(o.source, result.Figures))
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
	s := &scene{player: &player{}}
	s.play(canned{})
	if err := s.open(ctx, o, progress); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(false)) }()
	var r report
	if r.host, err = kit.Describe(ctx, s.Admin); err != nil {
		return err
	}
	r.host = append(r.host, map[bool]string{true: "vectors of " + embedder.Model, false: "no vectors, words alone"}[s.vectors])
	for _, one := range chosen {
		began := time.Now()
		found, err := s.stage(ctx, one, o.Quick)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", one.name, err), r.write(out, ""))
		}
		r.suites = append(r.suites, played{one, found, time.Since(began)})
		fmt.Fprintf(progress, "%s: %.1f s\n", one.name, time.Since(began).Seconds())
	}
	page := ""
	if o.doc {
		page = o.page("memories")
	}
	return errors.Join(r.write(out, page), r.missed())
}

// open starts the system but for the program. Extractions run when they are asked for. There are vectors where the keyless
// embedder is installed, unless the run is a quick one.
func (s *scene) open(ctx context.Context, o options, progress io.Writer) (err error) {
	plan := people.Plan{
		Source: o.source, Logs: o.logs, Commands: []string{"serve", "work"}, Script: s.answer, NoVector: o.Quick,
		Postgres: map[string]string{"shared_buffers": "128MB", "max_connections": "200", "fsync": "off"},
		Settings: map[string]string{
			"TOPICS": "off", "RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0", "RECALL_DEADLINE": "3s",
			"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "1h",
		},
	}
	s.System, err = people.Start(ctx, plan, progress)
	if errors.Is(err, embedder.ErrNotInstalled) {
		fmt.Fprintln(progress, "without vectors: the keyless embedder is not installed, see scripts/setup")
		plan.NoVector = true
		s.System, err = people.Start(ctx, plan, progress)
	}
	s.vectors = !plan.NoVector
	return err
}

// stage plays a suite against a program with its environment.
func (s *scene) stage(ctx context.Context, one suite, quick bool) (found []figure, err error) {
	const most = 20 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	s.ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	usual := maps.Clone(s.Settings)
	maps.Copy(s.Settings, one.env)
	defer func() { s.Settings = usual }()
	defer func() { err = errors.Join(err, s.Stop()) }()
	if err := s.Run(ctx); err != nil {
		return nil, err
	}
	size := one.sizes[1]
	if quick {
		size = one.sizes[0]
	}
	found = one.run(s, size)
	return found, errors.Join(context.Cause(s.ctx), s.Model.Irregular())
}
