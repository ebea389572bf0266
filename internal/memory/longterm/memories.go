package longterm

import (
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
)

// MaxContent is the most characters of a memory.
const MaxContent = 500

// MaxMemories is how many memories a user may have, of all statuses: as many as a file of them holds. Each search reads them all.
const MaxMemories = 10_000

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
	// Proposed memories were written down by a program in the user's name, such as an assistant over MCP.
	Proposed Origin = "assistant"
	Imported Origin = "import"
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

// Memory is one thing that a user is remembered for, as new facts are compared with it.
type Memory struct {
	ID         uuid.UUID
	Content    string // 1 to MaxContent characters
	Type       Type
	Confidence float64 // 0 to 1
	// Pinned and Edited memories are changed by no model.
	Pinned, Edited bool
	Status         Status
	// ValidFrom is since when it is true; zero where it was not said. Precision is how exactly that is known.
	ValidFrom time.Time
	Precision memory.Precision
	// SaidAt is when it was last said; when it was recorded, where it was not said.
	SaidAt time.Time
}
