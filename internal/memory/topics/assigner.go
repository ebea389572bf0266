package topics

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

const (
	// turnsAtOnce bounds one transaction. A chat from before it had topics takes several.
	turnsAtOnce = 200
	// chatsAtOnce is how many chats an hourly job looks up at a time.
	chatsAtOnce = 100
)

// Assigner keeps the topics of conversations. It is safe for concurrent use. All fields are required except where noted.
type Assigner struct {
	Store    AssignStore
	Settings Settings
	// Mode is TOPICS.
	Mode string
	// Model makes the vectors of turns, and Scales says what cosines of turns mean; "" and nil without an embedder, and for one
	// whose vectors mean nothing. Then a chat has one topic.
	Model  string
	Scales *recall.Scales

	Metrics *metrics.Metrics
	Logger  *slog.Logger
}

// AssignReport is the outcome of an assignment, as River's table and the log have it.
type AssignReport struct {
	// Turns is how many turns have a topic now that had none, or may have another one.
	Turns int `json:"turns"`
	// Matched of them came to a topic by their meaning, Stayed followed the turn before them, and New began a topic.
	Matched int `json:"matched"`
	Stayed  int `json:"stayed"`
	New     int `json:"new_topics"`
	// Corrected is how many of them have another topic than they were given without a vector.
	Corrected int `json:"corrected"`
	// Returned is how many topics were unpacked because the conversation came back to them.
	Returned int `json:"returned"`
	// More is whether there are more turns, for the next job.
	More bool `json:"more"`
	// Busy is whether another worker is at the chat's topics; then nothing was done.
	Busy bool `json:"-"`
}

// Decayed is the outcome of a decay.
type Decayed struct {
	// Chats is how many chats have more active topics than they should.
	Chats    int `json:"chats"`
	Archived int `json:"archived"`
}

// Merging is the outcome of merging.
type Merging struct {
	// Chats is how many chats have topics that are alike.
	Chats  int `json:"chats"`
	Merged int `json:"merged"`
}

// meaning returns by whose vectors topics are told apart; none before the model's scale is known.
func (e *Assigner) meaning(ctx context.Context) (ByMeaning, error) {
	if e.Model == "" || e.Scales == nil {
		return ByMeaning{}, nil
	}
	scale, known, err := e.Scales.Known(ctx)
	if err != nil || !known {
		return ByMeaning{}, err
	}
	return ByMeaning{Model: e.Model, Scale: scale}, nil
}

// Wanted reports whether a chat has topics, and turns for them.
func (e *Assigner) Wanted(ctx context.Context, chatID uuid.UUID) (bool, error) {
	by, err := e.meaning(ctx)
	if err != nil {
		return false, err
	}
	return e.Store.Wanted(ctx, chatID, Scope{Mode: e.Mode, Model: by.Model})
}

// Assign gives the turns of a chat that have no topic theirs, and those that were given one without a vector another one if
// they have one now.
func (e *Assigner) Assign(ctx context.Context, chatID uuid.UUID, attempt work.Attempt) (AssignReport, error) {
	by, err := e.meaning(ctx)
	if err != nil {
		return AssignReport{}, err
	}
	began := time.Now()
	var change *Assignment
	ways := map[How]int{}
	claimed, err := e.Store.Assign(ctx, chatID, Scope{Mode: e.Mode, Model: by.Model}, turnsAtOnce, func(s *AssignSnapshot) *Assignment {
		clear(ways)
		change = e.decide(s, by.Scale, attempt.JobID, ways)
		return change
	})
	if err != nil || !claimed || change == nil {
		return AssignReport{Busy: err == nil && !claimed}, err
	}
	for how, turns := range ways {
		e.Metrics.TopicTurns.WithLabelValues(string(how)).Add(float64(turns))
	}
	if report := change.Report; report.Turns > 0 {
		e.Logger.LogAttrs(ctx, slog.LevelInfo, "topics assigned", slog.String("chat_id", chatID.String()),
			slog.Int("turns", report.Turns), slog.Int("matched", report.Matched), slog.Int("stayed", report.Stayed), slog.Int("new_topics", report.New),
			slog.Int("corrected", report.Corrected), slog.Int("returned", report.Returned),
			slog.Int64("duration_ms", time.Since(began).Milliseconds()))
	}
	return change.Report, nil
}

// Decay archives topics that faded, in all chats with more than enough, until patience is over.
func (e *Assigner) Decay(ctx context.Context, patience time.Duration) (done Decayed, err error) {
	deadline := time.Now().Add(patience)
	for after := (Faded{}); time.Now().Before(deadline); {
		chats, err := e.Store.Fading(ctx, after, e.Settings.Max, chatsAtOnce)
		if err != nil || len(chats) == 0 {
			return done, err
		}
		for _, after = range chats {
			if !after.Crowded {
				continue
			}
			archived, err := e.Store.Archive(ctx, after.ChatID, e.faded)
			if err != nil {
				return done, err
			}
			done.Chats, done.Archived = done.Chats+1, done.Archived+archived
			e.Metrics.TopicsDecayed.Add(float64(archived))
		}
	}
	return done, nil
}

// faded returns the topics of a chat that are to be archived, and when others may be.
func (e *Assigner) faded(all []Topic) (archive []uuid.UUID, next *time.Time) {
	now := time.Now()
	archive = e.Settings.DecayChoice(all, current(all), now)
	return archive, e.Settings.NextDecay(all, archive, now)
}

// current returns the active topic that was talked about last.
func current(all []Topic) uuid.UUID {
	chat := Chat{}
	for n := range all {
		chat.Topics = append(chat.Topics, &all[n])
	}
	if t := chat.Current(); t != nil {
		return t.ID
	}
	return uuid.Nil
}

// mergeSlack allows for the rounding of stored vectors: topics of which Postgres finds that they may be alike are compared again.
const mergeSlack = .01

// Merge merges topics of a chat that are the same, in all chats, until patience is over.
func (e *Assigner) Merge(ctx context.Context, patience time.Duration) (done Merging, err error) {
	by, err := e.meaning(ctx)
	if err != nil || by.Model == "" {
		return done, err
	}
	cosine := recall.Cosine(MergeAt, by.Scale) - mergeSlack
	deadline := time.Now().Add(patience)
	for after := uuid.Nil; time.Now().Before(deadline); {
		chats, err := e.Store.Alike(ctx, after, by.Model, cosine, chatsAtOnce)
		if err != nil || len(chats) == 0 {
			return done, err
		}
		for _, chat := range chats {
			after = chat.ChatID
			if !chat.Alike {
				continue
			}
			merged, err := e.Store.Merge(ctx, chat.ChatID, func(all []Topic) []Merge { return MergeChoice(all, by) })
			if err != nil {
				return done, err
			}
			done.Chats, done.Merged = done.Chats+1, done.Merged+merged
			e.Metrics.TopicsMerged.Add(float64(merged))
		}
	}
	return done, nil
}

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
func nextOf(turns []Turn, n int) *Turn {
	switch {
	case n+1 == len(turns) || turns[n].NextWaits:
		return nil
	case turns[n+1].Before == turns[n].Seq:
		return &turns[n+1]
	}
	return &Turn{}
}

func (d *decisions) decide(turn *Turn, next *Turn) {
	before, ok := d.chosen[turn.Before]
	if !ok {
		before = turn.BeforeTopic
	}
	meaningless := turn.Vector != nil && !d.means(turn)
	if meaningless {
		turn.Vector = nil
	}
	topicsBefore := len(d.chat.Topics)
	made := d.chat.Assign(*turn, next, before)
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

// means reports whether a turn's vector carries its meaning: not in a language that the model does not read, and not if
// the model found nothing in it.
func (d *decisions) means(turn *Turn) bool {
	return d.chat.Scale.Reads(turn.Question) && slices.ContainsFunc(turn.Vector, func(v float32) bool { return v != 0 })
}

// count notes the changes of a decision.
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
