package system

import (
	"context"
	"flag"
	"log/slog"
	"maps"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// These tests mostly wait for each other's servers, so more of them run at once than there are cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // -parallel on the command line still decides
	testkit.Main(m)
}

// env is a configuration as the environment gives it.
type env map[string]string

// and is the environment and more.
func (e env) and(more env) env {
	all := maps.Clone(e)
	maps.Copy(all, more)
	return all
}

var discard = slog.New(slog.DiscardHandler)

// rig is one database, one offline model and a user, and the apps that a test runs on them.
type rig struct {
	t     *testing.T
	db    testkit.Database
	model *testkit.Model
	env   env
	user  uuid.UUID
	token string
	pool  *pgxpool.Pool // the test's own look at the database
	*node               // the first app
}

// newRig starts one app with API and workers. change adds to its environment.
func newRig(t *testing.T, script testkit.Script, change env) *rig {
	t.Helper()
	return newRigOn(t, testkit.NewDatabase(t), script, change)
}

// newRigOn is newRig on a database of the test's choice.
func newRigOn(t *testing.T, db testkit.Database, script testkit.Script, change env) *rig {
	t.Helper()
	r := newStoppedRig(t, db, script, change)
	r.meetUser()
	r.node = r.start(app.Role{API: true, Workers: true}, nil)
	return r
}

// newStoppedRig is a rig without an app and without a user.
func newStoppedRig(t *testing.T, db testkit.Database, script testkit.Script, change env) *rig {
	t.Helper()
	model := testkit.NewModel(t, script)
	r := &rig{t: t, db: db, model: model, pool: testkit.NewPool(t, db.DSN), env: env{
		"DATABASE_URL": db.DSN, "DATABASE_DIRECT_URL": db.Direct(), "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": testkit.JWTSecret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": model.BaseURL(), "LOG_LEVEL": "debug", "DRAIN_TIMEOUT": "5s",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
	}}
	maps.Copy(r.env, change)
	return r
}

// meetUser makes the user that the rig's clients are.
func (r *rig) meetUser() {
	r.t.Helper()
	r.user = testkit.NewUser(r.t, r.db)
	r.token = testkit.Token(r.t, r.user)
}

// in is the rig for a subtest.
func (r *rig) in(t *testing.T) *rig {
	sub, first := *r, *r.node
	sub.t, sub.node, first.T = t, &first, t
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
	testkit.Client // of the rig's user
	app            *app.App
	logs           *testkit.Log
	// stop ends the app as a signal does and gives what Run returned. Later calls give the same.
	stop func() error
}

// replica starts one more server on the same database.
func (r *rig) replica() *node {
	r.t.Helper()
	return r.start(app.Role{API: true}, nil)
}

// start runs an app until the test ends; what Run returns then must be nil. doubles
// stand in for parts of it.
func (r *rig) start(role app.Role, change env, doubles ...app.Doubles) *node {
	r.t.Helper()
	n := &node{logs: &testkit.Log{}}
	app, err := app.New(r.t.Context(), r.config(change), role, n.logs.Logger(), doubles...)
	if err != nil {
		r.t.Fatal(err)
	}
	n.app, n.Client = app, testkit.Client{T: r.t, Base: "http://" + app.Addr(), Token: r.token}
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

// messageRow is what a test compares of a stored message.
type messageRow struct {
	role, status, content, failure string
}

func (r *rig) stored(messageID string) messageRow {
	r.t.Helper()
	var row messageRow
	err := r.pool.QueryRow(r.t.Context(), `select role, status, content, coalesce(metadata -> 'failure' ->> 'code', '') from messages where id = $1`,
		uuid.MustParse(messageID)).Scan(&row.role, &row.status, &row.content, &row.failure)
	if err != nil {
		r.t.Fatal(err)
	}
	return row
}

// awaitEnded waits until a reply is stored with another status than streaming.
func (r *rig) awaitEnded(messageID string) messageRow {
	r.t.Helper()
	testkit.Eventually(r.t, "the reply is stored", func() bool { return r.stored(messageID).status != "streaming" })
	return r.stored(messageID)
}
