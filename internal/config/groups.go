package config

import (
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// LongTerm is the configuration of long-term memories.
type LongTerm struct {
	// On is LONG_TERM_MEMORY. Without it nothing is extracted, stored, looked up or shown.
	On bool
	// ExtractDelay is how long a chat has rested when it is read.
	ExtractDelay time.Duration
	// ArchiveDeleteDays is after how many days an archived memory is deleted; 0 for never.
	ArchiveDeleteDays int
	// ShowEmpty is whether a prompt says so when nothing is remembered.
	ShowEmpty bool
}

// Topics is the configuration of the topics of a conversation.
type Topics struct {
	// Mode is which chats have topics if they do not say so themselves: TopicsAuto, TopicsOn or TopicsOff. With TopicsOff none
	// has, whatever it says.
	Mode string
	// Similarity is from which similarity a turn belongs to a topic.
	Similarity float64
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
		ExtractDelay:      r.duration("MEMORY_EXTRACT_DELAY", DefaultExtractDelay),
		ArchiveDeleteDays: r.number("MEMORY_ARCHIVE_DELETE_DAYS", 0, 0, maxDays),
		ShowEmpty:         r.boolean("MEMORY_SHOW_EMPTY", false),
	}
}

func (r *reader) topics() Topics {
	return Topics{
		Mode:             r.oneOf("TOPICS", TopicsAuto, TopicsAuto, TopicsOn, TopicsOff),
		Similarity:       r.fraction("TOPIC_SIMILARITY", 0.7),
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

// maxDays is more than the age of any memory.
const maxDays = 36_500

const defaultRecallDeadline = 150 * time.Millisecond

// LocalJWTSecret signs the tokens of a development server. It is not secret: every local Supabase stack has it.
const LocalJWTSecret = "super-secret-jwt-token-with-at-least-32-characters-long"

// LocalUser is the user of a development server, whose token it prints.
var LocalUser = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// Local returns the configuration with what a development server on this machine has, where nothing else is set: for
// the server itself, and for commands that connect to it.
func (c Config) Local() Config {
	if c.DatabaseDirectURL == "" {
		c.DatabaseDirectURL = c.DatabaseURL
	}
	if c.SupabaseJWTSecret == "" && c.SupabaseURL == "" {
		c.SupabaseJWTSecret = LocalJWTSecret
	}
	return c
}

// NewLogger returns a logger of the chosen level and format, which has told which settings have no effect.
func (c Config) NewLogger(out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	logger := slog.New(slog.NewJSONHandler(out, options))
	if c.LogText {
		logger = slog.New(slog.NewTextHandler(out, options))
	}
	for _, warning := range c.Warnings {
		logger.Warn("setting ignored", "problem", warning)
	}
	return logger
}
