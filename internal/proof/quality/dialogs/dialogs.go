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
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/llm"
	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/proof/figures"
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
	defer b.admin.Close()
	defer b.server.Close()
	defer b.worker.Close()
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
	vectors = llm.NewEmbedder(llm.Settings{BaseURL: node.BaseURL(), APIKey: "none"}, embedder.Model)
	return vectors, func() {
		vectors.Close()
		node.Close()
	}, nil
}

// What is found is counted in the first so many messages, and in the first so many sessions.
var (
	inMessages = [...]int{5, 10, 25, 50}
	inSessions = [...]int{5, 10}
)

type table struct {
	*set
	rows []row
}

type row struct {
	way
	messages [len(inMessages)]float64 // sums of the share that was found
	asked    int                      // questions whose messages are known
	sessions [len(inSessions)]float64
	all      int
	nothing  int // questions that found nothing
	took     kit.Times

	quoted float64 // sum of the shares of messages, or of sessions, that a prompt quotes
	silent int     // questions whose prompt quotes nothing
	tokens int     // of what is quoted
	kinds  []row   // the same by kind of question
}

var kinds = []struct {
	name       string
	categories []int // nil for all
}{
	{"all", nil}, {"without adversarial", []int{1, 2, 3, 4}}, {"multi-hop", []int{1}}, {"temporal", []int{2}},
	{"open-domain", []int{3}}, {"single-hop", []int{4}}, {"adversarial", []int{5}},
}

// addAll counts an answer, by the kinds of question as well.
func (r *row) addAll(d *dialog, q question, found []int64, took time.Duration, section string) {
	r.add(d, q, found, took)
	for n, kind := range kinds {
		if kind.categories == nil || slices.Contains(kind.categories, q.category) {
			r.kinds[n].add(d, q, found, took)
			r.kinds[n].addQuoted(d, q, section)
		}
	}
}

// addQuoted counts what a prompt quotes of the messages that answer a question, or of their sessions.
func (r *row) addQuoted(d *dialog, q question, section string) {
	wanted, quoted := len(q.messages), 0
	if wanted == 0 {
		wanted = len(q.sessions)
	}
	seen := map[string]bool{}
	for _, m := range d.messages {
		key := m.id
		if len(q.messages) == 0 {
			key = m.session
		}
		isWanted := slices.Contains(q.messages, m.id) || len(q.messages) == 0 && slices.Contains(q.sessions, m.session)
		if isWanted && !seen[key] && isQuoted(m.content, section) {
			seen[key] = true
			quoted++
		}
	}
	r.quoted += float64(quoted) / float64(wanted)
	r.tokens += memorytext.Tokens(section)
	if section == "" {
		r.silent++
	}
}

// isQuoted reports whether a section holds at least half of a message.
func isQuoted(content, section string) bool {
	held := 0
	for _, sentence := range memorytext.Sentences(content) {
		if strings.Contains(section, strings.TrimSpace(sentence)) {
			held += len(sentence)
		}
	}
	return 2*held >= len(content)
}

// add counts the answer to a question: the share of its messages, and of their sessions, that is among the first.
func (r *row) add(d *dialog, q question, found []int64, took time.Duration) {
	var ids, sessions []string
	sessionOf := map[string]string{}
	for _, m := range d.messages {
		sessionOf[m.id] = m.session
	}
	for _, seq := range found {
		m := d.messages[seq-1]
		ids = append(ids, m.id)
		if !slices.Contains(sessions, m.session) {
			sessions = append(sessions, m.session)
		}
	}
	wanted := q.sessions
	for _, id := range q.messages {
		if !slices.Contains(wanted, sessionOf[id]) {
			wanted = append(wanted, sessionOf[id])
		}
	}
	if len(q.messages) > 0 {
		r.asked++
		for n, most := range inMessages {
			r.messages[n] += shareFound(ids, q.messages, most)
		}
	}
	for n, most := range inSessions {
		r.sessions[n] += shareFound(sessions, wanted, most)
	}
	if r.all++; len(found) == 0 {
		r.nothing++
	}
	r.took = append(r.took, took)
}

func shareFound(found, wanted []string, most int) float64 {
	hits := 0
	for _, id := range found[:min(most, len(found))] {
		if slices.Contains(wanted, id) {
			hits++
		}
	}
	return float64(hits) / float64(len(wanted))
}

// summary names the shares of messages among the first ten that other documents quote: of the last row with each name.
func (t *table) summary() string {
	found := map[string]string{}
	for _, r := range t.rows {
		found[r.figure] = figures.Mark(r.figure, fmt.Sprintf("%.0f", 100*r.messages[1]/float64(r.asked)))
	}
	return fmt.Sprintf("Of what a question asks for, %s %% are among the first ten messages that recall finds; BM25 finds %s %%, `ts_rank`\n%s %% (%s).\n\n",
		found["recall_ours"], found["recall_bm25"], found["recall_ts_rank"], t.name)
}

func (t *table) text() string {
	messages, questions := 0, 0
	for _, d := range t.dialogs {
		messages, questions = messages+len(d.messages), questions+len(d.questions)
	}
	var text strings.Builder
	if t.asMemories {
		fmt.Fprintf(&text, "%s: %d memories of %d users, %d questions\n\n", t.name, messages, len(t.dialogs), questions)
		text.WriteString("| evidence, % | @5 | @10 | of questions nothing | p50 / p95 ms |\n|---|---|---|---|---|\n")
	} else {
		fmt.Fprintf(&text, "%s: %d messages, %d questions\n\n", t.name, messages, questions)
		text.WriteString("| recall, % | @5 | @10 | @25 | @50 | sessions @5 | @10 | p50 / p95 ms |\n|---|---|---|---|---|---|---|---|\n")
	}
	for _, r := range t.rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(r.cells(t.asMemories), " | "))
	}
	return text.String() + "\n" + t.quotes()
}

func (t *table) quotes() string {
	var text strings.Builder
	for _, r := range t.rows {
		if r.quote == nil {
			continue
		}
		fmt.Fprintf(&text, "%s, by question | questions | @10 | @25 | quoted | nothing quoted | tokens |\n|---|---|---|---|---|---|---|\n", "| "+r.name)
		for n, k := range r.kinds {
			if k.all > 0 && (n == 0 || k.all < r.all) {
				fmt.Fprintf(&text, "| %s | %d | %s | %s | %s | %s | %d |\n", kinds[n].name, k.all, percent(k.messages[1], k.asked),
					percent(k.messages[2], k.asked), percent(k.quoted, k.all), percent(float64(k.silent), k.all), k.tokens/k.all)
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

func percent(sum float64, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", 100*sum/float64(of))
}

func (r *row) cells(asMemories bool) []string {
	cells := []string{r.name}
	for n, sum := range r.messages {
		if !asMemories || inMessages[n] <= mostMemories {
			cells = append(cells, percent(sum, r.asked))
		}
	}
	if asMemories {
		cells = append(cells, percent(float64(r.nothing), r.all))
	} else {
		for _, sum := range r.sessions {
			cells = append(cells, percent(sum, r.all))
		}
	}
	return append(cells, fmt.Sprintf("%.1f / %.1f", r.took.MS(.5), r.took.MS(.95)))
}
