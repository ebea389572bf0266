package history

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// TopicsQuery asks for topics of a chat.
type TopicsQuery struct {
	State string `query:"state" enum:"active,archived,merged" description:"Only topics in this state; all when it is left out."`
	// Text is what topics are looked for by; "" for all.
	Text string `query:"q" maxLength:"500" description:"Words that titles, summaries or tags have, the best matches first. A search has one page."`
	// Tag is one that the topics must have; "" for any or none.
	Tag   string `query:"tag" maxLength:"64" description:"Only topics that have this tag."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"200" description:"How many topics."`
	// After is where the page before ended; nil for the first.
	After *TopicCursor `query:"cursor,omitempty" nullable:"false" description:"next_cursor of the page before."`
}

func (q *TopicsQuery) check(problems) error {
	q.Text, q.Tag = strings.TrimSpace(q.Text), strings.TrimSpace(q.Tag)
	return nil
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

func (c *TopicChange) check(problems) error {
	if c.Title != nil {
		*c.Title = strings.Join(strings.Fields(*c.Title), " ")
	}
	return nil
}

// TopicMerge names the topic that another is merged into.
type TopicMerge struct {
	_    struct{} `description:"The topic that another is merged into."`
	Into string   `json:"into" required:"true" format:"uuid" description:"A topic of the same chat."`

	// Target is that id, set by Check.
	Target uuid.UUID
}

// check reads the id.
func (m *TopicMerge) check(wrong problems) (err error) {
	if m.Into == "" {
		wrong["into"] = "is missing"
	}
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
	Content string   `json:"content" required:"true" minLength:"1" maxLength:"32000" description:"1 to 32000 characters after trimming."`
}

func (q *Question) check(problems) error {
	q.Content = strings.TrimSpace(q.Content)
	return nil
}

// TopicCursor is where a page of topics ended.
type TopicCursor struct {
	LastActiveAt time.Time
	ID           uuid.UUID
}

// topicCursorVersion tells the text form from those of other pages.
const topicCursorVersion = 3

// String returns the cursor's text form.
func (c TopicCursor) String() string { return encodePlace(topicCursorVersion, c.LastActiveAt, c.ID) }

// MarshalText returns the cursor's text form.
func (c TopicCursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a cursor's text form and refuses any other text with fault.BadRequest.
func (c *TopicCursor) UnmarshalText(text []byte) (err error) {
	c.LastActiveAt, c.ID, err = decodePlace(topicCursorVersion, "topics", string(text))
	return err
}
