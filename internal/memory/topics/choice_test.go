package topics

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit/golden"
)

// twentyFive topics, each a day older than the next, with more accesses every fifth.
func twentyFive() []Topic {
	all := make([]Topic, 25)
	for n := range all {
		all[n] = Topic{
			ID: uuid.UUID{byte(n + 1)}, Number: n + 1, State: Active, Importance: 1, AccessCount: n % 5 * 5,
			LastActiveAt: goldenNow.Add(-time.Duration(25-n) * day), FirstSeq: int64(10*n + 1), LastSeq: int64(10*n + 10),
		}
	}
	return all
}

func TestGoldenDecay(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := Defaults()
	for _, round := range []struct {
		name    string
		topics  func() []Topic
		current byte
		later   time.Duration
	}{
		{"25 topics, the last one current", twentyFive, 25, 0},
		{"a month later", twentyFive, 25, 30 * day},
		{"half a year later, the first one current", twentyFive, 1, 180 * day},
		{"20 topics, half a year later", func() []Topic { return twentyFive()[:20] }, 20, 180 * day},
		{"21 topics, half a year later", func() []Topic { return twentyFive()[:21] }, 21, 180 * day},
		{"25 topics of which six are archived or merged, half a year later", func() []Topic {
			all := twentyFive()
			for n := range 6 {
				all[n].State = []State{Archived, Merged}[n%2]
			}
			return all
		}, 25, 180 * day},
		{"25 of no importance, at once", func() []Topic {
			all := twentyFive()
			for n := range all {
				all[n].Importance, all[n].LastActiveAt = float64(n%2), goldenNow
			}
			return all
		}, 25, 0},
	} {
		topics := round.topics()
		now := goldenNow.Add(round.later)
		fmt.Fprintf(&out, "== %s ==\n", round.name)
		for _, id := range s.DecayChoice(topics, uuid.UUID{round.current}, now) {
			topic := topics[slices.IndexFunc(topics, func(one Topic) bool { return one.ID == id })]
			fmt.Fprintf(&out, "%2d  %.6f  %d accesses\n", topic.Number, s.Priority(topic.Importance, topic.AccessCount, now.Sub(topic.LastActiveAt)), topic.AccessCount)
		}
	}
	golden.Check(t, "decay.golden", out.String())
}

func TestGoldenMerges(t *testing.T) {
	t.Parallel()
	by := ByMeaning{Model: "m1", Scale: evenScale}
	topic := func(number int, vector string, change func(*Topic)) Topic {
		made := Topic{
			ID: uuid.UUID{byte(number)}, Number: number, State: Active, Importance: 1, Centroid: vectorOf(t, vector), Model: "m1", CentroidTurns: number,
			AccessCount: number, MessageCount: 2 * number, FirstSeq: int64(10 * number), LastSeq: int64(10*number + 5),
			CreatedAt: goldenNow.Add(time.Duration(number) * time.Hour), LastActiveAt: goldenNow.Add(time.Duration(number) * time.Hour),
		}
		if change != nil {
			change(&made)
		}
		return made
	}
	var out strings.Builder
	for _, round := range []struct {
		name   string
		topics []Topic
	}{
		{"two alike", []Topic{topic(2, "cello:1", nil), topic(1, "cello:1,bees:.1", nil), topic(3, "bees:1", nil)}},
		{"just too different", []Topic{topic(1, "cello:1", nil), topic(2, "cello:.9,bees:.45", nil)}},
		{"three in a row: the nearest first, then by the new mean",
			[]Topic{topic(1, "cello:1", nil), topic(2, "cello:1,bees:.25", nil), topic(3, "cello:1,bees:.4", nil)}},
		{"short means are compared by their direction", []Topic{topic(1, "cello:1", nil), topic(2, "cello:1", func(o *Topic) { o.Centroid[0] = .5 })}},
		{"a renamed one stays", []Topic{topic(1, "cello:1", nil), topic(2, "cello:1", func(o *Topic) { o.Renamed = true })}},
		{"an archived one stays", []Topic{topic(1, "cello:1", func(o *Topic) { o.State = Archived }), topic(2, "cello:1", nil)}},
		{"one of another model stays", []Topic{topic(1, "cello:1", nil), topic(2, "cello:1", func(o *Topic) { o.Model = "m2" })}},
		{"one without vectors stays", []Topic{topic(1, "cello:1", nil), topic(2, "-", nil)}},
		{"none", nil},
	} {
		fmt.Fprintf(&out, "== %s ==\n", round.name)
		before := fmt.Sprint(round.topics)
		merges := MergeChoice(round.topics, by)
		assert.Equalf(t, before, fmt.Sprint(round.topics), "%s: topics were changed", round.name)
		for _, m := range merges {
			fmt.Fprintf(&out, "%d into %d at %.3f\n", m.From[0], m.Into[0], m.Similarity)
		}
	}
	golden.Check(t, "merges.golden", out.String())
}

func TestMergingAddsUp(t *testing.T) {
	t.Parallel()
	early, late := goldenNow, goldenNow.Add(day)
	into := Topic{
		State: Active, Importance: .4, Rated: true, AccessCount: 3, MessageCount: 8, Centroid: []float32{1, 0}, Model: "m", CentroidTurns: 3,
		CreatedAt: late, LastActiveAt: late, FirstSeq: 9, LastSeq: 40,
	}
	from := Topic{
		State: Active, Importance: 1, AccessCount: 1, MessageCount: 4, Centroid: []float32{0, 1}, Model: "m", CentroidTurns: 1,
		CreatedAt: early, LastActiveAt: early, FirstSeq: 1, LastSeq: 4,
	}
	into.Absorb(&from)
	assert.Truef(t, into.AccessCount == 4 && into.MessageCount == 12 && into.CentroidTurns == 4 && into.Importance == .4 &&
		slices.Equal(into.Centroid, []float32{.75, .25}) && into.CreatedAt.Equal(early) && into.LastActiveAt.Equal(late) && into.FirstSeq == 1 && into.LastSeq == 40,
		"%+v", into)
	assert.Truef(t, from.State == Merged && from.Centroid == nil && from.CentroidTurns == 0, "%+v", from)
	bare, other := Topic{Importance: .5}, Topic{Importance: .2, Rated: true, Centroid: []float32{1}, Model: "x", CentroidTurns: 2}
	bare.Absorb(&other)
	assert.Truef(t, bare.Rated && bare.Importance == .2 && bare.Model == "x" && bare.CentroidTurns == 2, "%+v", bare)
	mixed, foreign := Topic{Centroid: []float32{1}, Model: "x", CentroidTurns: 2}, Topic{Centroid: []float32{.5}, Model: "y", CentroidTurns: 7}
	mixed.Absorb(&foreign)
	assert.Truef(t, mixed.Model == "x" && mixed.CentroidTurns == 2 && mixed.Centroid[0] == 1, "%+v", mixed)
}

// However turns come, their counts add up, a centroid is the mean of the turns that moved it, and the topic of a turn is one of
// the chat's.
func TestAssignmentsAddUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := &Chat{Settings: Defaults(), ByMeaning: ByMeaning{Model: "m", Scale: evenScale}}
		chosen := make([]Turn, 40)
		moved := map[uuid.UUID][][]float32{}
		open := map[int]bool{}
		play := func(n int, next *Turn) {
			before := uuid.Nil
			if n > 0 {
				before = chosen[n-1].TopicID
			}
			d := c.Assign(chosen[n], next, before)
			chosen[n].TopicID, open[n] = d.Topic.ID, d.Model == nil
			require.Truef(t, slices.Contains(c.Topics, d.Topic), "seed %d, turn %d: a topic of no chat", seed, n)
			if d.Model != nil && *d.Model == "m" {
				moved[d.Topic.ID] = append(moved[d.Topic.ID], chosen[n].Vector)
			}
		}
		for n := range chosen {
			chosen[n] = Turn{Seq: int64(2*n + 1), LastSeq: int64(2*n + 2), SaidAt: goldenNow.Add(time.Duration(n) * time.Hour), Messages: 1 + r.IntN(3),
				Question: "How should I rosin the bow?"}
			switch r.IntN(4) {
			case 0:
			case 1:
				chosen[n].Question = "ok"
				fallthrough
			default:
				chosen[n].Vector = unit(r)
			}
			play(n, []*Turn{nil, {Question: "Which rosin do I need now?", Vector: unit(r)}}[r.IntN(2)])
		}
		for n := range chosen {
			if open[n] && chosen[n].Vector == nil {
				chosen[n].Vector = unit(r)
			}
			if open[n] {
				play(n, &Turn{Question: "Which rosin do I need now?", Vector: unit(r)})
			}
		}
		checkCounts(t, seed, c, chosen, moved)
	}
}

func unit(r *rand.Rand) []float32 {
	return [][]float32{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {.6, .8, 0}, {0, .8, .6}}[r.IntN(5)]
}

func checkCounts(t *testing.T, seed uint64, c *Chat, turns []Turn, moved map[uuid.UUID][][]float32) {
	for _, topic := range c.Topics {
		messages, held := 0, 0
		for _, turn := range turns {
			if turn.TopicID == topic.ID {
				messages, held = messages+turn.Messages, held+1
			}
		}
		assert.Truef(t, topic.MessageCount == messages && topic.AccessCount == max(held-1, 0),
			"seed %d, topic %d: %d messages and %d accesses, counted %d in %d turns", seed, topic.Number, topic.MessageCount, topic.AccessCount, messages, held)
		var mean []float32
		for n, vector := range moved[topic.ID] {
			mean = Mean(mean, n, vector, 1)
		}
		assert.Truef(t, topic.CentroidTurns == len(moved[topic.ID]) && slices.Equal(topic.Centroid, mean),
			"seed %d, topic %d: %v of %d, not %v of %d", seed, topic.Number, topic.Centroid, topic.CentroidTurns, mean, len(moved[topic.ID]))
	}
}
