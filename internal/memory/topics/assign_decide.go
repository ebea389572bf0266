package topics

import (
	"slices"

	"github.com/arcoscribe/throughline/internal/memory/recall"

	"github.com/google/uuid"
)

// decide chooses the topics of all turns of a snapshot, and counts the ways in which they were chosen.
func (e *Assigner) decide(s *AssignSnapshot, scale recall.Scale, jobID int64, ways map[How]int) *Assignment {
	chat := &Chat{
		Settings: e.Settings, ByMeaning: ByMeaning{Model: s.Model, Scale: scale}, Topics: s.Topics, Cleared: s.Cleared,
		LastNumber: s.LastNumber,
	}
	d := decisions{
		chat: chat, known: len(s.Topics), chosen: map[int64]uuid.UUID{}, ways: ways,
		change: &Assignment{JobID: jobID, MaxMessages: e.Settings.MaxMessages, MaxTopics: e.Settings.Max},
	}
	for n := range s.Turns {
		d.decide(&s.Turns[n], nextOf(s.Turns, n))
	}
	d.change.Report.More = s.More
	return d.change
}

// decisions are those on the turns of one snapshot.
type decisions struct {
	chat *Chat
	// known is how many of the chat's topics were there before.
	known  int
	chosen map[int64]uuid.UUID // by the seq of the turn
	ways   map[How]int
	change *Assignment
}

// nextOf returns the turn after one; nil where that is not there, or has no vector yet, which is waited for. One that has its
// topic already, and so is not among the turns, says nothing.
func nextOf(turns []Turn, n int) *Indexed {
	switch {
	case n+1 == len(turns) || turns[n].NextWaits:
		return nil
	case turns[n+1].Before == turns[n].Seq:
		return &turns[n+1].Indexed
	}
	return &Indexed{}
}

func (d *decisions) decide(turn *Turn, next *Indexed) {
	before, ok := d.chosen[turn.Before]
	if !ok {
		before = turn.BeforeTopic
	}
	meaningless := turn.Vector != nil && !d.means(turn)
	if meaningless {
		turn.Vector = nil
	}
	topicsBefore := len(d.chat.Topics)
	made := d.chat.Assign(turn.Indexed, next, before)
	if meaningless {
		made.Model = new(string) // it is not chosen again
	}
	if turn.BeforeWaits && (made.How == ByShortness || made.How == ByLanguage) {
		made.Model = nil // it stays with a turn that may leave
	}
	d.chosen[turn.Seq] = made.Topic.ID
	d.ways[made.How]++
	d.count(turn, &made, len(d.chat.Topics) > topicsBefore)
}

// means reports whether a turn's vector says what it is about: not in a language that the model does not read, and not if
// the model found nothing in it.
func (d *decisions) means(turn *Turn) bool {
	return d.chat.Scale.Reads(turn.Question) && slices.ContainsFunc(turn.Vector, func(v float32) bool { return v != 0 })
}

// count notes what a decision changes.
func (d *decisions) count(turn *Turn, made *Decision, isNew bool) {
	change, report := d.change, &d.change.Report
	change.Chosen = append(change.Chosen, Chosen{Seq: turn.Seq, TopicID: made.Topic.ID, Model: made.Model})
	title := Titled{Topic: made.Topic, Title: Title(turn.Opening), TitleSeq: turn.OpeningSeq}
	report.Turns++
	switch {
	case isNew:
		report.New++
		change.New = append(change.New, title)
	case made.How == ByMatch:
		report.Matched++
	default:
		report.Stayed++
	}
	d.touch(made.Topic)
	if made.From != nil {
		report.Corrected++
		d.touch(made.From)
		d.recount(made.From)
	}
	if turn.TopicID != uuid.Nil {
		d.recount(made.Topic)
	}
	if made.Retitle {
		change.Retitled = append(change.Retitled, title)
	}
	if made.Returned {
		report.Returned++
		change.Returned = append(change.Returned, made.Topic.ID)
	}
}

// touch notes a topic that was there before as changed, once.
func (d *decisions) touch(t *Topic) {
	before := slices.Contains(d.chat.Topics[:d.known], t) || slices.Contains(d.chat.Cleared, t)
	if before && !slices.Contains(d.change.Changed, t) {
		d.change.Changed = append(d.change.Changed, t)
	}
}

func (d *decisions) recount(t *Topic) {
	if !slices.Contains(d.change.Recounted, t.ID) {
		d.change.Recounted = append(d.change.Recounted, t.ID)
	}
}
