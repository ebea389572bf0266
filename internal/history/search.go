package history

import (
	"time"

	"github.com/google/uuid"
)

const (
	// SearchCandidates are the newest matches that are ranked; older ones are not looked at.
	SearchCandidates = 500
	// ModeAny finds messages that have any of the words; by default they have all.
	ModeAny = "any"
)

// SearchQuery is what to search for. Only Text is required.
type SearchQuery struct {
	// Text is in the syntax of web search engines.
	Text string `query:"q" required:"true" minLength:"1" maxLength:"500" doc:"q"`
	// ChatID restricts the search to one chat; uuid.Nil searches all.
	ChatID uuid.UUID `query:"chat_id" description:"Look into this chat alone."`
	// Role is the role of the messages; "" for any.
	Role string `query:"role" enum:"user,assistant,system,tool" description:"Messages of this role alone."`
	// Before and After bound the time of the messages: from After on, up to but without Before.
	Before *time.Time `query:"before" nullable:"false" description:"Messages before this time alone."`
	After  *time.Time `query:"after" nullable:"false" description:"Messages from this time on alone."`
	Mode   string     `query:"mode" enum:"all,any" default:"all" doc:"mode"`
	Limit  int        `query:"limit" minimum:"1" maximum:"100" default:"20" description:"How many results are wanted."`
}

// SearchResult is a message that was found.
type SearchResult struct {
	_         struct{}  `description:"A message that was found."`
	MessageID uuid.UUID `json:"message_id"`
	ChatID    uuid.UUID `json:"chat_id"`
	ChatTitle string    `json:"chat_title"`
	Seq       int64     `json:"seq"`
	Role      string    `json:"role" enum:"user,assistant,system,tool"`
	CreatedAt time.Time `json:"created_at"`
	Rank      float32   `json:"rank" description:"Higher for a better match. It compares results of one search alone."`
	Snippet
}
