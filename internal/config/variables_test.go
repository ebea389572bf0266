package config

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// accepted is a text and the value that it is parsed to.
type accepted struct {
	value string
	want  any
}

// variable is one row of the contract's table.
type variable struct {
	name  string
	field func(Config) any
	// fallback without the variable, and in dev where that differs.
	fallback, inDev any
	good            []accepted
	bad             []string
	// beside are variables that must be set together with this one.
	beside environment
}

func positive(name string, fallback int, field func(Config) any) variable {
	return variable{name: name, field: field, fallback: fallback,
		good: []accepted{{"1", 1}, {" 7 ", 7}, {"100000000", 100_000_000}},
		bad:  []string{"0", "-1", "1.5", "many", "1e3", "100000001", "99999999999999999999", "0x10"}}
}

func countOrOff(name string, fallback int, field func(Config) any) variable {
	v := positive(name, fallback, field)
	v.good, v.bad = append([]accepted{{"0", 0}}, v.good...), v.bad[1:]
	return v
}

func devDefault(fallback any, v variable) variable {
	v.inDev = fallback
	return v
}

func besides(beside environment, v variable) variable {
	v.beside = beside
	return v
}

func duration(name string, fallback time.Duration, field func(Config) any) variable {
	return variable{name: name, field: field, fallback: fallback,
		good: []accepted{{"1ms", time.Millisecond}, {"90s", 90 * time.Second}, {"1h30m", 90 * time.Minute}},
		bad:  []string{"0", "0s", "-5s", "60", "a minute", "5 s"}}
}

func onOff(name string, fallback bool, field func(Config) any) variable {
	return variable{name: name, field: field, fallback: fallback, good: []accepted{{"true", true}, {"0", false}}, bad: []string{"yes", "off", "hunter2"}}
}

func fraction(name string, fallback float64, field func(Config) any) variable {
	return variable{name: name, field: field, fallback: fallback,
		good: []accepted{{"0", 0.0}, {"0.55", 0.55}, {"1", 1.0}}, bad: []string{"-0.1", "1.1", "70%", "NaN"}}
}

func variant(name, model string) chat.Variant {
	return chat.Variant{Name: name, Model: model, Window: 128_000}
}

func anyText(name, fallback string, field func(Config) any) variable {
	return variable{name: name, field: field, fallback: fallback, good: []accepted{{"some-Text_1", "some-Text_1"}, {"  trimmed ", "trimmed"}}}
}

func webAddress(name string, field func(Config) any) variable {
	return variable{name: name, field: field, fallback: "",
		good: []accepted{{"https://abc.supabase.co", "https://abc.supabase.co"}, {"http://127.0.0.1:54321/v1", "http://127.0.0.1:54321/v1"}},
		bad:  []string{"abc.supabase.co", "ftp://abc.supabase.co", "https://", "/v1", "http://[::1", "postgres://hunter2@host/db"}}
}

func connection(name string, field func(Config) any) variable {
	return variable{name: name, field: field, fallback: "",
		good: []accepted{
			{"postgres://user:pass@db.example:6543/postgres?pgbouncer=true", "postgres://user:pass@db.example:6543/postgres?pgbouncer=true"},
			{"host=/tmp user=app dbname=app", "host=/tmp user=app dbname=app"},
		},
		bad: []string{"postgres://user:hunter2@host:notaport/db", "hunter2", "postgres://user:hunter2@host/db?sslmode=perhaps"}}
}

// variables is the table of the contract. TestEnvExample checks that none is missing.
func variables(t *testing.T) []variable {
	instructions := filepath.Join(t.TempDir(), "instructions.md")
	require.NoError(t, os.WriteFile(instructions, []byte("Speak plainly.\n"), 0o600))
	blank := filepath.Join(t.TempDir(), "blank.md")
	require.NoError(t, os.WriteFile(blank, []byte(" \n"), 0o600))
	own := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(own, "extract.md"), []byte("Keep little.\n"), 0o600))
	tools := filepath.Join(t.TempDir(), "tools.json")
	require.NoError(t, os.WriteFile(tools, []byte(`{"tools": [{"name": "map", "parameters": {"type":"object"}, "url": "https://a.example"}]}`), 0o600))
	file := func(name, fallback string, field func(Config) any) variable {
		return variable{name: name, field: field, fallback: fallback, good: []accepted{{instructions, "Speak plainly.\n"}},
			bad: []string{"/nowhere/hunter2.md", blank, filepath.Dir(blank), "You are hunter2, a helpful assistant. " + strings.Repeat("Be kind. ", 100)}}
	}
	return []variable{
		connection("DATABASE_URL", func(c Config) any { return c.DatabaseURL }),
		besides(environment{"DATABASE_URL": "host=/tmp"}, connection("DATABASE_DIRECT_URL", func(c Config) any { return c.DatabaseDirectURL })),
		{name: "HTTP_ADDR", field: func(c Config) any { return c.HTTPAddr }, fallback: "127.0.0.1:8080",
			good: []accepted{{":8080", ":8080"}, {"0.0.0.0:0", "0.0.0.0:0"}, {"[::1]:65535", "[::1]:65535"}},
			bad:  []string{"8080", "localhost", "localhost:http", "localhost:65536", "localhost:-1", "::1:80"}},
		devDefault([]string{"*"}, variable{name: "CORS_ORIGINS", field: func(c Config) any { return c.CORSOrigins }, fallback: []string(nil),
			good: []accepted{
				{" * ", []string{"*"}},
				{"https://app.example.com", []string{"https://app.example.com"}},
				{"HTTP://Localhost:3000 , capacitor://localhost,http://[::1]:8081", []string{"http://localhost:3000", "capacitor://localhost", "http://[::1]:8081"}},
			},
			bad: []string{"hunter2", "app.arco.example", "localhost:8123", "null", "ftp://", "https://a.example/", "https://a.example/app", "https://a.example?x",
				"https://*.example.com", "*,https://a.example", "https://a.example,", "https://a.example https://b.example",
				"https://user:hunter2@a.example", "https://a.example:port", "https://a.example:443", "http://a.example:80", "//a.example", "https://:443"}}),
		webAddress("PUBLIC_URL", func(c Config) any { return c.PublicURL }),
		{name: "OAUTH_API_CLIENTS", field: func(c Config) any { return c.OAuthAPIClients }, fallback: []string(nil),
			good: []accepted{{"*", []string{"*"}}, {" a-1, b-2,", []string{"a-1", "b-2"}}}},
		{name: "AUTH_ISSUERS", field: func(c Config) any { return c.AuthIssuers }, fallback: []auth.Issuer(nil),
			good: []accepted{{" https://a.example , https://b.example/  aud=x  jwks=https://k.example/keys", []auth.Issuer{
				{Name: "https://a.example"}, {Name: "https://b.example/", KeySetURL: "https://k.example/keys", Audience: "x"}}}},
			bad: []string{"a.example", "https://a.example,", "https://a.example,https://a.example", "https://a.example?x", "https://a.example aud=",
				"https://a.example jwks=keys", "https://a.example audience=x", "https://a.example https://b.example", "https://a.example/" + strings.Repeat("x", 255)}},
		{name: "CELL", field: func(c Config) any { return c.Cell.Name }, fallback: "", beside: environment{"CELL_ADMITS_NEW": "true"},
			good: []accepted{{"b", "b"}, {" eu-1 ", "eu-1"}, {strings.Repeat("9", 32), strings.Repeat("9", 32)}},
			bad:  []string{"B", "-b", "b_1", "b c", "ü", "b\nc", strings.Repeat("9", 33)}},
		besides(environment{"CELL": "b"}, onOff("CELL_ADMITS_NEW", false, func(c Config) any { return c.Cell.AdmitsNew })),
		anyText("THROUGHLINE_TOKEN", "", func(c Config) any { return c.AccessToken }),
		webAddress("SUPABASE_URL", func(c Config) any { return c.SupabaseURL }),
		devDefault(LocalJWTSecret, anyText("SUPABASE_JWT_SECRET", "", func(c Config) any { return c.SupabaseJWTSecret })),
		anyText("SUPABASE_SECRET_KEY", "", func(c Config) any { return c.SupabaseSecretKey }),
		{name: "SUPABASE_ANON_KEY", field: func(c Config) any { return c.SupabaseAnonKey }, fallback: "",
			good: []accepted{{" sb_publishable_a ", "sb_publishable_a"}}},
		anyText("SUPABASE_SERVICE_ROLE_KEY", "", func(c Config) any { return c.SupabaseSecretKey }),
		anyText("OPENAI_API_KEY", "", func(c Config) any { return c.OpenAIAPIKey }),
		webAddress("OPENAI_BASE_URL", func(c Config) any { return c.OpenAIBaseURL }),
		{name: "MODEL_VARIANTS", field: func(c Config) any { return c.Variants },
			fallback: []chat.Variant{variant("arco", "gpt-5.6-terra"), variant("arco-pro", "gpt-5.6-sol"), variant("deep-dive", "gpt-5.6-sol")},
			good: []accepted{
				{"one=m", []chat.Variant{variant("one", "m")}},
				{" b = m:7b , a=x=y ", []chat.Variant{variant("b", "m:7b"), variant("a", "x=y")}},
				{"a=m@400000,b=n@1000", []chat.Variant{{Name: "a", Model: "m", Window: 400_000}, {Name: "b", Model: "n", Window: 1000}}},
				{"a=@org/m@latest", []chat.Variant{variant("a", "@org/m@latest")}},
			},
			bad: []string{"hunter2", "a=", "=m", "a=m,", "hunter2=m,hunter2=n", ",", "a=m@", "a=m@999", "a=@4000", "a=m@100000001"}},
		{name: "MODELS_FILE", field: func(c Config) any { return c.Servers }, fallback: map[string]Server(nil),
			good: []accepted{{modelsIn(t, `{"variants":[{"name":"x","model":"m","api":"chat"}]}`), map[string]Server{"x": {Chat: true}}}},
			bad:  []string{"/nowhere/hunter2.json", blank, instructions, filepath.Dir(blank), `{"variants":[{"name":"hunter2","model":"m"}]}`}},
		duration("MODEL_IDLE_TIMEOUT", time.Minute, func(c Config) any { return c.ModelIdleTimeout }),
		duration("MODEL_TIMEOUT", 10*time.Minute, func(c Config) any { return c.ModelTimeout }),
		file("MAIN_INSTRUCTIONS_FILE", chat.DefaultInstructions, func(c Config) any { return c.MainInstructions }),
		{name: "TOOLS_FILE", field: func(c Config) any { return c.Tools }, fallback: []chat.ServerTool(nil),
			good: []accepted{{tools, []chat.ServerTool{{Function: chat.Function{Name: "map", Parameters: []byte(`{"type":"object"}`)},
				URL: "https://a.example", Timeout: 10 * time.Second, Headers: map[string]string{}}}}},
			bad: []string{"/nowhere/hunter2.json", blank, filepath.Dir(blank), instructions}},
		positive("MEMORY_K_RAW_TURNS", 3, func(c Config) any { return c.Memory.KRawTurns }),
		positive("MEMORY_SUMMARY_TOKEN_CAP", 500, func(c Config) any { return c.Memory.SummaryTokenCap }),
		positive("MEMORY_PROMPT_TOKEN_BUDGET", 3000, func(c Config) any { return c.Memory.PromptTokenBudget }),
		positive("MEMORY_CHUNK_SUMMARIZE_THRESHOLD", 6000, func(c Config) any { return c.Memory.ChunkThreshold }),
		positive("MEMORY_MIN_TAIL_TURNS", 1, func(c Config) any { return c.Memory.MinTailTurns }),
		countOrOff("MEMORY_BRIDGE_TOKEN_BUDGET", 6000, func(c Config) any { return c.Memory.BridgeTokenBudget }),
		positive("MEMORY_FOLD_INPUT_TOKENS", 8000, func(c Config) any { return c.Memory.FoldInputTokens }),
		positive("MEMORY_MAX_HISTORY_TOKENS", 4096, func(c Config) any { return c.Memory.MaxHistoryTokens }),
		{name: "CHAT_MEMORY_STRATEGY", field: func(c Config) any { return c.ChatDefaults.Strategy }, fallback: memory.StrategySummary,
			good: []accepted{{"summary", memory.StrategySummary}, {"simple", memory.StrategySimple}, {"hybrid", memory.StrategyHybrid}},
			bad:  []string{"Summary", "none", "hunter2"}},
		{name: "CHAT_TTL_HOURS", field: func(c Config) any { return c.ChatDefaults.TTLHours }, fallback: 0,
			good: []accepted{{"0", 0}, {"1", 1}, {"87600", 87_600}}, bad: []string{"-1", "87601", "3h", "1.5"}},
		{name: "CHAT_MAX_TURNS", field: func(c Config) any { return c.ChatDefaults.MaxTurns }, fallback: 0,
			good: []accepted{{"0", 0}, {"1", 1}, {"100000", 100_000}}, bad: []string{"-1", "100001", "many"}},
		countOrOff("AUTO_PRUNE_DAYS", 0, func(c Config) any { return c.AutoPruneDays }),
		anyText("MEMORY_SUMMARIZER_MODEL", "gpt-5.6-luna", func(c Config) any { return c.Summary.Model }),
		file("SUMMARY_INSTRUCTIONS_FILE", "", func(c Config) any { return c.Summary.Instructions }),
		{name: "MEMORY_INSTRUCTIONS_DIR", field: func(c Config) any { return c.Instructions }, fallback: map[string]string(nil),
			good: []accepted{{own, map[string]string{"extract": "Keep little.\n"}}},
			bad:  []string{"/nowhere/hunter2", t.TempDir(), instructions, filepath.Dir(blank), filepath.Dir(instructions)}},
		{name: "SUMMARY_PROMPT_MODE", field: func(c Config) any { return c.Summary.Mode }, fallback: brief.ModeAuto,
			good: []accepted{{"auto", brief.ModeAuto}, {"inline", brief.ModeInline}, {"hosted", brief.ModeHosted}},
			bad:  []string{"Auto", "none", "hunter2"}, beside: environment{"PROMPT_VERSION_SUMMARY_GLOBAL": "1"}},
		anyText("PROMPT_ID_SUMMARY_GLOBAL", "pmpt_6917ebe9367c819396fe4840cf0f0e050c18a965a3366120", func(c Config) any { return c.Summary.Hosted.ID }),
		anyText("PROMPT_VERSION_SUMMARY_GLOBAL", "", func(c Config) any { return c.Summary.Hosted.Version }),
		{name: "RECALL", field: func(c Config) any { return c.Recall }, fallback: true,
			good: []accepted{{"auto", true}, {"off", false}}, bad: []string{"on", "true", "OFF", "hunter2"}},
		duration("RECALL_DEADLINE", 150*time.Millisecond, func(c Config) any { return c.RecallDeadline }),
		{name: "EMBEDDING_MODEL", field: func(c Config) any { return c.EmbeddingModel }, fallback: "text-embedding-3-small",
			good: []accepted{{"nomic-embed-text:v1.5", "nomic-embed-text:v1.5"}, {" none ", ""}}},
		webAddress("EMBEDDING_BASE_URL", func(c Config) any { return c.EmbeddingBaseURL }),
		{name: "CHAT_TITLES", field: func(c Config) any { return c.ChatTitles }, fallback: 10 * time.Second,
			good: []accepted{{"off", time.Duration(0)}, {"1m", time.Minute}}, bad: []string{"0", "auto", "-1s", "hunter2"}},
		onOff("LONG_TERM_MEMORY", true, func(c Config) any { return c.LongTerm.On }),
		duration("MEMORY_EXTRACT_DELAY", 2*time.Minute, func(c Config) any { return c.LongTerm.ExtractDelay }),
		{name: "MEMORY_ARCHIVE_DELETE_DAYS", field: func(c Config) any { return c.LongTerm.ArchiveDeleteDays }, fallback: 0,
			good: []accepted{{"0", 0}, {"365", 365}}, bad: []string{"-1", "36501", "1y"}},
		{name: "TOPICS", field: func(c Config) any { return c.Topics.Mode }, fallback: "auto",
			good: []accepted{{"auto", "auto"}, {"on", "on"}, {"off", "off"}}, bad: []string{"true", "ON", "hunter2"}},
		fraction("TOPIC_SIMILARITY", 0.7, func(c Config) any { return c.Topics.Similarity }),
		positive("TOPIC_MAX", 20, func(c Config) any { return c.Topics.Max }),
		besides(environment{"TOPIC_HALF_LIFE_MAX": "1000h"}, duration("TOPIC_HALF_LIFE", 24*time.Hour, func(c Config) any { return c.Topics.HalfLife })),
		besides(environment{"TOPIC_HALF_LIFE": "1ms"}, duration("TOPIC_HALF_LIFE_MAX", 720*time.Hour, func(c Config) any { return c.Topics.HalfLifeMax })),
		positive("TOPIC_LONG_TERM_ACCESSES", 5, func(c Config) any { return c.Topics.LongTermAccesses }),
		{name: "TOPIC_MAX_MESSAGES", field: func(c Config) any { return c.Topics.MaxMessages }, fallback: 12, beside: environment{"TOPIC_KEEP_MESSAGES": "1"},
			good: []accepted{{"2", 2}, {"1000", 1000}}, bad: []string{"1", "0", "-1", "1001", "many"}},
		{name: "TOPIC_KEEP_MESSAGES", field: func(c Config) any { return c.Topics.KeepMessages }, fallback: 4, beside: environment{"TOPIC_MAX_MESSAGES": "1000"},
			good: []accepted{{"1", 1}, {"999", 999}}, bad: []string{"0", "-1", "1000", "many"}},
		onOff("MEMORY_SHOW_EMPTY", false, func(c Config) any { return c.LongTerm.ShowEmpty }),
		{name: "RIVER_UI", field: func(c Config) any { return c.RiverUI }, fallback: false, inDev: true,
			good: []accepted{{"true", true}, {"false", false}, {"1", true}, {"0", false}},
			bad:  []string{"yes", "on", "hunter2"}, beside: environment{"RIVER_UI_USER": "u", "RIVER_UI_PASSWORD": "p"}},
		{name: "RIVER_UI_USER", field: func(c Config) any { return c.RiverUIUser }, fallback: "", good: []accepted{{"ada", "ada"}},
			beside: environment{"RIVER_UI_PASSWORD": "p"}},
		{name: "RIVER_UI_PASSWORD", field: func(c Config) any { return c.RiverUIPassword }, fallback: "", good: []accepted{{"p w", "p w"}},
			beside: environment{"RIVER_UI_USER": "u"}},
		positive("WORKER_CONCURRENCY", 10, func(c Config) any { return c.WorkerConcurrency }),
		devDefault(1200, countOrOff("RATE_LIMIT_MESSAGES_PER_MINUTE", 60, func(c Config) any { return c.MessagesPerMinute })),
		countOrOff("MAX_STREAMS_PER_USER", 8, func(c Config) any { return c.MaxStreamsPerUser }),
		{name: "LOG_LEVEL", field: func(c Config) any { return c.LogLevel }, fallback: slog.LevelInfo,
			good: []accepted{{"debug", slog.LevelDebug}, {"WARN", slog.LevelWarn}, {"error", slog.LevelError}}, bad: []string{"loud", "hunter2", "3"}},
		{name: "LOG_FORMAT", field: func(c Config) any { return c.LogText }, fallback: false, inDev: true,
			good: []accepted{{"json", false}, {"text", true}}, bad: []string{"xml", "TEXT"}},
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, v := range variables(t) {
		wantInDev := cmp.Or(v.inDev, v.fallback)
		for _, blank := range []environment{nil, environment{}.with(v.name, ""), environment{}.with(v.name, " \t")} {
			assert.Equalf(t, v.fallback, v.field(parse(t, blank, false)), "%s with %q", v.name, blank)
			assert.Equalf(t, wantInDev, v.field(parse(t, blank, true)), "%s in dev with %q", v.name, blank)
		}
	}
}

func TestGoodValues(t *testing.T) {
	t.Parallel()
	for _, v := range variables(t) {
		for _, good := range v.good {
			for _, dev := range []bool{false, true} {
				assert.Equalf(t, good.want, v.field(parse(t, v.beside.with(v.name, good.value), dev)), "%s=%q in dev %v", v.name, good.value, dev)
			}
		}
	}
}

// A message names the variable. It never repeats the value, which may be a secret in the wrong place.
func TestBadValues(t *testing.T) {
	t.Parallel()
	for _, v := range variables(t) {
		for _, bad := range v.bad {
			found := problems(t, v.beside.with(v.name, bad))
			if len(found) != 1 || !strings.HasPrefix(found[0], v.name+" ") {
				t.Errorf("%s=%q: %q", v.name, bad, found)
				continue
			}
			said := strings.TrimPrefix(found[0], v.name)
			assert.Truef(t, (len(bad) <= 4 || !strings.Contains(said, bad)) && !strings.Contains(said, "hunter2"),
				"%s: the value is repeated in %q", v.name, found[0])
			assert.Falsef(t, strings.ContainsAny(said, "\r\n"), "%s: more than one line: %q", v.name, said)
		}
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 3, len(problems(t, environment{"HTTP_ADDR": "nowhere", "MEMORY_K_RAW_TURNS": "none", "LOG_LEVEL": "loud"})))
}

// A field that no variable sets would be dead.
func TestEveryFieldHasAVariable(t *testing.T) {
	t.Parallel()
	e := environment{}
	for _, v := range variables(t) {
		for _, good := range v.good {
			if !reflect.DeepEqual(good.want, v.fallback) {
				e[v.name] = good.value
			}
		}
	}
	defaults, c := reflect.ValueOf(parse(t, nil, false)), reflect.ValueOf(parse(t, e, false))
	for i := range c.NumField() {
		if c.Field(i).IsZero() && defaults.Field(i).IsZero() { // some defaults can only be switched off
			t.Errorf("nothing sets %s", c.Type().Field(i).Name)
		}
	}
}
