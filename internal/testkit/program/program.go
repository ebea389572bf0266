// Package program runs the program within a test: its parts as the command puts them together, with settings that a test gives.
package program

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Settings are environment variables of the program.
type Settings map[string]string

// Quiet are the settings of a program that does no more than it is asked: no vectors, no topics, no titles, nothing remembered across
// chats, and no limits. Its model is the offline one.
func Quiet(db testkit.Database, model *testkit.Model) Settings {
	return Settings{
		"DATABASE_URL": db.ServerDSN + testkit.Cold, "DATABASE_DIRECT_URL": db.Direct() + testkit.Cold,
		"HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": testkit.JWTSecret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": model.BaseURL(), "EMBEDDING_MODEL": "none", "TOPICS": "off", "LONG_TERM_MEMORY": "false",
		"CHAT_TITLES": "off",
		"LOG_LEVEL":   "debug", "RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
	}
}

// And returns the settings together with others, which win.
func (s Settings) And(others Settings) Settings {
	all := maps.Clone(s)
	maps.Copy(all, others)
	return all
}

// Config parses the settings.
func (s Settings) Config(t testing.TB) config.Config {
	parsed, err := config.Parse(func(name string) (string, bool) {
		value, ok := s[name]
		return value, ok
	}, false)
	require.NoError(t, err)
	return parsed
}

// Running is a program that runs until its test ends, when Run must return nil.
type Running struct {
	App  *app.App
	Base string // http://host:port
	Logs *testkit.Log
	// Stop ends it as a signal does and returns the result of Run. Later calls return the same.
	Stop func() error
}

// StopInTime ends the program, whose Run must return nil: all that it did has ended before the drain's time was over.
func (p *Running) StopInTime(t testing.TB) {
	assert.NoError(t, p.Stop(), "run")
}

// Start runs the program. doubles, at most one, replace parts of it.
func (s Settings) Start(t testing.TB, role app.Role, doubles ...app.Doubles) *Running {
	t.Helper()
	return Start(t, s.Config(t), role, doubles...)
}

// Start is Settings.Start with a whole configuration.
func Start(t testing.TB, cfg config.Config, role app.Role, doubles ...app.Doubles) *Running {
	t.Helper()
	p, double := &Running{Logs: &testkit.Log{}}, app.Doubles{}
	for _, d := range doubles {
		double = d
	}
	double.Drain = cmp.Or(double.Drain, 5*time.Second)
	made, err := app.New(t.Context(), cfg, role, p.Logs.Logger(), double)
	require.NoError(t, err)
	p.App, p.Base = made, "http://"+made.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- made.Run(ctx) }()
	p.Stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := p.Stop(); err != nil && !errors.Is(err, context.DeadlineExceeded) { // a busy machine may stop late
			t.Errorf("run: %v", err)
		}
		if t.Failed() && testing.Verbose() {
			t.Logf("the log of %s:\n%s", p.Base, p.Logs)
		}
	})
	return p
}
