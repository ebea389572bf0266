// Package config reads the environment into a Config, once, and is the only reader of it. Every
// variable is in the table below with its default; .env.example is checked against that table by a
// test. A wrong value is an error that names the variable.
package config

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/joho/godotenv"
)

// Config is what the environment says. Durations and sizes have the units of their types.
type Config struct {
	DatabaseURL       string
	DatabaseDirectURL string
	HTTPAddr          string
	// MetricsAddr is where a process that only works tells how it is doing; "" for nowhere.
	MetricsAddr string
	// CORSOrigins are origins of web apps as browsers name them, or "*" alone; empty for none.
	CORSOrigins []string

	SupabaseURL       string
	SupabaseJWTSecret string
	SupabaseSecretKey string

	OpenAIAPIKey     string
	OpenAIBaseURL    string
	Variants         []chat.Variant
	ModelIdleTimeout time.Duration
	ModelTimeout     time.Duration
	MainInstructions string

	Memory  memory.Limits
	Summary brief.PromptConfig

	RiverUI         bool
	RiverUIUser     string
	RiverUIPassword string

	WorkerConcurrency int
	MessagesPerMinute int
	MaxStreamsPerUser int
	DrainTimeout      time.Duration
	RecordInterval    time.Duration
	// ExpiredChatDays is how long an expired chat is kept, AutoPruneDays after how long without a message any
	// chat is deleted; 0 for ever and never.
	ExpiredChatDays int
	AutoPruneDays   int

	// ServerURL and AccessToken are for the commands that talk to a running server; "" means the one of dev.
	ServerURL   string
	AccessToken string

	LogLevel slog.Level
	// LogText chooses slog's text format instead of JSON.
	LogText bool
}

// Error is a variable with a wrong value, or several.
type Error struct{ Problems []string }

func (e *Error) Error() string { return strings.Join(e.Problems, "; ") }

// Load reads .env where there is one, which never overrides, and then the environment. dev changes the
// defaults that differ on a developer's machine.
func Load(dev bool) (Config, error) {
	if err := godotenv.Load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if why := reason(err); why != "" {
			return Config{}, &Error{Problems: []string{".env cannot be read" + why}}
		}
		// godotenv quotes the line that it stumbled over, and that is where the secrets are.
		return Config{}, &Error{Problems: []string{`.env has a line that is not NAME=value, or a quote that is not closed`}}
	}
	return Parse(os.LookupEnv, dev)
}

// Parse makes a Config of what lookup says. An empty value counts as absent.
func Parse(lookup func(string) (string, bool), dev bool) (Config, error) {
	r := &reader{lookup: lookup}
	defaults := memory.DefaultLimits()
	c := Config{
		DatabaseURL:       r.dsn("DATABASE_URL"),
		DatabaseDirectURL: r.dsn("DATABASE_DIRECT_URL"),
		HTTPAddr:          r.address("HTTP_ADDR", "127.0.0.1:8080"),
		MetricsAddr:       r.address("METRICS_ADDR", ""),
		CORSOrigins:       r.origins("CORS_ORIGINS", defaultOrigins(dev)),
		SupabaseURL:       strings.TrimRight(r.url("SUPABASE_URL"), "/"),
		SupabaseJWTSecret: r.text("SUPABASE_JWT_SECRET", ""),
		SupabaseSecretKey: r.text("SUPABASE_SECRET_KEY", r.text("SUPABASE_SERVICE_ROLE_KEY", "")),
		OpenAIAPIKey:      r.text("OPENAI_API_KEY", ""),
		OpenAIBaseURL:     r.url("OPENAI_BASE_URL"),
		Variants:          r.variants("MODEL_VARIANTS", DefaultVariants),
		ModelIdleTimeout:  r.duration("MODEL_IDLE_TIMEOUT", time.Minute),
		ModelTimeout:      r.duration("MODEL_TIMEOUT", 10*time.Minute),
		MainInstructions:  r.file("MAIN_INSTRUCTIONS_FILE", chat.DefaultInstructions),
		Memory: memory.Limits{
			KRawTurns:         r.positive("MEMORY_K_RAW_TURNS", defaults.KRawTurns),
			SummaryTokenCap:   r.positive("MEMORY_SUMMARY_TOKEN_CAP", defaults.SummaryTokenCap),
			PromptTokenBudget: r.positive("MEMORY_PROMPT_TOKEN_BUDGET", defaults.PromptTokenBudget),
			ChunkThreshold:    r.positive("MEMORY_CHUNK_SUMMARIZE_THRESHOLD", defaults.ChunkThreshold),
			MinTailTurns:      r.positive("MEMORY_MIN_TAIL_TURNS", defaults.MinTailTurns),
			BridgeTokenBudget: r.number("MEMORY_BRIDGE_TOKEN_BUDGET", defaults.BridgeTokenBudget, 0),
			FoldInputTokens:   r.positive("MEMORY_FOLD_INPUT_TOKENS", defaults.FoldInputTokens),
			MaxHistoryTokens:  r.positive("MEMORY_MAX_HISTORY_TOKENS", defaults.MaxHistoryTokens),
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
		RiverUI:           r.boolean("RIVER_UI", dev),
		RiverUIUser:       r.text("RIVER_UI_USER", ""),
		RiverUIPassword:   r.text("RIVER_UI_PASSWORD", ""),
		WorkerConcurrency: r.positive("WORKER_CONCURRENCY", 10),
		MessagesPerMinute: r.number("RATE_LIMIT_MESSAGES_PER_MINUTE", defaultRate(dev), 0),
		MaxStreamsPerUser: r.number("MAX_STREAMS_PER_USER", 8, 0),
		DrainTimeout:      r.duration("DRAIN_TIMEOUT", 15*time.Second),
		RecordInterval:    r.duration("RECORD_INTERVAL", 100*time.Millisecond),
		ExpiredChatDays:   r.number("EXPIRED_CHAT_RETENTION_DAYS", 30, 0),
		AutoPruneDays:     r.number("AUTO_PRUNE_DAYS", 0, 0),
		ServerURL:         strings.TrimRight(r.url("THROUGHLINE_URL"), "/"),
		AccessToken:       r.text("THROUGHLINE_TOKEN", ""),
		LogLevel:          r.level("LOG_LEVEL"),
		LogText:           r.oneOf("LOG_FORMAT", defaultFormat(dev), "json", "text") == "text",
	}
	c.checkTogether(r, dev)
	if len(r.problems) > 0 {
		return Config{}, &Error{Problems: r.problems}
	}
	if c.DatabaseDirectURL == "" {
		c.DatabaseDirectURL = c.DatabaseURL
	}
	return c, nil
}

// DefaultVariants are OpenAI's models of the day behind the names of the apps.
const DefaultVariants = "arco=gpt-5.6-terra,arco-pro=gpt-5.6-sol,deep-dive=gpt-5.6-sol"

// defaultRate leaves room on a developer's machine for a demo that talks faster than people do.
func defaultRate(dev bool) int {
	if dev {
		return 1200
	}
	return 60
}

func defaultFormat(dev bool) string {
	if dev {
		return "text"
	}
	return "json"
}

// defaultOrigins lets the pages of any development server in; a token is needed all the same.
func defaultOrigins(dev bool) string {
	if dev {
		return anyOrigin
	}
	return ""
}

// checkTogether finds values that are wrong only beside others.
func (c *Config) checkTogether(r *reader, dev bool) {
	if c.Summary.Mode == brief.ModeHosted && c.Summary.Hosted.Version == "" {
		r.problem("PROMPT_VERSION_SUMMARY_GLOBAL", "is required while SUMMARY_PROMPT_MODE is hosted")
	}
	if c.RiverUI && !dev && (c.RiverUIUser == "" || c.RiverUIPassword == "") {
		r.problem("RIVER_UI", "is served outside dev only with RIVER_UI_USER and RIVER_UI_PASSWORD")
	}
	if (c.RiverUIUser == "") != (c.RiverUIPassword == "") {
		r.problem("RIVER_UI_USER", "and RIVER_UI_PASSWORD are set together or not at all")
	}
}

// RequireDatabase reports a missing DATABASE_URL, which only dev can do without.
func (c *Config) RequireDatabase() error {
	if c.DatabaseURL == "" {
		return &Error{Problems: []string{"DATABASE_URL is required: a Postgres connection string, such as postgres://user:password@host:5432/postgres"}}
	}
	return nil
}

// RequireModel reports a missing OPENAI_API_KEY, which only dev can do without.
func (c *Config) RequireModel() error {
	if c.OpenAIAPIKey == "" {
		return &Error{Problems: []string{"OPENAI_API_KEY is required: the key of the server that speaks OpenAI's Responses API"}}
	}
	return nil
}

// RequireVerifier reports that no token could ever be accepted.
func (c *Config) RequireVerifier() error {
	if c.SupabaseURL == "" && c.SupabaseJWTSecret == "" {
		return &Error{Problems: []string{"SUPABASE_URL or SUPABASE_JWT_SECRET is required: without one no access token can be verified"}}
	}
	return nil
}

// Issuer is what access tokens of the project name as their issuer; "" without a project.
func (c Config) Issuer() string {
	if c.SupabaseURL == "" {
		return ""
	}
	return c.SupabaseURL + "/auth/v1"
}
