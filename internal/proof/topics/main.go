// Command topics measures how well turns are grouped into topics:
//
//	go run ./internal/proof/topics                          our own small dialogs in English, in turn
//	go run ./internal/proof/topics -longmemeval file.json   histories of LongMemEval, each as one chat
//
// The true group of a turn is its session or dialog; the figure is B-cubed over users' messages. Turns are assigned by
// topics.Assign, with the vectors that the server makes of them by the keyless embedder (scripts/setup installs it), beside
// the letter of the topic memory that the project began with: the message alone, cosine 0.7, no continuity. The command
// also draws the curves of docs/topics.md, which explains the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

type options struct {
	longmemeval string
	doc, charts string
}

func main() { kit.Main("topics", run) }

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("topics", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.longmemeval, "longmemeval", "", "a file of LongMemEval")
	flags.StringVar(&o.doc, "doc", "", "put the table into this document, between its lines topics:begin and topics:end")
	flags.StringVar(&o.charts, "chart", "", "write the chart into this folder")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, errors.New("wrong arguments, see -help")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	if o.charts != "" {
		if err := kit.WriteChart(filepath.Join(o.charts, "topics.svg"), panels()); err != nil {
			return err
		}
	}
	dialogs, err := readDialogs(o, ".")
	if err != nil {
		return err
	}
	r, err := measure(ctx, dialogs, ".", progress)
	if err != nil {
		return err
	}
	text := r.String()
	if _, err := io.WriteString(out, text); err != nil || o.doc == "" {
		return err
	}
	return kit.ReplaceInDocument(o.doc, "topics", text)
}

func readDialogs(o options, root string) ([]*dialog, error) {
	if o.longmemeval != "" {
		return readLongMemEval(o.longmemeval)
	}
	return readOwn(root)
}

// measure makes the vectors of dialogs with the keyless embedder that is installed under root, and groups their turns.
func measure(ctx context.Context, dialogs []*dialog, root string, progress io.Writer) (*report, error) {
	node, err := embedder.Start(ctx, root, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer node.Close()
	e := llm.NewEmbedder(llm.EmbedderConfig{BaseURL: node.BaseURL(), APIKey: "none", Model: embedder.Model})
	defer e.Close()
	m := &measurement{embedder: e}
	store := scales{}
	if m.turns, err = recall.NewTurnScales(store, e).Measured(ctx); err != nil {
		return nil, err
	}
	if m.sentences, err = recall.NewScales(store, e).Measured(ctx); err != nil {
		return nil, err
	}
	r := &report{sentences: m.sentences, turns: m.turns}
	for _, d := range dialogs {
		fmt.Fprintf(progress, "%s: %d messages, %d turns\n", d.name, d.messages, len(d.turns))
		if err := m.embed(ctx, d); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		m.measure(r, d)
	}
	return r, nil
}

// scales keeps scales for one run.
type scales map[string]recall.Scale

func (s scales) ReadScale(_ context.Context, model string) (recall.Scale, bool, error) {
	scale, found := s[model]
	return scale, found, nil
}

func (s scales) SaveScale(_ context.Context, model string, scale recall.Scale) error {
	s[model] = scale
	return nil
}
