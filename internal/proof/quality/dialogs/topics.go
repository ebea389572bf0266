package dialogs

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/demo"
	"github.com/arcoscribe/throughline/internal/llm"
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

// turn is a user's message and what follows it, as the server indexes it, with the server's vector of the whole.
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
// their sessions in turn, so that the conversation leaves each dialog and comes back to it. short are talks of short
// messages, whose topics are only counted: LoCoMo's, where it is named, and what the user says in the demo.
func readTalks(o Options) (histories, short []*talk, err error) {
	defer kit.Catch(&err)
	if o.LoCoMo != "" {
		for _, d := range readFile(o.LoCoMo, parseLoCoMo) {
			short = append(short, talkOf(d))
		}
	}
	demonstrated := &dialog{name: "the demo's conversation"}
	for _, line := range kit.Must(demo.BuiltinConversation()) {
		demonstrated.messages = append(demonstrated.messages, message{role: line.Role, content: line.Content})
	}
	short = append(short, talkOf(demonstrated))
	if o.LongMemEval == "" {
		return []*talk{talkOf(ownInTurn())}, short, nil
	}
	for _, d := range readFile(o.LongMemEval, parseLongMemEval) {
		histories = append(histories, talkOf(d))
	}
	return histories, short, nil
}

func ownInTurn() *dialog {
	one := &dialog{name: "our own dialogs"}
	ours := kit.Must(parseLoCoMo(own))
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
	return one
}

// Topics measures how well turns are grouped into topics, and returns a table for a document: B-cubed over users' messages,
// with the vectors that the server makes of them by the keyless embedder under root, beside the letter of the topic memory
// that the project began with; and how many topics short messages have. Of LongMemEval it names figures.
func Topics(ctx context.Context, o Options, root string, progress io.Writer) (text string, err error) {
	defer kit.Catch(&err)
	histories, short, err := readTalks(o)
	kit.Check(err)
	m := kit.Must(group(ctx, histories, short, root, progress))
	return m.text(o.LongMemEval != "") + m.counts(), nil
}

// group makes the vectors of chats with the keyless embedder that is installed under root, and groups their turns.
func group(ctx context.Context, histories, short []*talk, root string, progress io.Writer) (m *grouping, err error) {
	defer kit.Catch(&err)
	vectors, stop, err := startEmbedder(ctx, root)
	kit.Check(err)
	defer stop()
	store := scales{}
	m = &grouping{
		embedder: vectors, talks: histories, short: short, onTurns: kit.Must(recall.NewTurnScales(store, vectors).Measured(ctx)),
		onSentences: kit.Must(recall.NewScales(store, vectors).Measured(ctx)),
	}
	for _, d := range slices.Concat(histories, short) {
		fmt.Fprintf(progress, "%s: %d messages, %d turns\n", d.name, len(d.messages), len(d.turns))
		m.embed(ctx, d)
	}
	for _, d := range histories {
		m.measure(d)
	}
	return m, nil
}

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

// counts is the table of how many topics short messages have, and how many of them have a single turn.
func (m *grouping) counts() string {
	var text strings.Builder
	text.WriteString("\n| short messages | turns | S0's letter: topics for 100 turns | of one turn, % | **ours** | of one turn, % |\n|---|---|---|---|---|---|\n")
	for _, d := range m.short {
		fmt.Fprintf(&text, "| %s | %d | %s | %s |\n", d.name, len(d.turns), countsOf(byLetter(d, 0)), countsOf(m.assign(d, m.onTurns, new(guesses))))
	}
	return text.String()
}

func countsOf(groups []int) string {
	all, single := singles(groups)
	return fmt.Sprintf("%.1f | %.0f", 100*float64(all)/float64(len(groups)), 100*float64(single)/float64(all))
}

// singles counts topics, and those of a single turn. groups[n] is the topic of the nth turn.
func singles(groups []int) (all, single int) {
	turns := map[int]int{}
	for _, topic := range groups {
		turns[topic]++
	}
	for _, n := range turns {
		if n == 1 {
			single++
		}
	}
	return len(turns), single
}

// The ways to group turns, in the order of the table.
const (
	letter = iota
	continuing
	onSentences
	ours
)

// groupings are their names in the table, and the names by which documents quote their F1.
var groupings = [...]struct{ name, figure string }{
	letter:      {"S0's letter: the message alone, cosine 0.7, no continuity", "topics_cosine_f1"},
	continuing:  {"the same, with 0.15 for the topic of the message before", ""},
	onSentences: {"turns, on the scale of sentences", ""},
	ours:        {"**ours**: turns, on the scale of turns", "topics_f1"},
}

// grouping groups the turns of chats in several ways, and keeps how well.
type grouping struct {
	embedder             *llm.Embedder
	onSentences, onTurns recall.Scale
	talks, short         []*talk
	found                [len(groupings)][]likeness // of each way and chat
	asked                guesses
}

// embed makes the vectors of a chat's turns, and those of their questions alone.
func (m *grouping) embed(ctx context.Context, d *talk) {
	const perCall = 32
	for part := range slices.Chunk(d.turns, perCall) {
		var texts []string
		for _, t := range part {
			texts = append(texts, t.text, t.Question)
		}
		vectors := kit.Must(m.embedder.Embed(ctx, recall.For{}, texts))
		for n, t := range part {
			t.Vector, t.alone = vectors[2*n], vectors[2*n+1]
		}
	}
}

func (m *grouping) measure(d *talk) {
	var misread guesses
	for way, groups := range [...][]int{
		letter:      byLetter(d, 0),
		continuing:  byLetter(d, topics.Defaults().Continuity),
		onSentences: m.assign(d, m.onSentences, &misread),
		ours:        m.assign(d, m.onTurns, &m.asked),
	} {
		m.found[way] = append(m.found[way], compare(d, groups))
	}
}

// byLetter groups messages as S0's text has it: by the cosine to a topic's running mean, of unit length.
func byLetter(d *talk, continuity float64) []int {
	var centroids [][]float64
	var sizes []int
	groups := make([]int, len(d.turns))
	before := -1
	for n, t := range d.turns {
		best, most := -1, 0.
		for k, centroid := range centroids {
			cosine := 0.
			for i, x := range t.alone {
				cosine += float64(x) * centroid[i]
			}
			if k == before {
				cosine += continuity
			}
			if best < 0 || cosine > most {
				best, most = k, cosine
			}
		}
		if best < 0 || most < topics.Defaults().Similarity {
			best = len(centroids)
			centroids, sizes = append(centroids, make([]float64, len(t.alone))), append(sizes, 0)
		}
		moveMean(centroids[best], sizes[best], t.alone)
		sizes[best]++
		groups[n], before = best, best
	}
	return groups
}

// moveMean adds a vector to the mean of so many, and gives it unit length.
func moveMean(mean []float64, size int, vector []float32) {
	length := 0.
	for i := range mean {
		mean[i] = mean[i]*float64(size) + float64(vector[i])
		length += mean[i] * mean[i]
	}
	for i := range mean {
		mean[i] /= math.Sqrt(length)
	}
}

// guesses count how often a question alone, as a prompt has it, finds the topic that the whole turn gets later.
type guesses struct {
	existing, found int // turns of a topic that there is already
	back, backFound int // of them, those of another topic than the turn before
	other           int // questions that name a topic which is neither the later one nor that of the turn before
}

// assign groups turns as the server does, and asks each question before its turn is assigned.
func (m *grouping) assign(d *talk, scale recall.Scale, counts *guesses) []int {
	chat := &topics.Chat{Settings: topics.Defaults(), ByMeaning: topics.ByMeaning{Model: m.embedder.Model(), Scale: scale}}
	groups := make([]int, len(d.turns))
	var before *topics.Topic
	for n, t := range d.turns {
		guess := m.guess(chat, t, before)
		known := len(chat.Topics)
		id := uuid.Nil
		if before != nil {
			id = before.ID
		}
		var next *topics.Turn
		if n+1 < len(d.turns) {
			next = &d.turns[n+1].Turn
		}
		decision := chat.Assign(t.Turn, next, id)
		if decision.How == topics.ByMatch || decision.How == topics.ByStart {
			counts.add(guess, decision.Topic, before, len(chat.Topics) == known)
		}
		groups[n], before = decision.Topic.Number, decision.Topic
	}
	return groups
}

// guess is the topic that a question alone finds, by the scale of questions, nil for none.
func (m *grouping) guess(chat *topics.Chat, t *turn, before *topics.Topic) *topics.Topic {
	asking := *chat
	asking.Scale = m.onSentences
	similarity, nearest := asking.Nearest(t.alone, before)
	if similarity < asking.Settings.Similarity {
		return nil
	}
	return nearest
}

func (a *guesses) add(guess, later, before *topics.Topic, existed bool) {
	right := guess == later
	if guess != nil && !right && guess != before {
		a.other++
	}
	if !existed {
		return
	}
	a.existing++
	if right {
		a.found++
	}
	if later == before {
		return
	}
	a.back++
	if right {
		a.backFound++
	}
}
