package config

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/joho/godotenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environment is the variables that a test sets. The machine's own are not seen.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// with returns a copy with one more variable.
func (e environment) with(name, value string) environment {
	more := maps.Clone(e)
	if more == nil {
		more = environment{}
	}
	more[name] = value
	return more
}

// parse returns the Config, and fails the test if there is none.
func parse(t *testing.T, e environment, dev bool) Config {
	c, err := Parse(e.lookup, dev)
	require.NoErrorf(t, err, "%v", e)
	return c
}

// problems returns why there is no Config, and fails the test if there is one.
func problems(t *testing.T, e environment) []string {
	_, err := Parse(e.lookup, false)
	wrong, ok := errors.AsType[*Error](err)
	require.Truef(t, ok, "%v: got %v, want an *Error", e, err)
	assert.Equalf(t, strings.Join(wrong.Problems, "; "), err.Error(), "the error reads %q", err)
	return wrong.Problems
}

// lookedUp are the variables that Parse asks for.
func lookedUp(t *testing.T) []string {
	seen := map[string]bool{}
	_, err := Parse(func(name string) (string, bool) { seen[name] = true; return "", false }, false)
	require.NoError(t, err)
	return slices.Sorted(maps.Keys(seen))
}

func TestEnvExample(t *testing.T) {
	t.Parallel()
	example, err := godotenv.Read("../../.env.example")
	require.NoError(t, err)
	assert.Equal(t, lookedUp(t), slices.Sorted(maps.Keys(example)), "variables that are read (-) and listed (+):\n")
	var tested []string
	for _, v := range variables(t) { // the example shows each default that is a single value
		tested = append(tested, v.name)
		_, list := v.fallback.([]string)
		_, issuers := v.fallback.([]auth.Issuer)
		files := reflect.TypeOf(v.fallback).Kind() == reflect.Map
		_, tools := v.fallback.([]chat.ServerTool)
		oneValue := !list && !files && !issuers && !tools && v.fallback != "" && v.name != "MAIN_INSTRUCTIONS_FILE" // that one's is a long text
		assert.Truef(t, (example[v.name] != "" || !oneValue || v.inDev != nil) && (example[v.name] == "" || oneValue),
			"%s=%s, the default is %v", v.name, example[v.name], v.fallback)
	}
	slices.Sort(tested)
	assert.Equal(t, lookedUp(t), tested, "variables that are read (-) and tested (+):\n")
	for name, value := range example {
		written := parse(t, environment{name: value}, false)
		written.HTTPAddrSet = false // that it is written there is what tells a worker to listen
		assert.Equalf(t, parse(t, nil, false), written, "%s=%s is not the default", name, value)
	}
}

// enter changes into a new directory with this .env, and removes our variables from the environment.
func enter(t *testing.T, env string) {
	t.Chdir(t.TempDir())
	if env != "" {
		require.NoError(t, os.WriteFile(".env", []byte(env), 0o600))
	}
	for _, name := range lookedUp(t) {
		t.Setenv(name, "") // restores the old value
		require.NoError(t, os.Unsetenv(name))
	}
}

func TestLoad(t *testing.T) {
	t.Run("without .env", func(t *testing.T) {
		enter(t, "")
		c, err := Load(false)
		assert.Truef(t, err == nil && c.HTTPAddr == "127.0.0.1:8080", "%q, %v", c.HTTPAddr, err)
	})
	t.Run(".env never overrides", func(t *testing.T) {
		enter(t, "HTTP_ADDR=:1111\nOPENAI_API_KEY='from the file'\n# WORKER_CONCURRENCY=3\n")
		t.Setenv("HTTP_ADDR", ":2222")
		c, err := Load(false)
		assert.Truef(t, err == nil && c.HTTPAddr == ":2222" && c.OpenAIAPIKey == "from the file" && c.WorkerConcurrency == 10,
			"%q, %q, %d, %v", c.HTTPAddr, c.OpenAIAPIKey, c.WorkerConcurrency, err)
	})
	t.Run("a typo in .env", func(t *testing.T) {
		enter(t, "DATABSE_URL=hunter2\nTOPIC_MAX=9\n")
		t.Cleanup(func() { _ = os.Unsetenv("DATABSE_URL") })
		c, err := Load(false)
		assert.Equal(t, []string{"DATABSE_URL in .env is no variable of Throughline's"}, c.Warnings, "%v", err)
	})
	t.Run("a wrong value in .env", func(t *testing.T) {
		enter(t, "LOG_LEVEL=hunter2\n")
		_, err := Load(false)
		assert.Truef(t, err != nil && strings.HasPrefix(err.Error(), "LOG_LEVEL ") && !strings.Contains(err.Error(), "hunter2"), "%v", err)
	})
}

// A .env holds secrets also if it cannot be parsed: the message quotes none of it.
//
//nolint:paralleltest // the environment and the current directory belong to the process
func TestLoadOfABrokenFileQuotesNothing(t *testing.T) {
	for name, contents := range map[string]string{
		"a line that is no pair": "OPENAI_API_KEY=sk-hunter2\n!!! SUPABASE_JWT_SECRET=hunter2\n",
		"an open quote":          "OPENAI_API_KEY=\"sk-hunter2\n",
	} {
		t.Run(name, func(t *testing.T) {
			enter(t, contents)
			_, err := Load(false)
			_, ours := errors.AsType[*Error](err)
			assert.Truef(t, ours && strings.Contains(err.Error(), ".env") && !strings.Contains(err.Error(), "hunter2"), "%v", err)
		})
	}
}

//nolint:paralleltest // the environment and the current directory belong to the process
func TestLoadOfADirectoryInPlaceOfTheFile(t *testing.T) {
	enter(t, "")
	require.NoError(t, os.Mkdir(".env", 0o700))
	_, err := Load(false)
	assert.Truef(t, err != nil && strings.Contains(err.Error(), ".env"), "%v", err)
}

// For any value of a variable, Parse returns a Config or a list of problems. Problems name variables and repeat no value,
// which may be a secret.
func FuzzParse(f *testing.F) {
	names := []string{
		"DATABASE_URL", "DATABASE_DIRECT_URL", "HTTP_ADDR", "CORS_ORIGINS", "PUBLIC_URL", "OAUTH_API_CLIENTS", "AUTH_ISSUERS",
		"SUPABASE_URL", "SUPABASE_JWT_SECRET", "SUPABASE_SECRET_KEY",
		"OPENAI_API_KEY", "OPENAI_BASE_URL", "MODEL_VARIANTS", "MODELS_FILE", "MODEL_IDLE_TIMEOUT",
		"MEMORY_K_RAW_TURNS", "MEMORY_BRIDGE_TOKEN_BUDGET", "SUMMARY_PROMPT_MODE",
		"SUPABASE_ANON_KEY", "WEB_APP", "RIVER_UI", "RIVER_UI_USER", "RIVER_UI_PASSWORD", "LOG_LEVEL", "LOG_FORMAT", "WORKER_CONCURRENCY",
	}
	const mark = "s3cr3t-c4n4ry"
	for i, value := range []string{
		"", mark, "postgres://me:" + mark + "@host:5432/db?sslmode=" + mark, "postgres://%zz" + mark, "host=x password='" + mark, "127.0.0.1:" + mark,
		"https://me:" + mark + "@x", "http://\x7f" + mark,
		"a=b,c=" + mark + "@x", "1h" + mark, "-1", "99999999999999999999", "debug\x00" + mark, "true ", "*," + mark, ":0",
	} {
		for at := range names {
			f.Add(uint8(at), value, i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, at uint8, value string, dev bool) {
		name := names[int(at)%len(names)]
		_, err := Parse(environment{"DATABASE_URL": "postgres://localhost/x", "SUPABASE_JWT_SECRET": "x"}.with(name, value).lookup, dev)
		if err == nil {
			return
		}
		wrong, ok := errors.AsType[*Error](err)
		require.Truef(t, ok && len(wrong.Problems) != 0 && !strings.Contains(err.Error(), mark), "%s=%q: %v", name, value, err)
	})
}
