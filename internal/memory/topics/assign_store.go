package topics

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Scope says which chats have topics, and by whose vectors.
type Scope struct {
	// Mode is TOPICS: auto, on or off.
	Mode string
	// Model makes the vectors; "" if there are none, or none that mean something.
	Model string
}

// AssignStore keeps topics. Each of its methods that names a chat is one transaction, in which nobody else changes the chat's
// topics. It may try again: then what it calls must begin from nothing.
type AssignStore interface {
	// Wanted reports whether a chat has topics, and turns for them.
	Wanted(ctx context.Context, chatID uuid.UUID, in Scope) (bool, error)
	// Assign reads what a chat has, at most so many turns of it, and writes what decide makes of that. It inserts the jobs that
	// come of it: the next one for more turns, compactions of topics, and a decay where a chat got too many. It reports false if
	// somebody else changes the chat's topics.
	Assign(ctx context.Context, chatID uuid.UUID, in Scope, most int, decide func(*AssignSnapshot) *Assignment) (bool, error)
	// Fading looks at the next chats whose topics may have faded, at most so many, and returns them in their order, after one.
	// Those with no more than maxTopics active topics are done. Alike does the same for chats whose topics changed since they
	// were compared; those without two whose centroids have at least that cosine and that nobody has named are done.
	Fading(ctx context.Context, after Faded, maxTopics, most int) ([]Faded, error)
	Alike(ctx context.Context, after uuid.UUID, model string, cosine float64, most int) ([]Compared, error)
	// Archive archives the topics of a chat that choose returns, and returns how many; with when to look at the chat again,
	// nil for when it has another topic. Chats of which somebody else changes the topics are left for the next time.
	Archive(ctx context.Context, chatID uuid.UUID, choose func([]Topic) ([]uuid.UUID, *time.Time)) (int, error)
	// Merge merges the topics of a chat that choose returns, has those compacted that others were merged into, and returns how many
	// were merged.
	Merge(ctx context.Context, chatID uuid.UUID, choose func([]Topic) []Merge) (int, error)
}

// Faded is a chat whose topics may have faded at a time. Crowded is whether it has too many.
type Faded struct {
	ChatID  uuid.UUID
	At      time.Time
	Crowded bool
}

// Compared is a chat whose topics have changed. Alike is whether two of them may be the same.
type Compared struct {
	ChatID uuid.UUID
	Alike  bool
}

// AssignSnapshot is what an assignment goes by.
type AssignSnapshot struct {
	// Model is the scope's; "" while vectors of topics are made again after a change of the model.
	Model string
	// Turns are in order of seq. More is whether there are others.
	Turns []Turn
	More  bool
	// Topics are those that turns may join, Cleared those that they may only leave.
	Topics, Cleared []*Topic
	LastNumber      int
	// Given are topics of the file from which the chat was imported. Those that turns begin get their TopicID.
	Given []*Given
}

// Given is a topic of an imported file, with what a person chose for it, and the seqs at which its turns begin.
type Given struct {
	Placed
	Title *string
	Tags  []string
	Turns []int64
}

// Turn is a turn for which a topic is to be chosen.
type Turn struct {
	Indexed
	// Before is the seq of the turn before, 0 for none, and BeforeTopic its topic.
	Before      int64
	BeforeTopic uuid.UUID
	// BeforeWaits and NextWaits report that the turn before it, or the one after it, waits for its vector.
	BeforeWaits, NextWaits bool
}

// Assignment is what an assignment writes.
type Assignment struct {
	// JobID is the job to complete, with the report as its output; 0 for none.
	JobID  int64
	Report AssignReport
	// New are topics that begin, and Changed those that have turns more or less.
	New     []Titled
	Changed []*Topic
	// Retitled get a new title.
	Retitled []Titled
	// Chosen are the turns' topics.
	Chosen []Chosen
	// Recounted are topics that a turn has left, or joined out of turn: what they have is counted again.
	Recounted []uuid.UUID
	// Returned are packed topics that the conversation has come back to.
	Returned []uuid.UUID
	// MaxMessages is how many active messages a topic may have, MaxTopics how many active topics a chat.
	MaxMessages, MaxTopics int
}

// Titled is a topic with its title, and the message that this is made of.
type Titled struct {
	*Topic
	Title    string
	TitleSeq int64
}

// Chosen is the topic of a turn. Model is topics.Decision's.
type Chosen struct {
	Seq     int64
	TopicID uuid.UUID
	Model   *string
}
