package api

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/graph"
)

// Recall finds the earlier turns that a question may be about, the best messages first. Where no turns are
// indexed that is NoRecall.
type Recall interface {
	Recall(ctx context.Context, user auth.Principal, query RecallQuery) ([]RecallResult, error)
}

// RecallQuery is a question for which earlier turns are looked for. Only Text is required.
type RecallQuery struct {
	Text string `query:"q" required:"true" minLength:"1" maxLength:"500" description:"What to look for, in the user's own words. It need not be what was said."`
	// ChatID and TopicID restrict the search to one chat or topic; "" means all.
	ChatID  string `query:"chat_id" format:"uuid" description:"Look into this chat alone."`
	TopicID string `query:"topic_id" format:"uuid" description:"Look into this topic alone."`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20" description:"How many results are wanted."`

	// Chat and Topic are those ids, set by Check; uuid.Nil for none.
	Chat, Topic uuid.UUID
}

func (q *RecallQuery) readIDs() (err error) {
	if q.Chat, err = idOf("chat", q.ChatID); err != nil {
		return err
	}
	q.Topic, err = idOf("topic", q.TopicID)
	return err
}

// idOf reads an id; it returns uuid.Nil for "". No row has that id, and to recall it would mean all of them.
func idOf(of, id string) (uuid.UUID, error) {
	if id == "" {
		return uuid.Nil, nil
	}
	read, err := ParseID(id)
	if err != nil || read == uuid.Nil {
		return uuid.Nil, fault.New(fault.BadUUID, "The "+of+" id is not a uuid of one.")
	}
	return read, nil
}

// ParseID reads a uuid in its usual form alone; uuid.Parse accepts others, too.
func ParseID(text string) (uuid.UUID, error) {
	if len(text) != 36 {
		return uuid.Nil, errors.New("not 36 characters long")
	}
	return uuid.Parse(text)
}

// RecallResult is a message of a turn that was recalled.
type RecallResult struct {
	_         struct{}  `description:"A message of an earlier turn that the question may be about."`
	ChatID    uuid.UUID `json:"chat_id"`
	Seq       int64     `json:"seq"`
	MessageID uuid.UUID `json:"message_id"`
	Role      string    `json:"role" enum:"user,assistant,system,tool"`
	CreatedAt time.Time `json:"created_at"`
	Score     float64   `json:"score" description:"Higher for a better match. It compares results of one question alone."`
	Text      string    `json:"text" description:"What of the message the question may be about."`
	Why       string    `json:"why" description:"What the turn was found by, for people."`
}

// NoRecall is the error for a server that indexes no turns.
func NoRecall() error {
	return fault.New(fault.RecallOff, "This server does not recall earlier turns: RECALL is off.")
}

// Graph reads the graph of what a user's memories are about, with the user's rights.
type Graph interface {
	// ReadGraph returns the part of the graph that is asked for; an entity that is unknown has none.
	ReadGraph(ctx context.Context, user auth.Principal, query GraphQuery) (graph.Answer, error)
}

// GraphQuery asks for a part of the graph. The zero value asks for all of it.
type GraphQuery struct {
	Entity       string `query:"entity,omitempty" trim:"" maxLength:"100" description:"The name of an entity, in any case: what is said of it. User is the user."`
	Relationship string `query:"relationship,omitempty" maxLength:"100" description:"Only relationships of this name: lives_in."`
	Type         string `query:"type,omitempty" enum:"person,organization,place,project,product,tool,concept,condition,event,other" doc:"type"`
	Depth        int    `query:"depth" minimum:"1" maximum:"3" default:"1" description:"How many relationships away from the entity what is shown may be."`
	AsOf         string `query:"as_of,omitempty" doc:"as_of"`
	// Text is a question; what it names adds to the other fields.
	Text   string `query:"q,omitempty" trim:"" maxLength:"500" doc:"graphQuery.q"`
	Format string `query:"format,omitempty" enum:"json,mermaid,dot" default:"json" doc:"format"`

	// Moment is AsOf, set by Check; zero for none.
	Moment time.Time
}

func (q *GraphQuery) check(wrong problems) {
	if q.AsOf != "" {
		q.Moment = wrong.moment("as_of", q.AsOf)
	}
}
