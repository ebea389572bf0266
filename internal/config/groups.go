package config

import "time"

// LongTerm is the configuration of long-term memories.
type LongTerm struct {
	// On is LONG_TERM_MEMORY. Without it nothing is extracted, stored, looked up or shown.
	On bool
	// ExtractionModel reads memories out of conversations; "" means the summarizer's.
	ExtractionModel string
	// ExtractDelay is how long a chat has rested when it is read, ExtractTurns the most turns of one call.
	ExtractDelay time.Duration
	ExtractTurns int
	// Similar and Retrieve are similarities from which memories are compared with a new one, and shown to a reply.
	Similar, Retrieve float64
	// Top is how many memories a prompt shows besides pinned ones, Tokens how long all of them may be.
	Top, Tokens int
	// DecayAt is the time of day, after midnight in UTC, at which unused memories fade.
	DecayAt time.Duration
	// ArchiveDeleteDays is after how many days an archived memory is deleted; 0 for never.
	ArchiveDeleteDays int
	// Graph is whether entities and relationships are kept, Inbox whether uncertain memories are kept for the user.
	Graph, Inbox bool
	// ShowEmpty is whether a prompt says so when nothing is remembered.
	ShowEmpty bool
}

// Topics is the configuration of the topics of a conversation.
type Topics struct {
	// Mode is which chats have topics if they do not say so themselves: TopicsAuto, TopicsOn or TopicsOff. With TopicsOff none
	// has, whatever it says.
	Mode string
	// Similarity is from which similarity a turn belongs to a topic; Continuity is added for the one that was talked about.
	Similarity, Continuity float64
	// Max is how many topics of a chat are active before unimportant ones are archived.
	Max int
	// HalfLife is that of a topic's priority, and HalfLifeMax that of one that is returned to often.
	HalfLife, HalfLifeMax time.Duration
	// LongTermAccesses is with how many returns the half-life begins to grow.
	LongTermAccesses int
	// MaxMessages is with how many messages a topic is compacted, KeepMessages how many stay as they are.
	MaxMessages, KeepMessages int
}

// What TOPICS may be.
const (
	// TopicsAuto is topics for chats that have a brief.
	TopicsAuto = "auto"
	TopicsOn   = "on"
	TopicsOff  = "off"
)

func (r *reader) longTerm() LongTerm {
	return LongTerm{
		On:                r.boolean("LONG_TERM_MEMORY", true),
		ExtractionModel:   r.text("MEMORY_EXTRACTION_MODEL", ""),
		ExtractDelay:      r.duration("MEMORY_EXTRACT_DELAY", DefaultExtractDelay),
		ExtractTurns:      r.number("MEMORY_EXTRACT_TURNS", defaultExtractTurns, 1, maxExtractTurns),
		Similar:           r.fraction("MEMORY_SIMILAR", 0.6),
		Retrieve:          r.fraction("MEMORY_RETRIEVE", 0.7),
		Top:               r.number("MEMORY_TOP", 5, 1, 50),
		Tokens:            r.positive("MEMORY_TOKENS", 400),
		DecayAt:           r.timeOfDay("MEMORY_DECAY_AT", 3*time.Hour),
		ArchiveDeleteDays: r.number("MEMORY_ARCHIVE_DELETE_DAYS", 0, 0, maxDays),
		Graph:             r.boolean("MEMORY_GRAPH", true),
		Inbox:             r.boolean("MEMORY_INBOX", true),
		ShowEmpty:         r.boolean("MEMORY_SHOW_EMPTY", false),
	}
}

func (r *reader) topics() Topics {
	return Topics{
		Mode:             r.oneOf("TOPICS", TopicsAuto, TopicsAuto, TopicsOn, TopicsOff),
		Similarity:       r.fraction("TOPIC_SIMILARITY", 0.7),
		Continuity:       r.fraction("TOPIC_CONTINUITY", 0.15),
		Max:              r.positive("TOPIC_MAX", 20),
		HalfLife:         r.duration("TOPIC_HALF_LIFE", 24*time.Hour),
		HalfLifeMax:      r.duration("TOPIC_HALF_LIFE_MAX", 720*time.Hour),
		LongTermAccesses: r.positive("TOPIC_LONG_TERM_ACCESSES", 5),
		MaxMessages:      r.number("TOPIC_MAX_MESSAGES", 12, 2, maxTopicMessages),
		KeepMessages:     r.number("TOPIC_KEEP_MESSAGES", 4, 1, maxTopicMessages-1),
	}
}

// maxTopicMessages keeps what one summary is made of within the windows of models.
const maxTopicMessages = 1000

// DefaultExtractDelay is how long a chat rests before it is read for memories.
const DefaultExtractDelay = 2 * time.Minute

const (
	defaultExtractTurns = 12
	// maxExtractTurns keeps the input of one call within any model's window.
	maxExtractTurns = 100
	// maxDays is more than the age of any memory.
	maxDays = 36_500
)

const (
	defaultRecallTokens   = 600
	defaultRecallDeadline = 150 * time.Millisecond
)
