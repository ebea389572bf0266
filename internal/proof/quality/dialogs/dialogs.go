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
	"strings"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Options name files of dialogs. Without one, our own are measured.
type Options struct {
	LoCoMo, LongMemEval string
	// Quick leaves vectors out.
	Quick bool
}

// Recall measures how well the turns and memories that a question is about are found, and returns tables for a document. Of
// LoCoMo they name figures.
func Recall(ctx context.Context, o Options, root string, progress io.Writer) (text string, err error) {
	defer kit.Catch(&err)
	sets := kit.Must(readSets(o))
	p := kit.Must(kit.StartPostgres(ctx, map[string]string{"shared_buffers": "256MB", "fsync": "off"}))
	defer func() { err = errors.Join(err, p.Destroy()) }()
	var vectors *llm.Embedder
	if !o.Quick {
		started, stop, err := startEmbedder(ctx, root)
		if errors.Is(err, embedder.ErrNotInstalled) {
			fmt.Fprintln(progress, "without vectors: the keyless embedder is not installed, see scripts/setup")
		} else {
			kit.Check(err)
		}
		defer stop()
		vectors = started
	}
	b := newBench(ctx, p, vectors, progress)
	defer b.close()
	for n, s := range sets {
		t := b.measure(ctx, s)
		if o.LoCoMo != "" && n == 0 {
			text = t.summary()
		}
		text += t.text()
	}
	return text + strings.Join(kit.Must(kit.Describe(ctx, b.admin)), "; ") + ".\n", nil
}

// startEmbedder starts the keyless embedder that is installed under root. The caller calls stop.
func startEmbedder(ctx context.Context, root string) (vectors *llm.Embedder, stop func(), err error) {
	node, err := embedder.Start(ctx, root, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, func() {}, err
	}
	vectors = llm.NewEmbedder(llm.EmbedderConfig{BaseURL: node.BaseURL(), APIKey: "none", Model: embedder.Model})
	return vectors, func() {
		vectors.Close()
		node.Close()
	}, nil
}
