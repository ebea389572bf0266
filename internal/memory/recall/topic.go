package recall

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// TopicRules say when a question is about a topic of its chat.
type TopicRules struct {
	// Similarity is from which similarity on, Continuity included, a question is about a topic.
	Similarity float64
	// Continuity is added for the topic that the chat talked of last.
	Continuity float64
}

// TopicPlace is a topic of a chat as a question needs it, without its words.
type TopicPlace struct {
	ID uuid.UUID
	// Latest is whether the chat talked of it last.
	Latest bool
	// Left is whether turns of it left the prompt and the chat has talked of something else since: what is said about it
	// now comes back to it.
	Left bool
	// Cosine is that of its centroid and the question's vector, if HasCosine.
	Cosine    float64
	HasCosine bool
}

// Topic is the topic that a conversation has come back to.
type Topic struct {
	ID    uuid.UUID
	Title string
	// Summary is "" where there is none.
	Summary string
	// Since is when its first turn was said, and Turns is how many it has.
	Since time.Time
	Turns int
}

// topicTurns is how many of the turns that were found choose the topic.
const topicTurns = 6

// topicByWords returns the topic of most of the best turns that were found, weighed by how well it fits; uuid.Nil for none, or for one that
// the conversation has not left.
func topicByWords(topics []TopicPlace, found []*candidate) uuid.UUID {
	weights, all := map[uuid.UUID]float64{}, 0.
	for _, c := range found[:min(len(found), topicTurns)] {
		weight := share(c.score)
		weights[c.TopicID] += weight
		all += weight
	}
	for _, t := range topics {
		if t.Left && weights[t.ID] > all/2 {
			return t.ID
		}
	}
	return uuid.Nil
}

// topicByMeaning returns the topic that the question's vector is nearest to; uuid.Nil for none that is near enough, or for
// one that the conversation has not left. known is false where no topic can be compared.
func (rules TopicRules) topicByMeaning(topics []TopicPlace, scale Scale) (id uuid.UUID, known bool) {
	best, nearest := 0., TopicPlace{}
	for _, t := range topics {
		if !t.HasCosine {
			continue
		}
		known = true
		near := Similarity(t.Cosine, scale)
		if t.Latest {
			near += rules.Continuity
		}
		if near > best {
			best, nearest = near, t
		}
	}
	if best < rules.Similarity || !nearest.Left {
		return uuid.Nil, known
	}
	return nearest.ID, known
}

// within returns the turns of a topic, or all of them if it has none.
func within(topic uuid.UUID, turns []*candidate) []*candidate {
	own := slices.DeleteFunc(slices.Clone(turns), func(c *candidate) bool { return c.TopicID != topic })
	if topic == uuid.Nil || len(own) == 0 {
		return turns
	}
	return own
}
