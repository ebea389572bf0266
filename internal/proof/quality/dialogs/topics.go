package dialogs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// talk is a chat of which it is known what each turn is about: the session of a history, or one of our own dialogs.
type talk struct {
	name     string
	messages int
	turns    []*turn
}

// turn is a user's message and what follows it, as the server indexes it.
type turn struct {
	seq, lastSeq int64
	session      string
	saidAt       time.Time
	question     string
	messages     []memory.Message
	// whole is the vector of the turn as the server makes it, alone that of the question.
	whole, alone []float32
}

// text is what the server makes the turn's vector of.
func (t *turn) text() string {
	const mostRead = 10_000 // characters of a message, as the server reads it
	messages := slices.Clone(t.messages)
	for n := range messages {
		if runes := []rune(messages[n].Content); len(runes) > mostRead {
			messages[n].Content = string(runes[:mostRead])
		}
	}
	written, _ := recall.TurnText(messages)
	return written
}

// add adds messages about a subject. Each of the user's begins a turn.
func (d *talk) add(subject string, messages []message) {
	for _, m := range messages {
		d.messages++
		role := memory.Role(m.role)
		if role == memory.RoleUser {
			d.turns = append(d.turns, &turn{seq: int64(d.messages), session: subject, saidAt: m.at, question: m.content})
		}
		if len(d.turns) == 0 {
			continue // a greeting
		}
		last := d.turns[len(d.turns)-1]
		last.lastSeq = int64(d.messages)
		last.messages = append(last.messages, memory.Message{Role: role, Content: m.content})
	}
}

// readTalks reads histories as they are, or our own dialogs in English, the keyless embedder's language, as one long chat:
// their sessions in turn, so that the conversation leaves each dialog and comes back to it.
func readTalks(o Options) (all []*talk, err error) {
	if o.LongMemEval != "" {
		histories, err := readLongMemEval(o.LongMemEval)
		for _, d := range histories {
			one := &talk{name: d.name}
			for _, session := range d.sessions() {
				one.add(session[0].session, session)
			}
			all = append(all, one)
		}
		return all, err
	}
	ours, err := parseLoCoMo(own, true)
	one := &talk{name: "our own dialogs"}
	english := strings.Fields("boat dentist family novel school server violin")
	const rounds = 10 // more than any dialog has sessions
	for round := range rounds {
		for _, d := range ours {
			sessions := d.sessions()
			if slices.Contains(english, d.name) && round < len(sessions) {
				one.add(d.name, sessions[round])
			}
		}
	}
	return []*talk{one}, err
}

// sessions returns the messages of each session. Sessions that overlap in time follow each other.
func (d *dialog) sessions() (all [][]message) {
	place := map[string]int{}
	for _, m := range d.messages {
		n, begun := place[m.session]
		if !begun {
			n = len(all)
			place[m.session] = n
			all = append(all, nil)
		}
		all[n] = append(all[n], m)
	}
	return all
}

// Topics measures how well turns are grouped into topics: B-cubed over users' messages, with the vectors that the server
// makes of them by the keyless embedder under root, beside the letter of the topic memory that the project began with. It
// has figures of LongMemEval alone.
func Topics(ctx context.Context, o Options, root string, progress io.Writer) (r Result, err error) {
	talks, err := readTalks(o)
	if err != nil {
		return r, err
	}
	m, err := group(ctx, talks, root, progress)
	if err != nil {
		return r, err
	}
	r.Text = m.text()
	if o.LongMemEval != "" {
		r.Figures = map[string]string{"topics_f1": fmt.Sprintf("%.2f", m.f1(ours)), "topics_cosine_f1": fmt.Sprintf("%.2f", m.f1(letter))}
	}
	return r, nil
}

// group makes the vectors of chats with the keyless embedder that is installed under root, and groups their turns.
func group(ctx context.Context, talks []*talk, root string, progress io.Writer) (*grouping, error) {
	vectors, stop, err := startEmbedder(ctx, root)
	if err != nil {
		return nil, err
	}
	defer stop()
	m := &grouping{embedder: vectors}
	store := scales{}
	if m.onTurns, err = recall.NewTurnScales(store, vectors).Measured(ctx); err != nil {
		return nil, err
	}
	if m.onSentences, err = recall.NewScales(store, vectors).Measured(ctx); err != nil {
		return nil, err
	}
	for _, d := range talks {
		fmt.Fprintf(progress, "%s: %d messages, %d turns\n", d.name, d.messages, len(d.turns))
		if err := m.embed(ctx, d); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
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

// figures are how well a grouping of turns is that of the sessions: B-cubed, over users' messages.
type figures struct {
	precision, recall float64
	topics, sessions  int
}

func (f figures) f1() float64 {
	if f.precision+f.recall == 0 {
		return 0
	}
	return 2 * f.precision * f.recall / (f.precision + f.recall)
}

// compare measures a grouping: topics[n] is the topic of the nth turn. For each turn, precision is which share of its
// topic's turns are of its session, and recall which share of its session's turns are in its topic.
func compare(d *talk, topics []int) figures {
	type pair struct {
		session string
		topic   int
	}
	both, bySession, byTopic := map[pair]int{}, map[string]int{}, map[int]int{}
	for n, t := range d.turns {
		both[pair{t.session, topics[n]}]++
		bySession[t.session]++
		byTopic[topics[n]]++
	}
	f := figures{topics: len(byTopic), sessions: len(bySession)}
	for n, t := range d.turns {
		shared := float64(both[pair{t.session, topics[n]}])
		f.precision += shared / float64(byTopic[topics[n]])
		f.recall += shared / float64(bySession[t.session])
	}
	f.precision /= float64(max(len(d.turns), 1))
	f.recall /= float64(max(len(d.turns), 1))
	return f
}

// mean returns the mean of a way's figures over all chats; topics and sessions are sums.
func (m *grouping) mean(way int) (f1 float64, all figures) {
	share := float64(len(m.figures[way]))
	for _, f := range m.figures[way] {
		f1 += f.f1() / share
		all.precision += f.precision / share
		all.recall += f.recall / share
		all.topics += f.topics
		all.sessions += f.sessions
	}
	return f1, all
}

func (m *grouping) f1(way int) float64 {
	f1, _ := m.mean(way)
	return f1
}

func (m *grouping) text() string {
	var text strings.Builder
	text.WriteString("| B³ over users' messages |")
	messages, turns := 0, 0
	for _, d := range m.talks {
		fmt.Fprintf(&text, " %s |", d.name)
		messages, turns = messages+d.messages, turns+len(d.turns)
	}
	text.WriteString(" F1 | precision | recall | topics |\n|---|" + strings.Repeat("---|", len(m.talks)+4) + "\n")
	for way, name := range groupings {
		fmt.Fprintf(&text, "| %s |", name)
		for _, f := range m.figures[way] {
			fmt.Fprintf(&text, " %.3f |", f.f1())
		}
		f1, all := m.mean(way)
		fmt.Fprintf(&text, " %.3f | %.3f | %.3f | %d for %d |\n", f1, all.precision, all.recall, all.topics, all.sessions)
	}
	fmt.Fprintf(&text, "\n%d messages, %d turns. Unrelated sentences have a cosine of %.2f (99th percentile %.2f), unrelated turns one of %.2f (%.2f).\n",
		messages, turns, m.onSentences.P50, m.onSentences.P99, m.onTurns.P50, m.onTurns.P99)
	fmt.Fprintf(&text, "The question alone names the later topic of %d of %d turns whose topic there was, and of %d of %d that came back to one; %d "+
		"questions name another.\n", m.asked.found, m.asked.existing, m.asked.backFound, m.asked.back, m.asked.other)
	return text.String()
}
