package memory

import (
	"time"

	"github.com/google/uuid"
)

// Memories is what a user is remembered for, as the start of a turn reads it.
type Memories struct {
	// On reports whether prompts of the chat may show memories: no one has switched them off, for all, the user or the chat.
	On bool
	// Active is how many active memories there are, without those of subjects that the user has excluded.
	Active int
	// First are the first MostFirst of them, in the order in which they are worth showing whatever a message is about: pinned
	// ones, then durable ones, and of each the most recently used first.
	First []Remembered
}

// MostFirst is how many memories the start of a turn reads. More do not fit the section of a prompt.
const MostFirst = 40

// Remembered is one thing that a user is remembered for, as prompts need it.
type Remembered struct {
	ID      uuid.UUID
	Content string
	// Confidence is how sure it is, from 0 to 1. Edited memories have been corrected by their user.
	Confidence              float64
	Durable, Pinned, Edited bool
	// ValidFrom and ValidTo are since when and until when it is true; zero where nobody said. Precision is that of both.
	ValidFrom, ValidTo time.Time
	Precision          Precision
	// LastUsed is when a reply last used it, or when it was recorded.
	LastUsed time.Time
	// Sources are where it was said.
	Sources []Said
}

// Said is where a memory was said: the message, and the words in it.
type Said struct {
	ChatID uuid.UUID
	Seq    int64
	Quote  string
}

// Precision is how exactly the time is known since when something is true, or until when.
type Precision string

// The precisions.
const (
	Day   Precision = "day"
	Month Precision = "month"
	Year  Precision = "year"
)
