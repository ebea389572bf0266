// Package memories is what a user is remembered for across chats: the shared terms, and the rules by which memories are
// found, shown, used and forgotten. The rules are pure functions. Package extract reads memories out of a conversation,
// package consolidate decides what a new one changes, and package learn runs both.
package memories

import (
	"time"

	"github.com/google/uuid"
)

// MaxContent is the most characters of a memory.
const MaxContent = 500

// Type says what kind of thing a memory is: the value of memories.memory_type.
type Type string

// The types.
const (
	Preference Type = "preference"
	Fact       Type = "fact"
	Pattern    Type = "pattern"
	Context    Type = "context"
)

// Status says what becomes of a memory: the value of memories.status.
type Status string

// The statuses.
const (
	// Active memories are shown to the model where they matter.
	Active Status = "active"
	// Inbox memories are uncertain, or contradict what the user has written: the user sees them, the model never does.
	Inbox Status = "inbox"
	// Superseded memories were true once. SupersededBy names what took their place.
	Superseded Status = "superseded"
	// Archived memories were not used for long. They come back when the user says the same again.
	Archived Status = "archived"
)

// Origin says how a memory came to be: the value of memories.origin.
type Origin string

// The origins.
const (
	Extracted Origin = "extracted"
	FromUser  Origin = "user"
	Imported  Origin = "import"
)

// Action names a change of a memory: the value of memory_revisions.action.
type Action string

// The actions. A model decides on the first four. Its DELETE supersedes: nothing is deleted but by the user.
const (
	Add       Action = "ADD"
	Update    Action = "UPDATE"
	Delete    Action = "DELETE"
	Noop      Action = "NOOP"
	Edit      Action = "EDIT"
	Merge     Action = "MERGE"
	Decay     Action = "DECAY"
	Archive   Action = "ARCHIVE"
	Unarchive Action = "RESTORE"
)

// Precision is how exactly the time is known since when something is true, or until when.
type Precision string

// The precisions.
const (
	Day   Precision = "day"
	Month Precision = "month"
	Year  Precision = "year"
)

// Memory is one thing that a user is remembered for.
type Memory struct {
	ID         uuid.UUID
	Content    string // 1 to MaxContent characters
	Type       Type
	Confidence float64 // 0 to 1
	// Durable memories do not decay. Pinned ones are always shown, and no model changes them or those that are Edited.
	Durable, Pinned, Edited bool
	Status                  Status
	Origin                  Origin
	// Version grows with each change.
	Version int
	// Lang is the language of the content, as ISO 639-1 has it; "" where unknown.
	Lang string
	// ValidFrom and ValidTo are since when and until when it is true; zero where nobody said. Precision is that of both.
	ValidFrom, ValidTo time.Time
	Precision          Precision
	// RecordedAt is since when it is believed, RetractedAt until when; zero if it still is.
	RecordedAt, RetractedAt time.Time
	SupersededBy            uuid.UUID
	// ChatID is the chat in which it was first said; uuid.Nil if it was not, or if that chat is gone.
	ChatID               uuid.UUID
	LastAccessed         time.Time
	AccessCount          int
	CreatedAt, UpdatedAt time.Time
	Sources              []Source
}

// Source is where a memory was said.
type Source struct {
	MessageID, ChatID uuid.UUID
	Seq               int64
	// Fact is what was made of this source alone, Quote the words that it was made of.
	Fact, Quote string
	SaidAt      time.Time
}
