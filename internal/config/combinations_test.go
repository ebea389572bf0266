package config

import (
	"strconv"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestValuesThatAreWrongTogether(t *testing.T) {
	t.Parallel()
	both := environment{"RIVER_UI": "true", "RIVER_UI_USER": "u", "RIVER_UI_PASSWORD": "p"}
	for _, c := range []struct {
		name string
		set  environment
		dev  bool
		want string // the variable that the error names, "" for no error
	}{
		{"River UI in the open", environment{"RIVER_UI": "true"}, false, "RIVER_UI "},
		{"River UI on a developer's machine", environment{"RIVER_UI": "true"}, true, ""},
		{"River UI with a password", both, false, ""},
		{"a user without a password", environment{"RIVER_UI_USER": "u"}, false, "RIVER_UI_USER "},
		{"a password without a user", environment{"RIVER_UI_PASSWORD": "p"}, true, "RIVER_UI_USER "},
		{"a password, but no River UI", environment{"RIVER_UI_USER": "u", "RIVER_UI_PASSWORD": "p"}, false, ""},
		{"a secret key for the page", environment{"SUPABASE_ANON_KEY": "sb_secret_abc"}, false, "SUPABASE_ANON_KEY "},
		{"the server's key for the page", environment{"SUPABASE_ANON_KEY": "same", "SUPABASE_SECRET_KEY": "same"}, false, "SUPABASE_ANON_KEY "},
		{"the old service key for the page", environment{"SUPABASE_ANON_KEY": "e30.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.c2ln"}, false, "SUPABASE_ANON_KEY "},
		{"the old anon key for the page", environment{"SUPABASE_ANON_KEY": "e30.eyJyb2xlIjoiYW5vbiJ9.c2ln"}, false, ""},
		{"a publishable key for the page", environment{"SUPABASE_ANON_KEY": "sb_publishable_abc"}, false, ""},
		{"hosted without a version", environment{"SUMMARY_PROMPT_MODE": "hosted"}, false, "PROMPT_VERSION_SUMMARY_GLOBAL "},
		{"hosted with a version", environment{"SUMMARY_PROMPT_MODE": "hosted", "PROMPT_VERSION_SUMMARY_GLOBAL": "3"}, false, ""},
		{"a direct connection alone", environment{"DATABASE_DIRECT_URL": "host=/tmp"}, true, "DATABASE_DIRECT_URL "},
		{"the address of the auth server", environment{"SUPABASE_URL": "https://abc.supabase.co/auth/v1/"}, false, "SUPABASE_URL "},
		{"the address of the data API", environment{"SUPABASE_URL": "https://abc.supabase.co/rest/v1"}, false, "SUPABASE_URL "},
		{"the project as another issuer", environment{"SUPABASE_URL": "https://a.example/", "AUTH_ISSUERS": "https://a.example/auth/v1"}, false, "AUTH_ISSUERS "},
		{"another project", environment{"SUPABASE_URL": "https://a.example", "AUTH_ISSUERS": "https://b.example/auth/v1"}, false, ""},
		{"a project behind a path", environment{"SUPABASE_URL": "https://example.com/supabase"}, false, ""},
		{"a place for new users without a cell", environment{"CELL_ADMITS_NEW": "true"}, false, "CELL_ADMITS_NEW "},
		{"no cell, as .env.example has it", environment{"CELL_ADMITS_NEW": "false"}, false, ""},
		{"more messages kept than fit", environment{"TOPIC_KEEP_MESSAGES": "12"}, false, "TOPIC_KEEP_MESSAGES "},
		{"fewer messages than are kept", environment{"TOPIC_MAX_MESSAGES": "4"}, false, "TOPIC_KEEP_MESSAGES "},
		{"one message left to compact", environment{"TOPIC_KEEP_MESSAGES": "11"}, false, ""},
		{"a half-life over its maximum", environment{"TOPIC_HALF_LIFE": "721h"}, false, "TOPIC_HALF_LIFE "},
		{"a half-life that does not grow", environment{"TOPIC_HALF_LIFE": "720h"}, false, ""},
		{"auto without a version", environment{"SUMMARY_PROMPT_MODE": "auto"}, false, ""},
		{"inline with a version", environment{"SUMMARY_PROMPT_MODE": "inline", "PROMPT_VERSION_SUMMARY_GLOBAL": "3"}, false, ""},
	} {
		_, err := Parse(c.set.lookup, c.dev)
		assert.Truef(t, (c.want != "" || err == nil) && (c.want == "" || (err != nil && strings.HasPrefix(err.Error(), c.want))), "%s: %v", c.name, err)
	}
}

func TestValuesThatStandForOthers(t *testing.T) {
	t.Parallel()
	c := parse(t, environment{"DATABASE_URL": "postgres://a/b", "SUPABASE_URL": "https://abc.supabase.co//"}, false)
	assert.Truef(t, c.DatabaseDirectURL == "postgres://a/b" && c.SupabaseURL == "https://abc.supabase.co",
		"direct %q, project %q", c.DatabaseDirectURL, c.SupabaseURL)
	c = parse(t, environment{"DATABASE_URL": "postgres://a/b", "DATABASE_DIRECT_URL": "postgres://c/d"}, false)
	assert.Truef(t, c.DatabaseURL == "postgres://a/b" && c.DatabaseDirectURL == "postgres://c/d", "%q, %q", c.DatabaseURL, c.DatabaseDirectURL)
	c = parse(t, environment{"SUPABASE_SERVICE_ROLE_KEY": "old", "SUPABASE_SECRET_KEY": "new"}, false)
	assert.Equal(t, "new", c.SupabaseSecretKey, "key")
}

func TestLogNamesTheCell(t *testing.T) {
	t.Parallel()
	for cell, named := range map[string]bool{"b": true, "": false} {
		var log strings.Builder
		parse(t, environment{"CELL": cell}, false).NewLogger(&log).Info("hello")
		assert.Equal(t, named, strings.Contains(log.String(), `"cell":"b"`), log.String())
	}
}

// Any positive numbers are accepted, and a prompt and a fold can be planned with them.
func TestAnyPositiveCombination(t *testing.T) {
	t.Parallel()
	names := []string{
		"MEMORY_K_RAW_TURNS", "MEMORY_SUMMARY_TOKEN_CAP", "MEMORY_PROMPT_TOKEN_BUDGET", "MEMORY_CHUNK_SUMMARIZE_THRESHOLD",
		"MEMORY_MIN_TAIL_TURNS", "MEMORY_BRIDGE_TOKEN_BUDGET", "MEMORY_FOLD_INPUT_TOKENS", "WORKER_CONCURRENCY",
		"RATE_LIMIT_MESSAGES_PER_MINUTE", "MAX_STREAMS_PER_USER",
	}
	buffer := []memory.Message{
		{Seq: 1, Role: memory.RoleUser, Content: "Where is the 728?", Tokens: 7},
		{Seq: 2, Role: memory.RoleAssistant, Content: "At the harbour.", Tokens: 4},
		{Seq: 3, Role: memory.RoleUser, Content: "And the 8?", Tokens: 5},
	}
	current := memory.Brief{Summary: "The user takes the bus.", Tokens: 6, Version: 1}
	rapid.Check(t, func(t *rapid.T) {
		set := environment{}
		for _, name := range names {
			set[name] = strconv.Itoa(rapid.OneOf(rapid.IntRange(1, 12), rapid.IntRange(1, maxNumber)).Draw(t, name))
		}
		c, err := Parse(set.lookup, rapid.Bool().Draw(t, "dev"))
		require.NoError(t, err)
		prompt := prompt.Build(memory.Chat{Brief: current, Buffer: buffer}, prompt.Question{Content: "When?"}, c.Memory)
		assert.Truef(t, strings.HasSuffix(prompt.Input, "CURRENT MESSAGE:\nWhen?"), "%+v: %q", c.Memory, prompt.Input)
		plan, some := brief.PlanFold(current, memory.Turns(buffer), c.Memory)
		assert.Truef(t, !some || len(plan.Pieces) != 0, "%+v plans to fold nothing", c.Memory)
	})
}

func TestRequired(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set     environment
		require func(*Config) error
		names   string
	}{
		{environment{}, (*Config).RequireDatabase, "DATABASE_URL"},
		{environment{"DATABASE_URL": "postgres://a/b"}, (*Config).RequireDatabase, ""},
		{environment{}, (*Config).RequireModel, "OPENAI_API_KEY"},
		{environment{"OPENAI_API_KEY": "k"}, (*Config).RequireModel, ""},
		{environment{}, (*Config).RequireVerifier, "SUPABASE_JWT_SECRET"},
		{environment{"SUPABASE_URL": "https://a.supabase.co"}, (*Config).RequireVerifier, ""},
		{environment{"SUPABASE_JWT_SECRET": "s"}, (*Config).RequireVerifier, ""},
		{environment{"AUTH_ISSUERS": "https://a.example"}, (*Config).RequireVerifier, ""},
	} {
		parsed := parse(t, c.set, false)
		err := c.require(&parsed)
		assert.Truef(t, (c.names != "" || err == nil) && (c.names == "" || (err != nil && strings.Contains(err.Error(), c.names))), "%v: %v", c.set, err)
	}
}

// A setting that another one makes void is not ignored in silence.
func TestSettingsWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  environment
		want string
	}{
		{environment{"SUPABASE_URL": "https://a.example", "SUPABASE_SECRET_KEY": "new", "SUPABASE_SERVICE_ROLE_KEY": "old"}, "SUPABASE_SERVICE_ROLE_KEY "},
		{environment{"SUPABASE_URL": "https://a.example", "SUPABASE_SECRET_KEY": "same", "SUPABASE_SERVICE_ROLE_KEY": "same"}, ""},
		{environment{"SUPABASE_SECRET_KEY": "new"}, "SUPABASE_SECRET_KEY "},
		{environment{"RIVER_UI_USER": "u", "RIVER_UI_PASSWORD": "p"}, "RIVER_UI_USER "},
		{environment{"RIVER_UI": "true", "RIVER_UI_USER": "u", "RIVER_UI_PASSWORD": "p"}, ""},
		{environment{"SUMMARY_PROMPT_MODE": "inline", "PROMPT_VERSION_SUMMARY_GLOBAL": "3"}, "PROMPT_VERSION_SUMMARY_GLOBAL "},
		{environment{"MODEL_TIMEOUT": "30s"}, "MODEL_IDLE_TIMEOUT "},
		{environment{"RECALL": "off", "EMBEDDING_MODEL": "m"}, "EMBEDDING_MODEL has no effect: RECALL"},
		{environment{"RECALL": "off", "EMBEDDING_MODEL": "none"}, ""},
		{environment{"RECALL": "off", "RECALL_DEADLINE": "1s"}, "RECALL_DEADLINE "},
		{environment{"RECALL": "off", "EMBEDDING_BASE_URL": "https://a.example"}, "EMBEDDING_BASE_URL has no effect: RECALL"},
		{environment{"EMBEDDING_MODEL": "none", "EMBEDDING_BASE_URL": "https://a.example"}, "EMBEDDING_BASE_URL has no effect: EMBEDDING_MODEL"},
		{environment{"RECALL": "off", "LONG_TERM_MEMORY": "true", "EMBEDDING_MODEL": "m"}, ""},
		{environment{"TOPICS": "off", "TOPIC_MAX": "7"}, "TOPIC_MAX has no effect: TOPICS"},
		{environment{"TOPICS": "off", "TOPIC_MAX": "20"}, ""},
		{environment{"RECALL": "off", "TOPICS": "on"}, "TOPICS has no effect: RECALL"},
		{environment{"RECALL": "off", "TOPICS": "off"}, ""},
		{environment{}, ""},
	} {
		if c.set["RECALL"] == "off" && c.set["LONG_TERM_MEMORY"] == "" {
			c.set["LONG_TERM_MEMORY"] = "false" // memories have vectors without recall
		}
		warnings := parse(t, c.set, false).Warnings
		assert.Truef(t, (c.want != "" || len(warnings) == 0) && (c.want == "" || (len(warnings) == 1 && strings.HasPrefix(warnings[0], c.want))),
			"%v: %q", c.set, warnings)
	}
}
