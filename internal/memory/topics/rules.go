package topics

import (
	"cmp"
	"time"

	"github.com/google/uuid"
)

// Turn is an indexed turn that has no topic yet, or one that was chosen without its vector or the turn after it.
type Turn struct {
	Seq, LastSeq int64
	SaidAt       time.Time
	// Question is the text of its user messages.
	Question string
	// Opening is the message that a title is made of, and OpeningSeq its seq: the first of the user's or, without one, of all.
	Opening    string
	OpeningSeq int64
	// Vector is of unit length and of the chat's model; nil if there is none yet.
	Vector []float32
	// Messages is how many messages of the turn count as messages of its topic.
	Messages int
	// TopicID is the topic that was chosen so; uuid.Nil for none.
	TopicID uuid.UUID
	// Importance is the app's for a message of the turn, the last that it set; nil for none. Pinned is
	// whether one is pinned, and Ratings are the ratings of its messages, in order. They count where the turn had no topic
	// before, and for the topic that it begins.
	Importance *float64
	Pinned     bool
	Ratings    []int
	// Given is the topic that the file says from which the chat was imported; nil for none.
	Given *Given
	// Before is the seq of the turn before, 0 for none, and BeforeTopic its topic.
	Before      int64
	BeforeTopic uuid.UUID
	// BeforeWaits and NextWaits report that the turn before it, or the one after it, waits for its vector.
	BeforeWaits, NextWaits bool
}

// Given is a topic of an imported file, as conversation_briefs.imported_topics has it. What the file says of its importance
// holds; that of its turns is in it already.
type Given struct {
	// TopicID is nil until its first turn has made the topic.
	TopicID *uuid.UUID `json:"topic_id"`
	// Title is the one that a person gave it, and Tags are a person's; nil once the topic has them.
	Title      *string  `json:"title"`
	Tags       []string `json:"tags"`
	Importance float64  `json:"importance"`
	Rated      bool     `json:"rated"`
	// Turns are the seqs at which its turns begin.
	Turns []int64 `json:"turns"`
}

// How says how a turn's topic was chosen.
type How string

// The ways in which a topic is chosen.
const (
	// ByMatch is for a turn that is near enough to the centroid of a topic.
	ByMatch How = "matched"
	// ByStart is for a turn that begins a new topic.
	ByStart How = "started"
	// ByDigression is for a turn that is near to no topic and that the next turn does not follow: it stays with the turn before.
	ByDigression How = "digressed"
	// ByWaiting is for a turn that is near to no topic while there is no next one: it stays with the turn before until then.
	ByWaiting How = "waiting"
	// ByShortness is for a turn that says too little, and stays with the turn before.
	ByShortness How = "short"
	// ByLanguage is for a turn in a language that the model does not tell apart, which stays with the turn before.
	ByLanguage How = "language"
	// ByImport is for a turn whose topic the file says from which the chat was imported.
	ByImport How = "imported"
	// ByDefault is for a turn without a vector, which stays with the turn before until it has one.
	ByDefault How = "default"
)

// Decision is the topic of a turn.
type Decision struct {
	How   How
	Topic *Topic
	// Model is what turn_index.topic_model is to be: the model by whose vectors the topic was chosen; "" if none is to
	// choose again; nil if the topic is to be chosen again once the turn has a vector, and a next turn.
	Model *string
	// Similarity is what matched, continuity included; 0 where meaning was not asked.
	Similarity float64
	// Returned is whether the conversation came back to a packed topic, which is to be unpacked.
	Returned bool
	// Retitle is whether the topic's title, unless a user has set it, is to be made of this turn: all turns before it said
	// too little.
	Retitle bool
	// From is the topic that the turn has left, nil if it had none or stays. Its first and last seq, times and title are to
	// be made again from its turns; it is to be deleted when it has no message left.
	From *Topic
}

// Chat is the state that Assign goes by. It is changed by each decision. It is not safe for concurrent use.
type Chat struct {
	Settings Settings
	ByMeaning
	// Topics may be joined by a turn: the active and archived ones that begin after the last clear.
	Topics []*Topic
	// Cleared are the topics that begin before the last clear, which a turn may only leave: its user merged its topic into one.
	Cleared []*Topic
	// LastNumber is the highest number of any topic of the chat.
	LastNumber int
}

// Assign decides on a turn's topic, given that of the turn before, and counts the turn in. Turns are to come in the order
// of their seqs. next is the turn after it; nil if there is none yet.
func (c *Chat) Assign(turn Turn, next *Turn, before uuid.UUID) Decision {
	d := c.decide(&turn, next, c.byID(before))
	c.count(&turn, &d)
	return d
}

// Current returns the active topic that was talked about last, nil if there is none.
func (c *Chat) Current() *Topic {
	var current *Topic
	for _, t := range c.Topics {
		if t.State == Active && t.MessageCount > 0 && (current == nil || t.LastSeq > current.LastSeq) {
			current = t
		}
	}
	return current
}

func (c *Chat) byID(id uuid.UUID) *Topic { return find(c.Topics, id) }

func find(topics []*Topic, id uuid.UUID) *Topic {
	for _, t := range topics {
		if t.ID == id && id != uuid.Nil {
			return t
		}
	}
	return nil
}

func (c *Chat) decide(turn, next *Turn, before *Topic) Decision {
	stay := before
	if stay == nil {
		stay = c.Current()
	}
	d := Decision{How: ByDefault, Topic: stay}
	given := c.given(turn)
	switch final := ""; {
	case turn.Vector == nil:
	case IsShort(turn.Question):
		d.How, d.Model = ByShortness, &final
	case !c.Scale.Reads(turn.Question):
		d.How, d.Model = ByLanguage, &final
	default:
		d.Model = &c.Model
		if given == nil {
			d.How, d.Topic, d.Similarity = c.match(turn, next, before, stay)
		}
		if d.How == ByWaiting {
			d.Model = nil
		}
	}
	if given != nil {
		d.How, d.Topic = ByImport, given
	}
	if d.Topic == nil {
		d.How, d.Topic = ByStart, c.start(turn)
	}
	d.Returned = d.Topic.Packed && d.Topic != before || d.Topic.State == Archived
	return d
}

// given returns the topic that a file says, which its first turn begins; nil for none, and for one that is gone.
func (c *Chat) given(turn *Turn) *Topic {
	switch {
	case turn.Given == nil:
		return nil
	case turn.Given.TopicID != nil:
		return c.byID(*turn.Given.TopicID)
	}
	t := c.start(turn)
	t.Renamed, t.Importance, t.Rated = turn.Given.Title != nil, turn.Given.Importance, turn.Given.Rated
	turn.Given.TopicID = &t.ID
	return t
}

// match finds the topic that a turn's vector is near to, or that it stays with; a nil topic if it begins one. A topic that
// has no centroid yet, as its turns said too little, takes the turn that follows them, and the one it began with.
func (c *Chat) match(turn, next *Turn, before, stay *Topic) (How, *Topic, float64) {
	best, found := c.Nearest(turn.Vector, before)
	if found != nil && best >= c.Settings.Similarity {
		return ByMatch, found, best
	}
	if own := c.byID(turn.TopicID); own != nil && own.Centroid == nil && own.FirstSeq == turn.Seq {
		return ByStart, own, 0
	}
	switch {
	case stay == nil:
		return ByStart, nil, 0
	case stay.Centroid == nil && c.saidLittle(turn, stay):
		return ByMatch, stay, 0
	case next == nil:
		return ByWaiting, stay, 0
	case !c.follows(next, turn, stay):
		return ByDigression, stay, 0
	}
	return ByStart, nil, 0
}

// unlike is a similarity of which two turns have nothing in common: half of that of unrelated ones.
const unlike = .1

// follows reports whether the next turn goes on with the topic that a turn would begin: whether they are nearer to each other than one
// of them is to the topic before, or both have nothing in common with that. Otherwise that was an aside, and a topic of its
// own would be one of a single turn.
func (c *Chat) follows(next, turn *Turn, before *Topic) bool {
	if next.Vector == nil || !c.Scale.Reads(next.Question) {
		return false
	}
	on, _ := c.Similarity(next.Vector, turn.Vector)
	stays, _ := c.Similarity(turn.Vector, before.Centroid)
	back, _ := c.Similarity(next.Vector, before.Centroid)
	near := max(stays, back)
	return on > near+c.Settings.Continuity || near < unlike
}

// saidLittle reports whether nothing but short turns before this one belongs to a topic without centroid.
func (c *Chat) saidLittle(turn *Turn, t *Topic) bool {
	return t.CentroidTurns == 0 && t.FirstSeq < turn.Seq
}

// Nearest returns the topic that a vector is nearest to, and how near, with Continuity for the topic of the turn before;
// nil without any. Use it for a question as well, with the chat's current topic as before.
func (c *Chat) Nearest(vector []float32, before *Topic) (similarity float64, nearest *Topic) {
	for _, t := range c.Topics {
		if t.Model != c.Model || t.State == Merged {
			continue
		}
		near, ok := c.Similarity(vector, t.Centroid)
		if !ok {
			continue
		}
		if t == before {
			near += c.Settings.Continuity
		}
		if nearest == nil || near > similarity {
			similarity, nearest = near, t
		}
	}
	return similarity, nearest
}

func (c *Chat) start(turn *Turn) *Topic {
	c.LastNumber++
	t := &Topic{
		ID: uuid.New(), Number: c.LastNumber, State: Active, Importance: 1,
		CreatedAt: turn.SaidAt, LastActiveAt: turn.SaidAt, FirstSeq: turn.Seq, LastSeq: turn.LastSeq,
	}
	c.Topics = append(c.Topics, t)
	return t
}

// count moves the turn into its topic and out of the one that it leaves.
func (c *Chat) count(turn *Turn, d *Decision) {
	t, from := d.Topic, cmp.Or(c.byID(turn.TopicID), find(c.Cleared, turn.TopicID))
	joins := from != t
	if joins && from != nil {
		from.MessageCount = max(from.MessageCount-turn.Messages, 0)
		from.AccessCount = max(from.AccessCount-1, 0)
		d.From = from
	}
	if joins {
		c.join(turn, t)
	}
	if turn.Given == nil && joins && (turn.TopicID == uuid.Nil || d.How == ByStart) {
		t.weigh(turn)
	}
	if d.Model != nil && *d.Model != "" {
		d.Retitle = t.CentroidTurns == 0 && t.FirstSeq < turn.Seq && !t.Renamed
		t.Centroid, t.Model = Mean(t.Centroid, t.CentroidTurns, turn.Vector, 1), c.Model
		t.CentroidTurns++
	}
	if d.Returned {
		t.State, t.Packed = Active, false
	}
}

func (c *Chat) join(turn *Turn, t *Topic) {
	if t.MessageCount > 0 || t.FirstSeq < turn.Seq {
		t.AccessCount++
	}
	t.MessageCount += turn.Messages
	t.FirstSeq, t.LastSeq = min(t.FirstSeq, turn.Seq), max(t.LastSeq, turn.LastSeq)
	if turn.SaidAt.After(t.LastActiveAt) {
		t.LastActiveAt = turn.SaidAt
	}
	if turn.SaidAt.Before(t.CreatedAt) {
		t.CreatedAt = turn.SaidAt
	}
}

// weigh applies the importance, ratings and pins of a turn's messages.
func (t *Topic) weigh(turn *Turn) {
	if turn.Importance != nil {
		t.Importance, t.Rated = *turn.Importance, true
	}
	for _, rating := range turn.Ratings {
		t.Importance, t.Rated = Rate(t.Importance, rating), true
	}
	if turn.Pinned {
		t.Importance = PinnedImportance(t.Importance)
	}
}
