package dialogs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/llm"
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

// add adds a message about a subject, which begins a turn if it is the user's.
func (d *talk) add(subject string, m message) {
	d.messages++
	role := memory.Role(m.role)
	if role == memory.RoleUser {
		d.turns = append(d.turns, &turn{seq: int64(d.messages), session: subject, saidAt: m.at, question: m.content})
	}
	if len(d.turns) == 0 {
		return // a greeting
	}
	last := d.turns[len(d.turns)-1]
	last.lastSeq = int64(d.messages)
	last.messages = append(last.messages, memory.Message{Role: role, Content: m.content})
}

// talksOf returns histories as they are; or our own dialogs in English, the keyless embedder's language, as one long
// chat: their sessions in turn, so that the conversation leaves each dialog and comes back to it.
func talksOf(histories *set) []*talk {
	var all []*talk
	for _, d := range histories.dialogs {
		one := &talk{name: d.name}
		for _, session := range sessionsOf(d) {
			for _, m := range session {
				one.add(m.session, m)
			}
		}
		all = append(all, one)
	}
	return all
}

func inTurn(own *set) *talk {
	english := []string{"boat", "dentist", "family", "novel", "school", "server", "violin"}
	all := &talk{name: "our own dialogs"}
	for round, more := 0, true; more; round++ {
		more = false
		for _, d := range own.dialogs {
			sessions := sessionsOf(d)
			if !slices.Contains(english, d.name) || round >= len(sessions) {
				continue
			}
			more = true
			for _, m := range sessions[round] {
				all.add(d.name, m)
			}
		}
	}
	return all
}

// sessionsOf returns the messages of each session of a dialog. Sessions that overlap in time follow each other.
func sessionsOf(d *dialog) [][]message {
	var sessions [][]message
	place := map[string]int{}
	for _, m := range d.messages {
		n, begun := place[m.session]
		if !begun {
			n = len(sessions)
			place[m.session] = n
			sessions = append(sessions, nil)
		}
		sessions[n] = append(sessions[n], m)
	}
	return sessions
}

// Topics measures how well turns are grouped into topics: B-cubed over users' messages, with the vectors that the server
// makes of them by the keyless embedder under root, beside the letter of the topic memory that the project began with. It
// has figures of LongMemEval alone.
func Topics(ctx context.Context, o Options, root string, progress io.Writer) (Result, error) {
	talks, err := readTalks(o)
	if err != nil {
		return Result{}, err
	}
	grouping, err := group(ctx, talks, root, progress)
	if err != nil {
		return Result{}, err
	}
	r := Result{Text: grouping.String()}
	if o.LongMemEval != "" {
		r.Figures = map[string]string{
			"topics_f1": fmt.Sprintf("%.2f", grouping.f1(ours)), "topics_cosine_f1": fmt.Sprintf("%.2f", grouping.f1(letter)),
		}
	}
	return r, nil
}

func readTalks(o Options) ([]*talk, error) {
	if o.LongMemEval != "" {
		histories, err := readLongMemEval(o.LongMemEval)
		if err != nil {
			return nil, err
		}
		return talksOf(histories), nil
	}
	own, err := readOwn()
	if err != nil {
		return nil, err
	}
	return []*talk{inTurn(own)}, nil
}

// group makes the vectors of chats with the keyless embedder that is installed under root, and groups their turns.
func group(ctx context.Context, talks []*talk, root string, progress io.Writer) (*grouping, error) {
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
	r := &grouping{sentences: m.sentences, turns: m.turns}
	for _, d := range talks {
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
