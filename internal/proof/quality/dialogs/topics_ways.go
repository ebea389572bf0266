package dialogs

import (
	"context"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
)

// measurement groups the turns of dialogs in several ways.
type measurement struct {
	embedder         *llm.Embedder
	sentences, turns recall.Scale
}

// perCall is how many texts one call of the embedder has.
const perCall = 32

// embed makes the vectors of a dialog's turns, and those of their questions alone.
func (m *measurement) embed(ctx context.Context, d *talk) error {
	for part := range slices.Chunk(d.turns, perCall) {
		var texts []string
		for _, t := range part {
			texts = append(texts, t.text(), t.question)
		}
		vectors, err := m.embedder.Embed(ctx, texts)
		if err != nil {
			return err
		}
		for n, t := range part {
			t.whole, t.alone = vectors[2*n], vectors[2*n+1]
		}
	}
	return nil
}

// The ways, in the order of the table.
const (
	letter     = "S0's letter: the message alone, cosine 0.7, no continuity"
	continuing = "the same, with 0.15 for the topic of the message before"
	onSentence = "turns, on the scale of sentences"
	ours       = "**ours**: turns, on the scale of turns"
)

func (m *measurement) measure(r *grouping, d *talk) {
	assigned, asked := m.assign(d, m.turns)
	misread, _ := m.assign(d, m.sentences)
	r.add(d, letter, byLetter(d, 0))
	r.add(d, continuing, byLetter(d, topics.Defaults().Continuity))
	r.add(d, onSentence, misread)
	r.add(d, ours, assigned)
	r.asked.add(asked)
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

func (a *guesses) add(more guesses) {
	a.existing += more.existing
	a.found += more.found
	a.back += more.back
	a.backFound += more.backFound
	a.other += more.other
}

// assign groups turns as the server does, and asks each question before its turn is assigned.
func (m *measurement) assign(d *talk, scale recall.Scale) ([]int, guesses) {
	chat := &topics.Chat{Settings: topics.Defaults(), ByMeaning: topics.ByMeaning{Model: m.embedder.Model(), Scale: scale}}
	groups := make([]int, len(d.turns))
	var counts guesses
	var before *topics.Topic
	for n, t := range d.turns {
		guess := m.guess(chat, t, before)
		known := len(chat.Topics)
		id := uuid.Nil
		if before != nil {
			id = before.ID
		}
		decision := chat.Assign(topics.Turn{
			Seq: t.seq, LastSeq: t.lastSeq, SaidAt: t.saidAt, Question: t.question, Vector: t.whole, Messages: len(t.messages),
		}, id)
		if decision.How == topics.ByMatch || decision.How == topics.ByStart {
			counts.add(counted(guess, decision.Topic, before, len(chat.Topics) == known))
		}
		groups[n], before = decision.Topic.Number, decision.Topic
	}
	return groups, counts
}

// guess is the topic that a question alone finds, by the scale of questions, nil for none.
func (m *measurement) guess(chat *topics.Chat, t *turn, before *topics.Topic) *topics.Topic {
	asking := *chat
	asking.Scale = m.sentences
	similarity, nearest := asking.Nearest(t.alone, before)
	if similarity < asking.Settings.Similarity {
		return nil
	}
	return nearest
}

func counted(guess, later, before *topics.Topic, existed bool) guesses {
	var a guesses
	if existed {
		a.existing = 1
		if guess == later {
			a.found = 1
		}
		if later != before {
			a.back, a.backFound = 1, a.found
		}
	}
	if guess != nil && guess != later && guess != before {
		a.other = 1
	}
	return a
}
