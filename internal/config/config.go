// Package config reads the environment into a Config, once, and is the only package that reads it. Parse has
// every variable with its default; a test compares .env.example with it. A wrong value is an error that names
// the variable.
package config

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/google/uuid"
	"github.com/joho/godotenv"
)

// Config is the configuration of a process. See .env.example for the meaning of each field's variable.
type Config struct {
	DatabaseURL       string
	DatabaseDirectURL string
	HTTPAddr          string
	// HTTPAddrSet is whether the environment has HTTP_ADDR. A process without an API serves its metrics only then: several of
	// them may share a machine, and the default is the API's.
	HTTPAddrSet bool
	// CORSOrigins are origins of web apps as browsers send them, or "*" alone; empty for none.
	CORSOrigins []string

	// PublicURL is where clients reach the server, without a slash at its end; "" for what their requests say.
	PublicURL string
	// OAuthAPIClients are OAuth clients that may use the API as apps do; "*" alone for all.
	OAuthAPIClients []string

	// Cell is the name of this installation among several; the zero value for the only one.
	Cell auth.Cell
	// AuthIssuers are let in beside the project of SupabaseURL.
	AuthIssuers       []auth.Issuer
	SupabaseURL       string
	SupabaseJWTSecret string
	SupabaseSecretKey string
	// SupabaseAnonKey is the key with which the page signs users in; a publishable one as well.
	SupabaseAnonKey string

	// OpenAIAPIKey is for OpenAIBaseURL alone, the server of memory's jobs and of variants that name no other.
	OpenAIAPIKey  string
	OpenAIBaseURL string
	Variants      []chat.Variant
	// Servers are those of the variants in MODELS_FILE, by name.
	Servers          map[string]Server
	ModelIdleTimeout time.Duration
	ModelTimeout     time.Duration
	MainInstructions string
	// Tools are those of the server.
	Tools []chat.ServerTool

	Memory memory.Limits
	// ChatDefaults are the settings of new chats that name none.
	ChatDefaults memory.ChatDefaults
	Summary      brief.PromptConfig
	// Instructions replace those of calls for memories, by the names in InstructionNames.
	Instructions map[string]string

	// Recall is whether turns that left the prompt are found again; RecallDeadline is how long a reply waits for them.
	Recall         bool
	RecallDeadline time.Duration
	// EmbeddingModel makes the vectors of turns and questions; "" for none: then they are found by their words alone.
	EmbeddingModel string
	// EmbeddingBaseURL is the address of that model's server, which gets OpenAIAPIKey; "" means OpenAIBaseURL.
	EmbeddingBaseURL string

	LongTerm LongTerm
	Topics   Topics
	// ChatTitles is how long a chat of three turns rests before the model gives it a title; 0 for none.
	ChatTitles time.Duration

	RiverUI         bool
	RiverUIUser     string
	RiverUIPassword string

	WorkerConcurrency int
	MessagesPerMinute int
	MaxStreamsPerUser int
	// AutoPruneDays is how many days after its last message any chat is deleted; 0 for never.
	AutoPruneDays int

	// AccessToken is for the commands that talk to a running server; "" means one of dev's local user.
	AccessToken string

	// Warnings are settings that have no effect because others overrule them.
	Warnings []string

	LogLevel slog.Level
	// LogText chooses slog's text format instead of JSON.
	LogText bool
}

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
	// has.
	Mode string
	topics.Settings
}

// What TOPICS may be.
const (
	// TopicsAuto is topics for chats that have a brief.
	TopicsAuto = "auto"
	TopicsOn   = "on"
	TopicsOff  = "off"
)

// Error reports one or more variables with wrong values.
type Error struct{ Problems []string }

func (e *Error) Error() string { return strings.Join(e.Problems, "; ") }

// Load parses the environment. A .env file, if there is one, adds variables but overrides none. dev selects
// the defaults of a developer's machine.
func Load(dev bool) (Config, error) {
	if err := godotenv.Load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if why := reason(err); why != "" {
			return Config{}, &Error{Problems: []string{".env cannot be read" + why}}
		}
		// godotenv's error quotes the line, which may hold a secret.
		return Config{}, &Error{Problems: []string{`.env has a line that is not NAME=value, or a quote that is not closed`}}
	}
	strange, _ := godotenv.Read() // as above; none without the file
	cfg, err := Parse(func(name string) (string, bool) { delete(strange, name); return Environment(name) }, dev)
	for _, name := range slices.Sorted(maps.Keys(strange)) {
		cfg.Warnings = append(cfg.Warnings, name+" in .env is no variable of Throughline's")
	}
	return cfg, err
}

// Environment looks up a variable as Load does, which has to come first.
func Environment(name string) (string, bool) { return os.LookupEnv(name) }

// Parse makes a Config from the variables that lookup returns. An empty value counts as absent.
func Parse(lookup func(string) (string, bool), dev bool) (Config, error) {
	r := &reader{lookup: lookup}
	defaults := memory.DefaultLimits()
	variants, servers := r.models()
	c := Config{
		DatabaseURL:       r.dsn("DATABASE_URL"),
		DatabaseDirectURL: r.dsn("DATABASE_DIRECT_URL"),
		HTTPAddr:          r.address("HTTP_ADDR", "127.0.0.1:8080"),
		HTTPAddrSet:       r.text("HTTP_ADDR", "") != "",
		CORSOrigins:       r.origins("CORS_ORIGINS", inDev(dev, anyOrigin, "")),
		PublicURL:         strings.TrimRight(r.url("PUBLIC_URL"), "/"),
		OAuthAPIClients:   r.list("OAUTH_API_CLIENTS"),
		Cell:              r.cell(),
		AuthIssuers:       r.issuers("AUTH_ISSUERS", r.text("SUPABASE_URL", "")),
		SupabaseURL:       strings.TrimRight(r.url("SUPABASE_URL"), "/"),
		SupabaseJWTSecret: r.text("SUPABASE_JWT_SECRET", inDev(dev && r.text("SUPABASE_URL", "") == "", LocalJWTSecret, "")),
		SupabaseSecretKey: r.text("SUPABASE_SECRET_KEY", r.text("SUPABASE_SERVICE_ROLE_KEY", "")),
		SupabaseAnonKey:   r.text("SUPABASE_ANON_KEY", ""),
		OpenAIAPIKey:      r.text("OPENAI_API_KEY", ""),
		OpenAIBaseURL:     r.url("OPENAI_BASE_URL"),
		Variants:          variants,
		Servers:           servers,
		ModelIdleTimeout:  r.duration("MODEL_IDLE_TIMEOUT", time.Minute),
		ModelTimeout:      r.duration("MODEL_TIMEOUT", 10*time.Minute),
		MainInstructions:  r.file("MAIN_INSTRUCTIONS_FILE", chat.DefaultInstructions),
		Memory: memory.Limits{
			KRawTurns:         r.positive("MEMORY_K_RAW_TURNS", defaults.KRawTurns),
			SummaryTokenCap:   r.positive("MEMORY_SUMMARY_TOKEN_CAP", defaults.SummaryTokenCap),
			PromptTokenBudget: r.positive("MEMORY_PROMPT_TOKEN_BUDGET", defaults.PromptTokenBudget),
			ChunkThreshold:    r.positive("MEMORY_CHUNK_SUMMARIZE_THRESHOLD", defaults.ChunkThreshold),
			MinTailTurns:      r.positive("MEMORY_MIN_TAIL_TURNS", defaults.MinTailTurns),
			BridgeTokenBudget: r.orOff("MEMORY_BRIDGE_TOKEN_BUDGET", defaults.BridgeTokenBudget),
			FoldInputTokens:   r.positive("MEMORY_FOLD_INPUT_TOKENS", defaults.FoldInputTokens),
			MaxHistoryTokens:  r.positive("MEMORY_MAX_HISTORY_TOKENS", defaults.MaxHistoryTokens),
		},
		ChatDefaults: memory.ChatDefaults{
			Strategy: memory.StrategyName(r.oneOf("CHAT_MEMORY_STRATEGY", "summary", "summary", "simple", "hybrid")),
			TTLHours: r.number("CHAT_TTL_HOURS", 0, 0, memory.MaxTTLHours),
			MaxTurns: r.number("CHAT_MAX_TURNS", 0, 0, memory.MaxTurnLimit),
		},
		Summary: brief.PromptConfig{
			Mode:         brief.Mode(r.oneOf("SUMMARY_PROMPT_MODE", "auto", "auto", "hosted", "inline")),
			Model:        r.text("MEMORY_SUMMARIZER_MODEL", "gpt-5.6-luna"),
			Instructions: r.file("SUMMARY_INSTRUCTIONS_FILE", ""),
			Hosted: brief.HostedPrompt{
				ID:      r.text("PROMPT_ID_SUMMARY_GLOBAL", "pmpt_6917ebe9367c819396fe4840cf0f0e050c18a965a3366120"),
				Version: r.text("PROMPT_VERSION_SUMMARY_GLOBAL", ""),
			},
		},
		Instructions:      r.folder("MEMORY_INSTRUCTIONS_DIR", InstructionNames),
		Recall:            r.oneOf("RECALL", "auto", "auto", "off") == "auto",
		RecallDeadline:    r.duration("RECALL_DEADLINE", defaultRecallDeadline),
		EmbeddingModel:    r.orNone("EMBEDDING_MODEL", DefaultEmbeddingModel),
		EmbeddingBaseURL:  r.url("EMBEDDING_BASE_URL"),
		LongTerm:          r.longTerm(),
		Topics:            r.topics(),
		ChatTitles:        r.titles(),
		RiverUI:           r.boolean("RIVER_UI", dev),
		RiverUIUser:       r.text("RIVER_UI_USER", ""),
		RiverUIPassword:   r.text("RIVER_UI_PASSWORD", ""),
		WorkerConcurrency: r.positive("WORKER_CONCURRENCY", 10),
		MessagesPerMinute: r.orOff("RATE_LIMIT_MESSAGES_PER_MINUTE", inDev(dev, 1200, 60)),
		MaxStreamsPerUser: r.orOff("MAX_STREAMS_PER_USER", 8),
		AutoPruneDays:     r.orOff("AUTO_PRUNE_DAYS", 0),
		AccessToken:       r.text("THROUGHLINE_TOKEN", ""),
		LogLevel:          r.level("LOG_LEVEL"),
		LogText:           r.oneOf("LOG_FORMAT", inDev(dev, "text", "json"), "json", "text") == "text",
	}
	c.Tools = r.tools("TOOLS_FILE", c.Variants)
	c.checkTogether(r, dev)
	if len(r.problems) > 0 {
		return Config{}, &Error{Problems: r.problems}
	}
	if c.DatabaseDirectURL == "" {
		c.DatabaseDirectURL = c.DatabaseURL
	}
	c.warnOfOverruled(r)
	c.Memory.HistoryTokens = memory.Divide(smallestWindow(c.Variants)).History
	return c, nil
}

func (r *reader) longTerm() LongTerm {
	const maxDays = 36_500 // more than the age of any memory
	return LongTerm{
		On:                r.boolean("LONG_TERM_MEMORY", true),
		ExtractDelay:      r.duration("MEMORY_EXTRACT_DELAY", DefaultExtractDelay),
		ArchiveDeleteDays: r.number("MEMORY_ARCHIVE_DELETE_DAYS", 0, 0, maxDays),
		ShowEmpty:         r.boolean("MEMORY_SHOW_EMPTY", false),
	}
}

func (r *reader) topics() Topics {
	const most = 1000 // keeps what one summary is made of within the windows of models
	set := topics.Defaults()
	return Topics{Mode: r.oneOf("TOPICS", TopicsAuto, TopicsAuto, TopicsOn, TopicsOff), Settings: topics.Settings{
		Similarity:       r.fraction("TOPIC_SIMILARITY", set.Similarity),
		Continuity:       set.Continuity,
		Max:              r.positive("TOPIC_MAX", set.Max),
		HalfLife:         r.duration("TOPIC_HALF_LIFE", set.HalfLife),
		HalfLifeMax:      r.duration("TOPIC_HALF_LIFE_MAX", set.HalfLifeMax),
		LongTermAccesses: r.positive("TOPIC_LONG_TERM_ACCESSES", set.LongTermAccesses),
		MaxMessages:      r.number("TOPIC_MAX_MESSAGES", set.MaxMessages, 2, most),
		KeepMessages:     r.number("TOPIC_KEEP_MESSAGES", set.KeepMessages, 1, most-1),
	}}
}

// titles reads off, or a duration.
func (r *reader) titles() time.Duration {
	if r.text("CHAT_TITLES", "") == "off" {
		return 0
	}
	return r.duration("CHAT_TITLES", DefaultChatTitles)
}

// DefaultChatTitles is how long a chat rests before it gets a title.
const DefaultChatTitles = 10 * time.Second

// DefaultExtractDelay is how long a chat rests before it is read for memories.
const DefaultExtractDelay = 2 * time.Minute

const defaultRecallDeadline = 150 * time.Millisecond

// InstructionNames are the calls that take instructions of an app's own: each from the file of its name, such as extract.md.
var InstructionNames = []string{"extract", "consolidate", "rewrite"}

// DefaultVariants are OpenAI's current models behind the names that the apps use.
const DefaultVariants = "arco=gpt-5.6-terra,arco-pro=gpt-5.6-sol,deep-dive=gpt-5.6-sol"

// DefaultEmbeddingModel is OpenAI's small model for vectors.
const DefaultEmbeddingModel = "text-embedding-3-small"

// inDev returns the default that holds: one for a developer's machine, where pages of any development server may
// call and the demo talks faster than people do, and one for everywhere else.
func inDev[T any](dev bool, there, elsewhere T) T {
	if dev {
		return there
	}
	return elsewhere
}

// checkTogether finds values that are wrong only in combination.
func (c *Config) checkTogether(r *reader, dev bool) {
	secretForAll := isSecret(c.SupabaseAnonKey) || c.SupabaseAnonKey != "" && c.SupabaseAnonKey == c.SupabaseSecretKey
	for _, wrong := range []struct {
		holds      bool
		name, what string
	}{
		{c.Summary.Mode == brief.ModeHosted && c.Summary.Hosted.Version == "", "PROMPT_VERSION_SUMMARY_GLOBAL", "is required while SUMMARY_PROMPT_MODE is hosted"},
		{c.RiverUI && !dev && (c.RiverUIUser == "" || c.RiverUIPassword == ""), "RIVER_UI",
			"is served outside dev only with RIVER_UI_USER and RIVER_UI_PASSWORD"},
		{secretForAll, "SUPABASE_ANON_KEY",
			"is a secret key: the page would show it to everybody. Set the anon or publishable one, and renew that one if it was served"},
		{c.DatabaseDirectURL != "" && c.DatabaseURL == "", "DATABASE_DIRECT_URL", "is set without DATABASE_URL: set that, or both"},
		{strings.HasSuffix(c.SupabaseURL, "/auth/v1") || strings.HasSuffix(c.SupabaseURL, "/rest/v1"), "SUPABASE_URL",
			"must be the project's address without a path, such as https://abc.supabase.co"},
		{c.Cell.AdmitsNew && r.text("CELL", "") == "", "CELL_ADMITS_NEW", "is set without CELL"},
		{c.Topics.KeepMessages >= c.Topics.MaxMessages, "TOPIC_KEEP_MESSAGES", "must be less than TOPIC_MAX_MESSAGES"},
		{c.Topics.HalfLife > c.Topics.HalfLifeMax, "TOPIC_HALF_LIFE", "must not be longer than TOPIC_HALF_LIFE_MAX"},
		{(c.RiverUIUser == "") != (c.RiverUIPassword == ""), "RIVER_UI_USER", "and RIVER_UI_PASSWORD are set together or not at all"},
	} {
		if wrong.holds {
			r.problem(wrong.name, wrong.what)
		}
	}
}

// warnOfOverruled collects settings that others make void.
func (c *Config) warnOfOverruled(r *reader) {
	unused := !c.Recall && !c.LongTerm.On
	noVectors, cause := unused || c.EmbeddingModel == "", "EMBEDDING_MODEL is none"
	if unused {
		cause = "RECALL is off, and LONG_TERM_MEMORY"
	}
	secretKey, oldKey := r.text("SUPABASE_SECRET_KEY", ""), r.text("SUPABASE_SERVICE_ROLE_KEY", "")
	for _, void := range []struct {
		holds   bool
		problem string
	}{
		{secretKey != "" && oldKey != "" && secretKey != oldKey, "SUPABASE_SERVICE_ROLE_KEY has no effect: SUPABASE_SECRET_KEY is set, too"},
		{c.SupabaseSecretKey != "" && c.SupabaseURL == "", "SUPABASE_SECRET_KEY has no effect without SUPABASE_URL"},
		{c.RiverUIUser != "" && !c.RiverUI, "RIVER_UI_USER has no effect: RIVER_UI is not true"},
		{c.Summary.Mode == brief.ModeInline && c.Summary.Hosted.Version != "", "PROMPT_VERSION_SUMMARY_GLOBAL has no effect: SUMMARY_PROMPT_MODE is inline"},
		{c.Summary.Mode == brief.ModeHosted && c.Summary.Instructions != "", "SUMMARY_INSTRUCTIONS_FILE has no effect on hosted summaries: " +
			"SUMMARY_PROMPT_MODE is hosted"},
		{c.ModelIdleTimeout > c.ModelTimeout, "MODEL_IDLE_TIMEOUT has no effect: MODEL_TIMEOUT is shorter"},
		{unused && c.EmbeddingModel != DefaultEmbeddingModel && c.EmbeddingModel != "", "EMBEDDING_MODEL has no effect: RECALL is off, and LONG_TERM_MEMORY"},
		{!c.Recall && c.RecallDeadline != defaultRecallDeadline, "RECALL_DEADLINE has no effect: RECALL is off"},
		{noVectors && c.EmbeddingBaseURL != "", "EMBEDDING_BASE_URL has no effect: " + cause},
	} {
		if void.holds {
			c.Warnings = append(c.Warnings, void.problem)
		}
	}
	c.Warnings = append(c.Warnings, r.warnings...)
	if !c.LongTerm.On {
		c.Warnings = append(c.Warnings, void(r, (*reader).longTerm, "LONG_TERM_MEMORY", "LONG_TERM_MEMORY is false")...)
	}
	switch {
	case c.Topics.Mode == TopicsOff:
		c.Warnings = append(c.Warnings, void(r, (*reader).topics, "TOPICS", "TOPICS is off")...)
	case !c.Recall:
		c.Warnings = append(c.Warnings, void(r, (*reader).topics, "", "RECALL is off")...)
	}
}

// void returns a warning for each variable of a group that is set to something else than its default and has no effect. Of
// the variable that switches the group off there is none.
func void[Group comparable](r *reader, read func(*reader) Group, switched, cause string) (warnings []string) {
	names := map[string]bool{}
	none := read(&reader{lookup: func(name string) (string, bool) { names[name] = true; return "", false }})
	delete(names, switched)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		alone := &reader{lookup: func(other string) (string, bool) { return r.text(name, ""), other == name }}
		if read(alone) != none {
			warnings = append(warnings, name+" has no effect: "+cause)
		}
	}
	return warnings
}

// RequireDatabase fails without DATABASE_URL, which only dev does not need.
func (c *Config) RequireDatabase() error {
	return needs(c.DatabaseURL != "", "DATABASE_URL is required: a Postgres connection string, such as postgres://user:password@host:5432/postgres")
}

// HasModel reports whether a model is configured: by a key, or by the address of a server that needs none.
func (c *Config) HasModel() bool { return c.OpenAIAPIKey != "" || c.OpenAIBaseURL != "" }

// RequireModel fails without a model, which only dev does not need. Memory's jobs need it also where each variant has a server of its own.
func (c *Config) RequireModel() error {
	return needs(c.HasModel(), "OPENAI_API_KEY is required: the key of the server that speaks OpenAI's Responses API, for memory and for variants without "+
		"a base_url; or OPENAI_BASE_URL alone for one that needs no key")
}

// RequireVerifier fails if no token could ever be accepted.
func (c *Config) RequireVerifier() error {
	return needs(c.SupabaseURL != "" || c.SupabaseJWTSecret != "" || c.AuthIssuers != nil, "SUPABASE_URL, SUPABASE_JWT_SECRET or AUTH_ISSUERS is "+
		"required: without one no access token can be verified")
}

func needs(ok bool, problem string) error {
	if ok {
		return nil
	}
	return &Error{Problems: []string{problem}}
}

// Issuer returns the issuer of the project's access tokens; "" without a project.
func (c Config) Issuer() string {
	if c.SupabaseURL == "" {
		return ""
	}
	return c.SupabaseURL + "/auth/v1"
}

// LocalJWTSecret signs the tokens of a development server without a project. It is not secret: every local Supabase stack has it.
const LocalJWTSecret = "super-secret-jwt-token-with-at-least-32-characters-long"

// LocalUser is the user of a development server, whose token it prints.
var LocalUser = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// LocalToken mints an access token of that user.
func (c Config) LocalToken() (string, error) {
	return auth.Mint([]byte(c.SupabaseJWTSecret), LocalUser, c.Issuer(), 24*time.Hour, time.Now())
}

// NewLogger returns a logger of the chosen level and format, which has told which settings have no effect.
func (c Config) NewLogger(out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	logger := slog.New(slog.NewJSONHandler(out, options))
	if c.LogText {
		logger = slog.New(slog.NewTextHandler(out, options))
	}
	if c.Cell.Name != "" {
		logger = logger.With("cell", c.Cell.Name)
	}
	for _, warning := range c.Warnings {
		logger.Warn("setting ignored", "problem", warning)
	}
	return logger
}
