// Command recall measures how well the turns that a question is about are found, through the real store:
//
//	go run ./internal/proof/recall                           our own small dialogs
//	go run ./internal/proof/recall -locomo locomo10.json     LoCoMo's, with their questions
//	go run ./internal/proof/recall -longmemeval file.json    histories of LongMemEval
//	go run ./internal/proof/recall -quick                    our own dialogs, without vectors, for CI
//
// It starts a private Postgres, stores and indexes the dialogs as the server does, and asks every question with
// recall.Search, beside BM25, ts_rank, vectors alone and their plain fusion. Vectors are those of the keyless embedder,
// where scripts/setup has installed it. docs/recall.md explains the figures. No test asserts one but
// that of our own dialogs' facts most are among the first five messages, by words alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

type options struct {
	locomo, longmemeval string
	quick, memories     bool
	doc, charts         string
}

func main() { kit.Main("recall", run) }

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("recall", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.locomo, "locomo", "", "a file of LoCoMo")
	flags.StringVar(&o.longmemeval, "longmemeval", "", "a file of LongMemEval")
	flags.BoolVar(&o.quick, "quick", false, "without vectors, for CI")
	flags.BoolVar(&o.memories, "memories", false, "only the memories of LoCoMo's file")
	flags.StringVar(&o.doc, "doc", "", "put the table into this document, between its lines recall:begin and recall:end")
	flags.StringVar(&o.charts, "chart", "", "write the chart into this folder")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, errors.New("wrong arguments, see -help")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	sets, err := readSets(o)
	if err != nil {
		return err
	}
	p, err := kit.StartPostgres(ctx, map[string]string{"shared_buffers": "256MB", "fsync": "off"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Destroy()) }()
	baseURL := ""
	if !o.quick {
		node, err := embedder.Start(ctx, ".", slog.New(slog.DiscardHandler))
		switch {
		case errors.Is(err, embedder.ErrNotInstalled):
			fmt.Fprintln(progress, "without vectors: the keyless embedder is not installed, see scripts/setup")
		case err != nil:
			return err
		default:
			defer node.Close()
			baseURL = node.BaseURL()
		}
	}
	b, err := newBench(ctx, p, baseURL, progress)
	if err != nil {
		return err
	}
	defer b.close()
	if o.memories {
		sets = nil
	}
	for _, s := range sets {
		if err := b.measure(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if o.locomo != "" {
		if err := b.measureMemories(ctx, o.locomo); err != nil {
			return fmt.Errorf("memories: %w", err)
		}
	}
	return b.report(o, out)
}

// readSets reads the dialogs to measure: ours, unless others are named.
func readSets(o options) ([]*set, error) {
	var sets []*set
	if o.locomo != "" {
		for _, twoSpeakers := range []bool{false, true} {
			s, err := readLoCoMo(o.locomo, twoSpeakers)
			if err != nil {
				return nil, err
			}
			sets = append(sets, s)
		}
	}
	if o.longmemeval != "" {
		s, err := readLongMemEval(o.longmemeval)
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	if len(sets) > 0 {
		return sets, nil
	}
	s, err := readOwn()
	return []*set{s}, err
}
