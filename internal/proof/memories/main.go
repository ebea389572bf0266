// Command memories proves what is promised of long-term memories, with the built program on a private Postgres:
//
//	go run ./internal/proof/memories                      everything, about ten minutes
//	go run ./internal/proof/memories -quick               in small, for CI
//	go run ./internal/proof/memories -only junk,erasure   only these suites
//
// It talks over HTTP and looks at the tables. The model is a stand-in on loopback whose answers are canned: it proposes
// what a bad model would, so that what is stored shows what the program lets in. Each suite prints its figures beside
// their targets, and a missed target fails the run. docs/memories.md explains the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

type options struct {
	quick  bool
	only   string
	seed   uint64
	source string // the module's folder
	doc    string
	log    string // the program's log goes into this file
}

func main() { kit.Main("memories", run) }

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("memories", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.quick, "quick", false, "small sizes and no vectors, for CI")
	flags.StringVar(&o.only, "only", "", "run only these, comma-separated: "+strings.Join(names(), ", "))
	flags.Uint64Var(&o.seed, "seed", 0, "what chance goes by; 0 takes any")
	flags.StringVar(&o.source, "source", ".", "the module's folder")
	flags.StringVar(&o.doc, "doc", "", "put the table into this document, between its lines memories:begin and memories:end")
	flags.StringVar(&o.log, "log", "", "write the program's log into this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, errors.New("wrong arguments, see -help")
	}
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

func names() []string {
	var all []string
	for _, s := range suites {
		all = append(all, s.name)
	}
	return all
}

func choose(only string) ([]suite, error) {
	if only == "" {
		return suites, nil
	}
	var chosen []suite
	for name := range strings.SplitSeq(only, ",") {
		at := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no suite %q, only: %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, suites[at])
	}
	return chosen, nil
}

// suiteTimeout bounds one suite.
const suiteTimeout = 20 * time.Minute

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	if o.doc != "" {
		if err := kit.CheckDocument(o.doc, "memories"); err != nil {
			return err
		}
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
	return errors.Join(r.write(out, o.doc), r.missed())
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
