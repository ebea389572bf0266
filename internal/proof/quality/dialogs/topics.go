package dialogs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// talk is a dialog by its turns. The session of each says what it is about.
type talk struct {
	*dialog
	turns []*turn
}

// turn is a user's message and what follows it, as the server indexes it. Its own vector is that of the whole, as the
// server makes it.
type turn struct {
	topics.Turn
	session string
	text    string
	alone   []float32 // the vector of the question alone
}

// talkOf begins a turn with each message of the user. What comes before the first is a greeting.
func talkOf(d *dialog) *talk {
	all := &talk{dialog: d}
	var said []memory.Message
	for n, m := range d.messages {
		role, seq := memory.Role(m.role), int64(n+1)
		if role == memory.RoleUser {
			said = nil
			all.turns = append(all.turns, &turn{session: m.session, Turn: topics.Turn{Seq: seq, SaidAt: m.at, Question: m.content}})
		}
		if len(all.turns) == 0 {
			continue
		}
		const mostRead = 10_000 // characters of a message, as the server reads it
		content := []rune(m.content)
		said = append(said, memory.Message{Role: role, Content: string(content[:min(len(content), mostRead)])})
		last := all.turns[len(all.turns)-1]
		last.LastSeq, last.Messages = seq, len(said)
		last.text, _ = recall.TurnText(said)
	}
	return all
}

// readTalks reads histories as they are, or our own dialogs in English, the keyless embedder's language, as one long chat:
// their sessions in turn, so that the conversation leaves each dialog and comes back to it.
func readTalks(o Options) (all []*talk, err error) {
	if o.LongMemEval != "" {
		defer kit.Catch(&err)
		histories := readFile(o.LongMemEval, parseLongMemEval)
		for _, d := range histories {
			all = append(all, talkOf(d))
		}
		return all, nil
	}
	ours, err := parseLoCoMo(own)
	one := &dialog{name: "our own dialogs"}
	const rounds = 10 // more than any dialog has sessions
	for round := range rounds {
		for _, d := range ours {
			for _, m := range d.messages {
				if slices.Contains(strings.Fields("boat dentist family novel school server violin"), d.name) && m.session == fmt.Sprint("session_", round+1) {
					m.session = d.name
					one.messages = append(one.messages, m)
				}
			}
		}
	}
	return []*talk{talkOf(one)}, err
}

// Topics measures how well turns are grouped into topics, and returns a table for a document: B-cubed over users' messages,
// with the vectors that the server makes of them by the keyless embedder under root, beside the letter of the topic memory
// that the project began with. Of LongMemEval it names figures.
func Topics(ctx context.Context, o Options, root string, progress io.Writer) (text string, err error) {
	defer kit.Catch(&err)
	m := kit.Must(group(ctx, kit.Must(readTalks(o)), root, progress))
	return m.text(o.LongMemEval != ""), nil
}

// group makes the vectors of chats with the keyless embedder that is installed under root, and groups their turns.
func group(ctx context.Context, talks []*talk, root string, progress io.Writer) (m *grouping, err error) {
	defer kit.Catch(&err)
	vectors, stop, err := startEmbedder(ctx, root)
	kit.Check(err)
	defer stop()
	store := scales{}
	m = &grouping{
		embedder: vectors, talks: talks, onTurns: kit.Must(recall.NewTurnScales(store, vectors).Measured(ctx)),
		onSentences: kit.Must(recall.NewScales(store, vectors).Measured(ctx)),
	}
	for _, d := range talks {
		fmt.Fprintf(progress, "%s: %d messages, %d turns\n", d.name, len(d.messages), len(d.turns))
		m.embed(ctx, d)
		m.measure(d)
	}
	return m, nil
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

// likeness is how well a grouping of turns is that of the sessions: B-cubed, over users' messages.
type likeness struct {
	f1, precision, recall float64
	topics, sessions      int
}

// compare measures a grouping: topics[n] is the topic of the nth turn. For each turn, precision is which share of its
// topic's turns are of its session, and recall which share of its session's turns are in its topic.
func compare(d *talk, topics []int) likeness {
	type pair struct {
		session string
		topic   int
	}
	both, bySession, byTopic := map[pair]float64{}, map[string]float64{}, map[int]float64{}
	for n, t := range d.turns {
		both[pair{t.session, topics[n]}]++
		bySession[t.session]++
		byTopic[topics[n]]++
	}
	l := likeness{topics: len(byTopic), sessions: len(bySession)}
	for n, t := range d.turns {
		shared := both[pair{t.session, topics[n]}] / float64(len(d.turns))
		l.precision += shared / byTopic[topics[n]]
		l.recall += shared / bySession[t.session]
	}
	if len(d.turns) > 0 {
		l.f1 = 2 * l.precision * l.recall / (l.precision + l.recall)
	}
	return l
}

// mean returns the mean of a way's likenesses over all chats; topics and sessions are sums.
func (m *grouping) mean(way int) (all likeness) {
	share := float64(len(m.talks))
	for _, l := range m.found[way] {
		all.f1 += l.f1 / share
		all.precision += l.precision / share
		all.recall += l.recall / share
		all.topics += l.topics
		all.sessions += l.sessions
	}
	return all
}

// text is the table. Where figures are named, they have two digits, as other documents quote them.
func (m *grouping) text(named bool) string {
	var text strings.Builder
	text.WriteString("| B³ over users' messages |")
	messages, turns := 0, 0
	for _, d := range m.talks {
		fmt.Fprintf(&text, " %s |", d.name)
		messages, turns = messages+len(d.messages), turns+len(d.turns)
	}
	text.WriteString(" F1 | precision | recall | topics |\n|---|" + strings.Repeat("---|", len(m.talks)+4) + "\n")
	for way, one := range groupings {
		fmt.Fprintf(&text, "| %s |", one.name)
		for _, l := range m.found[way] {
			fmt.Fprintf(&text, " %.3f |", l.f1)
		}
		all := m.mean(way)
		f1 := fmt.Sprintf("%.3f", all.f1)
		if named && one.figure != "" {
			f1 = figures.Mark(one.figure, fmt.Sprintf("%.2f", all.f1))
		}
		fmt.Fprintf(&text, " %s | %.3f | %.3f | %d for %d |\n", f1, all.precision, all.recall, all.topics, all.sessions)
	}
	fmt.Fprintf(&text, "\n%d messages, %d turns. Unrelated sentences have a cosine of %.2f (99th percentile %.2f), unrelated turns one of %.2f (%.2f).\n",
		messages, turns, m.onSentences.P50, m.onSentences.P99, m.onTurns.P50, m.onTurns.P99)
	fmt.Fprintf(&text, "The question alone names the later topic of %d of %d turns whose topic there was, and of %d of %d that came back to one; %d "+
		"questions name another.\n", m.asked.found, m.asked.existing, m.asked.backFound, m.asked.back, m.asked.other)
	return text.String()
}
