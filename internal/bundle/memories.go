package bundle

import (
	"cmp"
	"io"
	"strings"
	"time"
)

// Limits of a file of memories.
const (
	MaxMemories     = 10_000
	maxMemoryRecord = 1 << 20 // bytes of a line
	maxMemory       = 500     // characters
	maxQuote        = 200
	maxLang         = 35
)

// Memory is one thing that the user is remembered for. In a bundle it is one that was said in the chat, and its sources
// are messages of the chat; in a file of memories alone the sources are a record of where it was said.
type Memory struct {
	ID         string `json:"id"`
	Content    string `json:"content"`
	MemoryType string `json:"memory_type"`
	// Confidence is nil where the file has none.
	Confidence     *float64   `json:"confidence"`
	Durable        bool       `json:"durable"`
	Pinned         bool       `json:"pinned"`
	Status         string     `json:"status"`
	Edited         bool       `json:"edited"`
	Origin         string     `json:"origin"`
	Version        int64      `json:"version"`
	Lang           *string    `json:"lang"`
	ValidFrom      *time.Time `json:"valid_from"`
	ValidTo        *time.Time `json:"valid_to"`
	ValidPrecision *string    `json:"valid_precision"`
	// RecordedAt and CreatedAt are zero where the file has none.
	RecordedAt   time.Time      `json:"recorded_at,omitzero"`
	RetractedAt  *time.Time     `json:"retracted_at"`
	SupersededBy *string        `json:"superseded_by"`
	CreatedAt    time.Time      `json:"created_at,omitzero"`
	UpdatedAt    time.Time      `json:"updated_at,omitzero"`
	Sources      []MemorySource `json:"sources"`
	// LastAccessed is when a reply last used it, and AccessCount how often one did. History are its changes, which imports do
	// not restore. Only accounts have them.
	LastAccessed *time.Time       `json:"last_accessed,omitempty" db:"-"`
	AccessCount  int              `json:"access_count,omitempty" db:"-"`
	History      []MemoryRevision `json:"history,omitempty" db:"-"`
}

// MemoryRevision is a past change of a memory.
type MemoryRevision struct {
	Version   int64     `json:"version"`
	Action    string    `json:"action"`
	Content   *string   `json:"content"`
	Reason    string    `json:"reason"`
	Actor     string    `json:"actor"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// MemorySource is a message in which a memory was said.
type MemorySource struct {
	MessageID string    `json:"message_id"`
	ChatID    string    `json:"chat_id"`
	Seq       int64     `json:"seq"`
	Fact      *string   `json:"fact"` // what was made of this source alone; nil where it needs the others
	Quote     string    `json:"quote"`
	SaidAt    time.Time `json:"said_at,omitzero"`
}

var memoryTypes = []string{"preference", "fact", "pattern", "context"}

func checkMemory(m *Memory) error {
	m.Content = strings.TrimSpace(m.Content)
	m.MemoryType = cmp.Or(m.MemoryType, "fact")
	m.Status = cmp.Or(m.Status, "active")
	m.Confidence = cmp.Or(m.Confidence, new(1.0))
	if !(*m.Confidence >= 0 && *m.Confidence <= 1) { // this way round, NaN is refused
		return wrong("out_of_range", "confidence is not between 0 and 1")
	}
	if m.ValidPrecision != nil {
		if err := oneOf("unknown_precision", "valid_precision", *m.ValidPrecision, "day", "month", "year"); err != nil {
			return err
		}
	}
	for i := range m.Sources {
		source := &m.Sources[i]
		if err := cmp.Or(
			uniform("message_id", &source.MessageID), within("quote", &source.Quote, 0, maxQuote),
			within("fact", source.Fact, 1, maxMemory), storable(source.SaidAt),
		); err != nil {
			return err
		}
	}
	return cmp.Or(
		uniform("superseded_by", m.SupersededBy),
		within("content", &m.Content, 1, maxMemory),
		oneOf("unknown_memory_type", "memory_type", m.MemoryType, memoryTypes...),
		oneOf("unknown_status", "the status", m.Status, "active", "inbox", "superseded", "archived"),
		within("lang", m.Lang, 1, maxLang),
		atLeastZero("access_count", m.AccessCount), storable(dates(m.LastAccessed)...),
		storable(m.RecordedAt, m.CreatedAt), storable(dates(m.ValidFrom, m.ValidTo, m.RetractedAt)...),
	)
}

func dates(optional ...*time.Time) []time.Time {
	var present []time.Time
	for _, date := range optional {
		if date != nil {
			present = append(present, *date)
		}
	}
	return present
}

// WriteMemory writes a memory as a line of a file of memories.
func WriteMemory(w io.Writer, memory Memory) error {
	encoded, err := marshal(memory)
	if err != nil {
		return err
	}
	_, err = w.Write(append(encoded, '\n'))
	return err
}
