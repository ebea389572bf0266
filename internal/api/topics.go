package api

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// Topics reads and changes the topics of a chat, with the user's rights: another user's topic does not exist. Callers run
// a request's Check first. Methods return fault.NoChat for a chat that does not exist, fault.Expired for one that has
// expired, and NoTopic when the chat has no such topic.
type Topics interface {
	// ListTopics returns a chat's topics, those with the latest activity first or, for a query with a Text, the best
	// matches. It does not wait for turns that have no topic yet, but has them assigned.
	ListTopics(ctx context.Context, user auth.Principal, chatID uuid.UUID, query TopicsQuery) (TopicPage, error)
	FindTopic(ctx context.Context, user auth.Principal, ref TopicRef) (OneTopic, error)
	// ChangeTopic changes the fields that are set and no others.
	ChangeTopic(ctx context.Context, user auth.Principal, ref TopicRef, change TopicChange) (OneTopic, error)
	// MergeTopic merges a topic into another of its chat, and returns that. It returns fault.ValidationFailed if they are
	// the same, or one of them is merged already.
	MergeTopic(ctx context.Context, user auth.Principal, ref TopicRef, into uuid.UUID) (OneTopic, error)

	// TopicHistory returns a topic's active messages, with the query's IncludeCompressed all of them.
	TopicHistory(ctx context.Context, user auth.Principal, ref TopicRef, query TopicHistoryQuery) (TopicHistory, error)
	TopicStats(ctx context.Context, user auth.Principal, ref TopicRef) (TopicStats, error)
	// TopicArchive returns the topic's packed messages.
	TopicArchive(ctx context.Context, user auth.Principal, ref TopicRef) (TopicArchive, error)
	// TopicContext returns the summary and the active messages of a topic. The current one has later messages that have
	// no topic yet, too. For a chat without a current topic it returns the latest messages.
	TopicContext(ctx context.Context, user auth.Principal, ref TopicRef) (TopicContext, error)

	// RateMessage stores how the user liked a message, and moves the importance of its topic when that is a change. It
	// returns NoMessage for a message that does not exist.
	RateMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, feedback Feedback) (Message, error)
}

// Rewriter makes questions that stand alone.
type Rewriter interface {
	// Standalone returns a question as somebody would ask it who has not read the chat. It asks no model where nothing was
	// said before. For a chat that does not exist it returns fault.NoChat.
	Standalone(ctx context.Context, user auth.Principal, chatID uuid.UUID, question Question) (Standalone, error)
}

// NoTopic is the error for a topic that does not exist, or is not of this chat.
func NoTopic() error { return fault.New(fault.TopicNotFound, "This chat has no such topic.") }

// CurrentTopic is how a path names the topic that a chat is about now.
const CurrentTopic = "current"

// TopicRef names a topic of a chat.
type TopicRef struct {
	ChatID uuid.UUID
	// Current is set for the active topic with the latest turn; ID is that of any other.
	Current bool
	ID      uuid.UUID
}

// Topic is something that a chat was about, as its owner sees it.
type Topic struct {
	_            struct{}  `description:"Something that a chat was about."`
	ID           uuid.UUID `json:"id"`
	Number       int       `json:"number" description:"1 for the first topic of the chat, 2 for the next …"`
	Title        string    `json:"title" description:"By the user, by the model with the first summary, or of its first message. … while a job makes it."`
	Summary      *string   `json:"summary" description:"Of its older messages; null as long as there are few."`
	Tags         []string  `json:"tags" nullable:"false"`
	Importance   float32   `json:"importance" minimum:"0" maximum:"1"`
	AccessCount  int       `json:"access_count" description:"How often the chat came to it again."`
	MessageCount int       `json:"message_count" description:"Messages of the user and the assistant."`
	State        string    `json:"state" enum:"active,archived,merged" doc:"state"`
	MemoryType   string    `json:"memory_type" db:"-" enum:"short-term,transitioning,long-term"`
	HalfLifeDays float64   `json:"half_life_days" db:"-" description:"Days after which its priority is half, without activity."`
	Priority     float64   `json:"priority" db:"-" minimum:"0" maximum:"1" doc:"priority"`
	CreatedAt    time.Time `json:"created_at" description:"When its first turn was said."`
	LastActiveAt time.Time `json:"last_active_at" description:"When its last turn was said."`
}

// OneTopic is a topic that was asked for by itself.
type OneTopic struct {
	_ struct{} `description:"Something that a chat was about."`
	Topic
	MergedInto *uuid.UUID `json:"merged_into" description:"The topic that its turns belong to now; null for its own."`
}

// TopicPage is a page of a chat's topics. Next is where the next page begins; nil after the last.
type TopicPage struct {
	Topics []Topic      `json:"topics" nullable:"false"`
	Next   *TopicCursor `json:"next_cursor,omitempty" nullable:"false" description:"Asks for the next page. It is left out after the last, and for a search."`
}

// TopicHistory are messages of a topic.
type TopicHistory struct {
	Messages []TopicMessage `json:"messages" nullable:"false" description:"In their order."`
}

// TopicMessage is a message of a topic.
type TopicMessage struct {
	_         struct{} `description:"A message of a topic."`
	Role      string   `json:"role" enum:"user,assistant"`
	Content   string   `json:"content"`
	Timestamp float64  `json:"timestamp" description:"Seconds since 1970, with microseconds."`
}

// TopicStats are figures of a topic at the time of the answer.
type TopicStats struct {
	_                  struct{}  `description:"Figures of a topic at the time of the answer."`
	TopicID            uuid.UUID `json:"topic_id"`
	TopicTitle         string    `json:"topic_title"`
	ActiveMessages     int       `json:"active_messages" description:"Messages that are not in the archive."`
	CompressedMessages int       `json:"compressed_messages" description:"Messages in the archive."`
	TotalMessages      int       `json:"total_messages"`
	HasSummary         bool      `json:"has_summary"`
	ImportanceScore    float32   `json:"importance_score" minimum:"0" maximum:"1"`
	AccessCount        int       `json:"access_count"`
	MemoryType         string    `json:"memory_type" db:"-" enum:"short-term,transitioning,long-term"`
	HalfLifeDays       float64   `json:"half_life_days" db:"-"`
	AgeSeconds         float64   `json:"age_seconds" description:"Since its first turn."`
	InactiveSeconds    float64   `json:"inactive_seconds" description:"Since its last turn."`
}

// TopicArchive is a topic's archive as text.
type TopicArchive struct {
	_                  struct{} `description:"The messages of a topic that are packed away."`
	CompressedMessages *string  `json:"compressed_messages" description:"An array of messages as JSON, by gzip, in base64; null where nothing is packed."`
}

// TopicContext is a topic as a model would get it.
type TopicContext struct {
	_        struct{}         `description:"What a model would be told of a topic."`
	Messages []ContextMessage `json:"messages" nullable:"false" doc:"topicContext.messages"`
}

// ContextMessage is a message for a model.
type ContextMessage struct {
	_       struct{} `description:"A message for a model."`
	Role    string   `json:"role" enum:"system,user,assistant"`
	Content string   `json:"content"`
}

// SummaryPrefix begins the message that holds a topic's summary.
const SummaryPrefix = "Topic summary: "

// Standalone is a question that can be understood without its chat.
type Standalone struct {
	_         struct{} `description:"A question that can be understood without its chat."`
	Content   string   `json:"content"`
	Rewritten bool     `json:"rewritten" description:"false for the question as it was asked."`
}

// TopicsQuery asks for topics of a chat.
type TopicsQuery struct {
	State string `query:"state" enum:"active,archived,merged" description:"Only topics in this state; all when it is left out."`
	// Text is what topics are looked for by; "" for all.
	Text string `query:"q" trim:"" maxLength:"500" description:"Words that titles, summaries or tags have, the best matches first. A search has one page."`
	// Tag is one that the topics must have; "" for any or none.
	Tag   string `query:"tag" trim:"" maxLength:"64" description:"Only topics that have this tag."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"200" description:"How many topics."`
	// After is where the page before ended; nil for the first.
	After *TopicCursor `query:"cursor,omitempty" nullable:"false" description:"next_cursor of the page before."`
}

// TopicHistoryQuery asks for messages of a topic.
type TopicHistoryQuery struct {
	IncludeCompressed bool `query:"include_compressed" default:"false" description:"true includes the messages that are packed away."`
}

// TopicChange changes the fields that are set. A nil field stays.
type TopicChange struct {
	_          struct{}  `description:"What is to be changed. What is left out stays."`
	Title      *string   `json:"title,omitempty" nullable:"false" minLength:"1" maxLength:"80" doc:"title"`
	Tags       *[]string `json:"tags,omitempty" nullable:"false" each:"64" most:"20" doc:"tags"`
	Importance *float64  `json:"importance,omitempty" nullable:"false" minimum:"0" maximum:"1"`
}

func (c *TopicChange) check(problems) {
	if c.Title != nil {
		*c.Title = strings.Join(strings.Fields(*c.Title), " ")
	}
}

// TopicMerge names the topic that another is merged into.
type TopicMerge struct {
	_    struct{} `description:"The topic that another is merged into."`
	Into string   `json:"into" required:"true" format:"uuid" description:"A topic of the same chat."`

	// Target is that id, set by Check.
	Target uuid.UUID
}

func (m *TopicMerge) check(wrong problems) {
	if m.Into == "" {
		wrong["into"] = "is missing"
	}
}

func (m *TopicMerge) readIDs() (err error) {
	m.Target, err = idOf("topic", m.Into)
	return err
}

// Feedback is how a user liked a message.
type Feedback struct {
	_      struct{} `description:"How the user liked a message."`
	Rating *int     `json:"rating" required:"true" nullable:"false" minimum:"-1" maximum:"1" description:"1 for good, -1 for bad, 0 for neither."`
}

// Question is a question to be rewritten.
type Question struct {
	_       struct{} `description:"A question that may need its chat to be understood."`
	Content string   `json:"content" required:"true" trim:"" minLength:"1" maxLength:"32000" description:"1 to 32000 characters after trimming."`
}
