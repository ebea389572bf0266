package app

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// These tests mostly wait for each other's servers, so more of them run at once than there are cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // -parallel on the command line still decides
	testkit.Main(m)
}

// patience is how long a test waits for what must come. It says nothing about speed.
const patience = 90 * time.Second

// env is a configuration as the environment gives it.
type env map[string]string

// rig is one database, one offline model and a user, and the apps that a test runs on them.
type rig struct {
	t     *testing.T
	db    testkit.Database
	model *offline.Listening
	env   env
	user  uuid.UUID
	token string
	pool  *pgxpool.Pool // the test's own look at the database
	*node               // the first app
}

// newRig starts one app with API and workers. change adds to its environment.
func newRig(t *testing.T, script func(*offline.Request) offline.Answer, change env) *rig {
	t.Helper()
	r := newStoppedRig(t, testkit.NewDatabase(t), script, change)
	r.user = testkit.NewUser(t, r.db)
	r.token = testkit.Token(t, r.user)
	r.node = r.start(Role{API: true, Workers: true}, nil)
	return r
}

// newStoppedRig is a rig without an app and without a user.
func newStoppedRig(t *testing.T, db testkit.Database, script func(*offline.Request) offline.Answer, change env) *rig {
	t.Helper()
	model, err := offline.Start(offline.Options{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() }) // what it serves was checked before
	pool, err := pgxpool.New(t.Context(), db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &rig{t: t, db: db, model: model, pool: pool, env: env{
		"DATABASE_URL": db.DSN, "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": testkit.JWTSecret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": model.BaseURL(), "LOG_LEVEL": "debug", "DRAIN_TIMEOUT": "5s",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
	}}
	maps.Copy(r.env, change)
	return r
}

// in is the rig for a subtest.
func (r *rig) in(t *testing.T) *rig {
	sub := *r
	sub.t = t
	return &sub
}

func (r *rig) config(change env) config.Config {
	r.t.Helper()
	cfg, err := config.Parse(func(name string) (string, bool) {
		if value, ok := change[name]; ok {
			return value, true
		}
		value, ok := r.env[name]
		return value, ok
	}, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

// node is one running app.
type node struct {
	app  *App
	base string
	logs *logBuffer
	// stop ends the app as a signal does and gives what Run returned. Later calls give the same.
	stop func() error
}

// start runs an app until the test ends; what Run returns then must be nil.
func (r *rig) start(role Role, change env) *node {
	r.t.Helper()
	n := &node{logs: &logBuffer{}}
	logger := slog.New(slog.NewJSONHandler(n.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	app, err := New(r.t.Context(), r.config(change), role, logger)
	if err != nil {
		r.t.Fatal(err)
	}
	n.app, n.base = app, "http://"+app.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	n.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	r.t.Cleanup(func() {
		if err := n.stop(); err != nil {
			r.t.Errorf("run: %v", err)
		}
	})
	return n
}

// ask reads one value from the database.
func ask[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	var answer T
	if err := r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&answer); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// within polls until the condition holds; for what sends no signal.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// awaitModel waits for a request to the model.
func (r *rig) awaitModel(what string, match func(offline.Request) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if _, err := r.model.Await(ctx, match); err != nil {
		r.t.Fatalf("in vain: %s", what)
	}
}

// asked are the requests of a kind that the model got so far.
func (r *rig) asked(kind offline.Kind) []offline.Request {
	var found []offline.Request
	for _, request := range r.model.Requests() {
		if request.Kind == kind {
			found = append(found, request)
		}
	}
	return found
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// client keeps no connections, so that nothing of a test outlives it.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
