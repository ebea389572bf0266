package topics

import (
	"context"
	"log/slog"
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

// AssignReport is what an assignment did, as River's table and the log have it.
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

// Decayed is what a decay did.
type Decayed struct {
	// Chats is how many chats have more active topics than they should.
	Chats    int `json:"chats"`
	Archived int `json:"archived"`
}

// Merging is what merging did.
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

// mergeSlack is for what stored vectors are rounded by: topics of which Postgres finds that they may be alike are compared again.
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
