// Package dialogs measures what is found of dialogs: the turns and memories that a question is about, through the real
// store, beside BM25, ts_rank, vectors alone and their plain fusion; and how well turns are grouped into topics. The
// dialogs are our own small ones, LoCoMo's or LongMemEval's. Vectors are those of the keyless embedder, where scripts/setup
// has installed it.
package dialogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Options name files of dialogs. Without one, our own are measured.
type Options struct {
	LoCoMo, LongMemEval string
	// Quick leaves vectors out.
	Quick bool
}

// Result is what was measured: tables for a document, and the figures that other documents name.
type Result struct {
	Text    string
	Figures map[string]string
}

// Recall measures how well the turns and memories that a question is about are found. It has figures of LoCoMo alone.
func Recall(ctx context.Context, o Options, root string, progress io.Writer) (r Result, err error) {
	sets, err := readSets(o)
	if err != nil {
		return r, err
	}
	p, err := kit.StartPostgres(ctx, map[string]string{"shared_buffers": "256MB", "fsync": "off"})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.Destroy()) }()
	baseURL := ""
	if !o.Quick {
		node, err := embedder.Start(ctx, root, slog.New(slog.DiscardHandler))
		switch {
		case errors.Is(err, embedder.ErrNotInstalled):
			fmt.Fprintln(progress, "without vectors: the keyless embedder is not installed, see scripts/setup")
		case err != nil:
			return r, err
		default:
			defer node.Close()
			baseURL = node.BaseURL()
		}
	}
	b, err := newBench(ctx, p, baseURL, progress)
	if err != nil {
		return r, err
	}
	defer b.close()
	for _, s := range sets {
		if err := b.measure(ctx, s); err != nil {
			return r, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if o.LoCoMo != "" {
		if err := b.measureMemories(ctx, o.LoCoMo); err != nil {
			return r, fmt.Errorf("memories: %w", err)
		}
	}
	r.Text = b.text()
	if o.LoCoMo != "" {
		r.Figures = b.tables[0].figures()
	}
	return r, nil
}

// readSets reads the dialogs to measure: ours, unless others are named.
func readSets(o Options) ([]*set, error) {
	var sets []*set
	if o.LoCoMo != "" {
		for _, twoSpeakers := range []bool{false, true} {
			s, err := readLoCoMo(o.LoCoMo, twoSpeakers)
			if err != nil {
				return nil, err
			}
			sets = append(sets, s)
		}
	}
	if o.LongMemEval != "" {
		s, err := readLongMemEval(o.LongMemEval)
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
