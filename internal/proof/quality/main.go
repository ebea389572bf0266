// Command quality measures the worth of memory, and proves its promises:
//
//	go run ./internal/proof/quality                      everything, about ten minutes
//	go run ./internal/proof/quality -quick               in small, for CI
//	go run ./internal/proof/quality -only junk,recall    only these
//	go run ./internal/proof/quality -only recall -locomo locomo10.json
//	go run ./internal/proof/quality -only topics -locomo locomo10.json -longmemeval file.json
//
// recall and topics are tables of the turns found in dialogs (package dialogs). The others are suites about long-term
// memories, with the built program on a private Postgres: people talk over HTTP, and checks look at the tables. The model's
// answers are canned: it proposes what a bad model would, so that the rows show the memories that the program lets in. Each suite
// prints its figures beside their targets, and a missed target fails the run. With -doc the
// tables go to docs/results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
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
	dialogs.Options
}

func main() { kit.Main("quality", run) }

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("quality", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.Quick, "quick", false, "small sizes and no vectors, for CI")
	flags.StringVar(&o.only, "only", strings.Join(names(), ","), "run only these, comma-separated")
	flags.StringVar(&o.source, "source", ".", "the module's folder")
	flags.BoolVar(&o.doc, "doc", false, "put the tables into their pages in docs")
	flags.StringVar(&o.LoCoMo, "locomo", "", "a file of LoCoMo, for recall and topics")
	flags.StringVar(&o.LongMemEval, "longmemeval", "", "a file of LongMemEval, for recall and topics")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, errors.New("wrong arguments, see -help")
	}
	for name := range strings.SplitSeq(o.only, ",") {
		if !slices.Contains(names(), name) {
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
}

// withoutMemory is the suite that is played on a program without long-term memory.
const withoutMemory = "off"

var suites = []suite{
	{"junk", [2]int{120, 1200}, replayJunk},
	{"changes", [2]int{10, 200}, followChanges},
	{"races", [2]int{8, 250}, raceWorkers},
	{"injection", [2]int{60, 60}, attackWithWords},
	{"languages", [2]int{12, 12}, speakLanguages},
	{"late", [2]int{12, 60}, runLate},
	{"erasure", [2]int{3, 100}, eraseWhileWorking},
	{"cost", [2]int{24, 120}, countCost},
	{"everyday", [2]int{45, 45}, askEveryday},
	{"model", [2]int{10, 10}, judgeKeyless},
	{"smalltalk", [2]int{40, 500}, talkSmall},
	{"switches", [2]int{12, 200}, stopWhileWorking},
	{withoutMemory, [2]int{12, 24}, leaveItOff},
}

// tables are measured of dialogs. Each stands in a page of docs.
var tables = []struct {
	name    string
	measure func(context.Context, dialogs.Options, string, io.Writer) (string, error)
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

func (o options) isChosen(name string) bool { return slices.Contains(strings.Split(o.only, ","), name) }

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	return errors.Join(o.measureTables(ctx, out, progress), o.playSuites(ctx, out, progress))
}

func (o options) publish(name, table string, out io.Writer) error {
	_, err := io.WriteString(out, figures.Plain(table))
	if err == nil && o.doc {
		err = figures.Publish(o.source, "docs/results/"+name+".md", name, table)
	}
	return err
}

// measureTables measures the tables that are chosen. Topics need vectors.
func (o options) measureTables(ctx context.Context, out, progress io.Writer) (err error) {
	defer kit.Catch(&err)
	for _, t := range tables {
		if o.isChosen(t.name) && !(o.Quick && t.name == "topics") {
			kit.Check(o.publish(t.name, kit.Must(t.measure(ctx, o.Options, o.source, progress)), out))
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
	defer kit.Catch(&err)
	s := kit.Must(open(ctx, o, progress))
	defer func() { err = errors.Join(err, s.stopWatching(), s.Close(false)) }()
	host := kit.Must(kit.Describe(ctx, s.Admin))
	var r report
	began := time.Now()
	for _, one := range chosen {
		found, err := s.stage(ctx, one, o.Quick)
		r.add(one.name, found)
		if err != nil {
			fmt.Fprint(progress, r.rows)
			return errors.Join(fmt.Errorf("%s: %w", one.name, err), r.missed)
		}
		fmt.Fprintf(progress, "%s: after %.0f s\n", one.name, time.Since(began).Seconds())
	}
	host = append(host, map[bool]string{true: "vectors of " + embedder.Model, false: "no vectors, words alone"}[s.Embedder != nil])
	table := fmt.Sprintf("%s%s\n%s. %.0f s.\n", heads, r.rows, strings.Join(host, "; "), time.Since(began).Seconds())
	return errors.Join(o.publish("memories", table, out), r.missed)
}

// open starts the system but for the program. Extractions run when they are asked for. A quick run has no vectors.
func open(ctx context.Context, o options, progress io.Writer) (s *scene, err error) {
	s = &scene{stopWatching: func() error { return nil }}
	s.play(canned{})
	s.System, err = people.Start(ctx, people.Plan{
		Source: o.source, Commands: []string{"serve", "work"}, Script: s.answer, NoVector: o.Quick,
		Postgres: map[string]string{"shared_buffers": "128MB", "max_connections": "200", "fsync": "off"},
		Settings: map[string]string{
			"TOPICS": "off", "RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0", "RECALL_DEADLINE": "3s",
			"MEMORY_EXTRACT_DELAY": "1h",
		},
	}, progress)
	if err != nil || s.Embedder == nil {
		return s, err
	}
	if err = s.watchVectors(); err != nil {
		err = errors.Join(err, s.Close(false))
	}
	return s, err
}

func (s *scene) stage(ctx context.Context, one suite, quick bool) (found []figure, err error) {
	const most = 20 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	s.ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	s.Settings["LONG_TERM_MEMORY"] = strconv.FormatBool(one.name != withoutMemory)
	defer func() { err = errors.Join(err, s.Stop()) }()
	if err := s.Run(ctx); err != nil {
		return nil, err
	}
	size := one.sizes[1]
	if quick {
		size = one.sizes[0]
	}
	found = one.run(s, size)
	err = errors.Join(context.Cause(s.ctx), s.Model.Irregular())
	if err == nil && len(s.notes) > 0 {
		err = fmt.Errorf("noted for no figure: %v", s.notes)
	}
	return found, err
}

type figure struct {
	what, text string
	target     string // "" for what only informs
	known      string // what others were found to do
	missed     bool
	// detail are examples of what went wrong, without which a miss cannot be understood.
	detail []string
}

// note keeps an example for the figure with that name.
func (s *scene) note(what, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notes == nil {
		s.notes = map[string][]string{}
	}
	s.notes[what] = append(s.notes[what], fmt.Sprintf(format, args...))
}

// noted returns the examples of a figure, and forgets them.
func (s *scene) noted(what string) []string {
	defer delete(s.notes, what)
	return s.notes[what]
}

// all counts things of which none may be missing: missing ones were noted.
func (s *scene) all(what string, of int, known string) figure {
	missing := s.noted(what)
	return figure{what, fmt.Sprintf("%d of %d", of-len(missing), of), fmt.Sprint(of), known, len(missing) > 0, missing}
}

// atLeast is all where some may be missing: so many must not.
func (s *scene) atLeast(what string, of, least int) figure {
	missing := s.noted(what)
	got := of - len(missing)
	return figure{what, fmt.Sprintf("%d of %d", got, of), fmt.Sprintf("≥ %d", least), "", got < least, missing}
}

// none counts noted things that must not be.
func (s *scene) none(what, known string) figure {
	found := s.noted(what)
	return figure{what, kit.Number(float64(len(found))), "0", known, len(found) > 0, found}
}

// share is the share of noted things among a number of things, with an upper bound in percent; by "<" it may not be reached.
func (s *scene) share(what string, of int, sign string, most float64, known string) figure {
	found := s.noted(what)
	part := 100 * float64(len(found)) / float64(max(1, of))
	return figure{what, kit.Number(part) + " %", fmt.Sprintf("%s %v %%", sign, most), known, part > most || part == most && sign == "<", found}
}

func atMost(what string, value, most float64, known string) figure {
	return figure{what, kit.Number(value), "≤ " + kit.Number(most), known, value > most, nil}
}

func informs(what string, value float64) figure { return figure{what: what, text: kit.Number(value)} }

const heads = "| suite | figure | result | target | best known |\n|---|---|---|---|---|\n"

// report is the table of a run, and an error for each target that was missed.
type report struct {
	rows   string
	missed error
}

func (r *report) add(suite string, found []figure) {
	for _, f := range found {
		if f.missed {
			const most = 20
			examples := strings.Join(f.detail[:min(most, len(f.detail))], "\n  ")
			r.missed = errors.Join(r.missed, fmt.Errorf("%s: %s is %s, not %s\n  %s", suite, f.what, f.text, f.target, examples))
			f.text += " **missed**"
		}
		r.rows += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", suite, f.what, f.text, f.target, f.known)
	}
}
