package bundle

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
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
	Durable        *bool      `json:"durable"` // nil where the file does not say
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
	RecordedAt    time.Time      `json:"recorded_at,omitzero"`
	RetractedAt   *time.Time     `json:"retracted_at"`
	SupersededBy  *string        `json:"superseded_by"`
	ConflictsWith *string        `json:"conflicts_with"`
	CreatedAt     time.Time      `json:"created_at,omitzero"`
	UpdatedAt     time.Time      `json:"updated_at,omitzero"`
	Sources       []MemorySource `json:"sources"`
	// LastAccessed is when a reply last used it, and AccessCount how often one did. History are its changes, which imports do
	// not restore. Only accounts have them.
	LastAccessed *time.Time       `json:"last_accessed,omitempty"`
	AccessCount  int              `json:"access_count,omitempty"`
	History      []MemoryRevision `json:"history,omitempty"`
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
	Fact      *string   `json:"fact"` // the part made of this source alone; nil where it needs the others
	Quote     string    `json:"quote"`
	SaidAt    time.Time `json:"said_at,omitzero"`
}

var memoryTypes = []string{"preference", "fact", "pattern", "context"}

func checkMemory(m *Memory) error {
	m.Content = strings.TrimSpace(m.Content)
	m.MemoryType = cmp.Or(m.MemoryType, "fact")
	m.Status = cmp.Or(m.Status, "active")
	m.Confidence = cmp.Or(m.Confidence, new(1.0))
	switch {
	case !(*m.Confidence >= 0 && *m.Confidence <= 1): // this way round, NaN is refused
		return wrong("out_of_range", "confidence is not between 0 and 1")
	case m.AccessCount < 0 || m.AccessCount > math.MaxInt32:
		return wrong("out_of_range", "access_count is out of range")
	}
	err := oneOf("unknown_precision", "valid_precision", *cmp.Or(m.ValidPrecision, new("day")), "day", "month", "year")
	for i := range m.Sources {
		source := &m.Sources[i]
		err = cmp.Or(err,
			uniform("message_id", &source.MessageID), within("quote", &source.Quote, 0, maxQuote),
			within("fact", source.Fact, 1, maxMemory), storable(&source.SaidAt))
	}
	return cmp.Or(
		err, uniform("superseded_by", m.SupersededBy), uniform("conflicts_with", m.ConflictsWith),
		within("content", &m.Content, 1, maxMemory),
		oneOf("unknown_memory_type", "memory_type", m.MemoryType, memoryTypes...),
		oneOf("unknown_status", "the status", m.Status, "active", "inbox", "superseded", "archived"),
		within("lang", m.Lang, 1, maxLang),
		storable(&m.RecordedAt, &m.CreatedAt, m.LastAccessed, m.ValidFrom, m.ValidTo, m.RetractedAt),
	)
}

// WriteMemory writes a memory as a line of a file of memories.
func WriteMemory(w io.Writer, record Memory) error {
	encoded, err := memory.EncodeJSON(record)
	if err != nil {
		return err
	}
	_, err = w.Write(append(encoded, '\n'))
	return err
}

// foreignMemory is a memory of mem0, a fact of Zep or a memory of ChatGPT: the members of all three.
type foreignMemory struct {
	ID   foreignID `json:"id"`
	UUID foreignID `json:"uuid"`

	Memory  string `json:"memory"`  // mem0
	Fact    string `json:"fact"`    // Zep
	Content string `json:"content"` // ChatGPT

	UserID foreignID `json:"user_id"`
	Owner  foreignID `json:"owner"` // mem0's version 1

	CreatedAt        foreignTime `json:"created_at"`
	CreatedTimestamp foreignTime `json:"created_timestamp"`
	CreateTime       foreignTime `json:"create_time"`
	UpdatedAt        foreignTime `json:"updated_at"`
	LastUpdated      foreignTime `json:"last_updated"`

	// mem0: what it is about; never changed by a model; not used from this day on.
	Categories     []string    `json:"categories"`
	Immutable      bool        `json:"immutable"`
	ExpirationDate foreignTime `json:"expiration_date"`

	// Zep: since when and until when it is true, and until when it was believed.
	ValidAt   foreignTime `json:"valid_at"`
	InvalidAt foreignTime `json:"invalid_at"`
	ExpiredAt foreignTime `json:"expired_at"`

	// ChatGPT: false for a memory that is switched off.
	Enabled *bool `json:"enabled"`
}

func (f *foreignMemory) user() string { return string(cmp.Or(f.UserID, f.Owner)) }

// memory says it in our terms. Its id begins with the format, so that it is no id of ours.
func (f *foreignMemory) memory(format Format, now time.Time) Memory {
	m := Memory{
		Content:    cmp.Or(f.Memory, f.Fact, f.Content),
		MemoryType: typeOf(f.Categories),
		Status:     "active",
		Edited:     f.Immutable,
		ValidFrom:  f.ValidAt.date(),
		ValidTo:    cmp.Or(f.InvalidAt.date(), f.ExpirationDate.date()),
		CreatedAt:  firstOf(f.CreatedAt, f.CreatedTimestamp, f.CreateTime, f.UpdatedAt, f.LastUpdated),
	}
	m.RecordedAt = m.CreatedAt
	if id := cmp.Or(f.ID, f.UUID); id != "" {
		m.ID = string(format) + ":" + string(id)
	}
	m.RetractedAt = f.ExpiredAt.date()
	switch {
	case m.RetractedAt != nil, m.ValidTo != nil && !m.ValidTo.After(now):
		m.Status = "superseded"
		m.RetractedAt = cmp.Or(m.RetractedAt, m.ValidTo)
	case f.Enabled != nil && !*f.Enabled:
		m.Status = "archived"
	}
	return m
}

// typeOf is the type that categories of mem0 stand for; most say what a memory is about, not of which kind it is.
func typeOf(categories []string) string {
	has := func(part string) bool {
		return slices.ContainsFunc(categories, func(c string) bool { return strings.Contains(strings.ToLower(c), part) })
	}
	switch {
	case has("preference"):
		return "preference"
	case has("habit"), has("routine"), has("pattern"):
		return "pattern"
	case has("context"), has("project"):
		return "context"
	}
	return "fact"
}

func firstOf(times ...foreignTime) time.Time {
	for _, t := range times {
		if date := t.date(); date != nil {
			return *date
		}
	}
	return time.Time{}
}

// foreignID is a text or a number.
type foreignID string

// UnmarshalJSON reads null and all other values as no id.
func (f *foreignID) UnmarshalJSON(raw []byte) error {
	var text string
	var number json.Number
	switch {
	case json.Unmarshal(raw, &text) == nil:
		*f = foreignID(text)
	case json.Unmarshal(raw, &number) == nil:
		*f = foreignID(number)
	}
	return nil
}

// foreignTime is a date as programs in Python and JavaScript write it; zero for none.
type foreignTime struct{ time time.Time }

func (f foreignTime) date() *time.Time {
	if f.time.IsZero() {
		return nil
	}
	return &f.time
}

var foreignLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", time.DateOnly,
}

// UnmarshalJSON reads RFC 3339, the same without a zone (which is UTC), a date, or seconds or milliseconds since 1970.
func (f *foreignTime) UnmarshalJSON(raw []byte) error {
	var text string
	var seconds float64
	switch {
	case string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &seconds) == nil:
		return f.since1970(seconds)
	case json.Unmarshal(raw, &text) != nil:
		return errForeignDate
	case text == "":
		return nil
	}
	for _, layout := range foreignLayouts {
		if parsed, err := time.Parse(layout, text); err == nil {
			f.time = parsed.UTC()
			return nil
		}
	}
	return errForeignDate
}

var errForeignDate = wrong("bad_date", "a date is neither of the form 2026-11-21T15:04:05Z nor a number of seconds since 1970")

func (f *foreignTime) since1970(seconds float64) error {
	const latest = 253402300800 // the year 10000
	if seconds >= latest {
		seconds /= 1000
	}
	if !(seconds >= 0 && seconds < latest) {
		return errForeignDate
	}
	whole, part := math.Modf(seconds)
	f.time = time.Unix(int64(whole), int64(part*1e6)*1000).UTC()
	return nil
}
