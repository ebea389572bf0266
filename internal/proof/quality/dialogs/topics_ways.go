package dialogs

import (
	"context"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

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
	talks                []*talk
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
		vectors := kit.Must(m.embedder.Embed(ctx, texts))
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
		decision := chat.Assign(t.Turn, id)
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
