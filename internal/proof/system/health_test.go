package system

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

// A server waits for the migrations, workers included. /readyz and each route to the database report that.
func TestReadyOnlyAfterMigrations(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewEmptyDatabase(t), nil, nil)
	r.token = testkit.Token(t, uuid.New())
	r.node = r.start(app.Role{API: true, Workers: true}, nil)
	before := r.Call(http.MethodGet, "/readyz", nil)
	if before.Status != http.StatusServiceUnavailable || before.Code() != "migrations_pending" || before.Header.Get("Retry-After") == "" ||
		!strings.Contains(before.Text, "throughline migrate") || !strings.Contains(before.Text, "_river_001") {
		t.Errorf("before the migrations: %d %s", before.Status, before.Text)
	}
	r.checkNotMigrated()
	if got := r.Call(http.MethodGet, "/healthz", nil); got.Status != http.StatusOK {
		t.Errorf("/healthz: %d", got.Status)
	}
	if _, err := supabase.Migrate(t.Context(), r.db.DSN, discard); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "ready", func() bool {
		after := r.Call(http.MethodGet, "/readyz", nil)
		return after.Status == http.StatusOK && after.JSON(t)["status"] == "ready"
	})
}

// A server is ready when the connections that it keeps are open and warm.
func TestReadyOnlyWithWarmConnections(t *testing.T) {
	t.Parallel()
	db := testkit.NewDatabase(t)
	// Not through a pooler, whose connections to Postgres are its own.
	r := newStoppedRig(t, db, nil, env{"DATABASE_URL": db.Direct(), "DATABASE_DIRECT_URL": db.Direct()})
	r.newUser()
	r.node = r.start(app.Role{API: true}, nil)
	if got := r.Call(http.MethodGet, "/readyz", nil); got.Status != http.StatusOK {
		t.Fatalf("/readyz: %d %s", got.Status, got.Text)
	}
	const idle = "datname = current_database() and application_name = 'throughline' and state = 'idle'"
	if open := r.count("select count(*) from pg_stat_activity where " + idle); open < 8 {
		t.Errorf("%d of 8 connections are open", open)
	}
}

// checkNotMigrated checks that each route to the database says that migrations are pending.
func (r *rig) checkNotMigrated() {
	r.t.Helper()
	id := uuid.NewString()
	for _, ask := range []struct {
		method, path string
		body         testkit.Body
	}{
		{http.MethodPost, "/v1/message/first", testkit.Body{"content": "Hello."}},
		{http.MethodPost, "/v1/message", testkit.Body{"chat_id": id, "content": "Hello."}},
		{http.MethodGet, "/v1/message/" + id + "/stream", nil},
		{http.MethodPost, "/v1/message/" + id + "/cancel", nil},
		{http.MethodGet, "/v1/chats", nil}, {http.MethodPost, "/v1/chats", testkit.Body{}}, {http.MethodGet, "/v1/chats/" + id, nil},
		{http.MethodGet, "/v1/search?q=cello", nil}, {http.MethodGet, "/v1/chats/" + id + "/export", nil},
	} {
		got := r.Call(ask.method, ask.path, ask.body)
		if got.Status != http.StatusServiceUnavailable || got.Code() != "not_ready" || !strings.Contains(got.Text, "throughline migrate") ||
			got.Header.Get("Retry-After") == "" {
			r.t.Errorf("%s %s: %d %s", ask.method, ask.path, got.Status, got.Text)
		}
	}
}

// A role that may connect and no more: /readyz and every answer name what it lacks.
func TestRoleThatWasNotGrantedIsNamed(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	r := newStoppedRig(t, database, nil, nil)
	login := "login_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	testkit.Exec(t, testkit.Connect(t, database.AdminDSN),
		"create role "+login+" login; grant select on supabase_migrations.schema_migrations to "+login+"; grant usage on schema supabase_migrations to "+login)
	dsn, err := url.Parse(database.Direct())
	if err != nil {
		t.Fatal(err)
	}
	dsn.User = url.User(login)
	r.token = testkit.Token(t, uuid.New())
	r.node = r.start(app.Role{API: true}, env{"DATABASE_URL": dsn.String(), "DATABASE_DIRECT_URL": dsn.String()})
	if got := r.Call(http.MethodGet, "/readyz", nil); got.Status != http.StatusServiceUnavailable || got.Code() != "role_not_granted" ||
		!strings.Contains(got.Text, "throughline_app") {
		t.Errorf("/readyz: %d %s", got.Status, got.Text)
	}
	if got := r.Call(http.MethodGet, "/v1/chats", nil); got.Status != http.StatusServiceUnavailable || got.Code() != "not_ready" ||
		!strings.Contains(got.Text, "not a member") {
		t.Errorf("/v1/chats: %d %s", got.Status, got.Text)
	}
}

// Without the migrations a process without an API fails; a supervisor starts it again.
func TestWorkersNeedMigrations(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewEmptyDatabase(t), nil, nil)
	app, err := app.New(t.Context(), r.config(nil), app.Role{Workers: true}, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := app.Run(ctx); err == nil || !strings.Contains(err.Error(), "start workers: migrations_pending") {
		t.Errorf("run: %v", err)
	}
}
