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

func TestReadyOnlyAfterMigrations(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewEmptyDatabase(t), nil, nil)
	r.token = testkit.Token(t, uuid.New())
	r.node = r.start(app.Role{API: true}, nil)
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
	after := r.Call(http.MethodGet, "/readyz", nil)
	if after.Status != http.StatusOK || after.JSON(t)["status"] != "ready" {
		t.Errorf("after the migrations: %d %s", after.Status, after.Text)
	}
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
	const count = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'throughline' and state = 'idle'"
	var open int
	if err := r.pool.QueryRow(t.Context(), count).Scan(&open); err != nil || open < 8 {
		t.Errorf("%d of 8 connections are open, %v", open, err)
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
		if got.Status != http.StatusServiceUnavailable || got.Code() != "not_ready" || !strings.Contains(got.Text, "throughline migrate") || got.Header.Get("Retry-After") == "" {
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
	testkit.Exec(t, testkit.Connect(t, database.AdminDSN), "create role "+login+" login; grant select on supabase_migrations.schema_migrations to "+login+"; grant usage on schema supabase_migrations to "+login)
	dsn, err := url.Parse(database.Direct())
	if err != nil {
		t.Fatal(err)
	}
	dsn.User = url.User(login)
	r.token = testkit.Token(t, uuid.New())
	r.node = r.start(app.Role{API: true}, env{"DATABASE_URL": dsn.String(), "DATABASE_DIRECT_URL": dsn.String()})
	if got := r.Call(http.MethodGet, "/readyz", nil); got.Status != http.StatusServiceUnavailable || got.Code() != "role_not_granted" || !strings.Contains(got.Text, "throughline_app") {
		t.Errorf("/readyz: %d %s", got.Status, got.Text)
	}
	if got := r.Call(http.MethodGet, "/v1/chats", nil); got.Status != http.StatusServiceUnavailable || got.Code() != "not_ready" || !strings.Contains(got.Text, "not a member") {
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

// A server with workers waits for the migrations. /readyz reports that.
func TestServerWaitsForMigrations(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	r := newStoppedRig(t, database, nil, nil)
	app, err := app.New(t.Context(), r.config(nil), app.Role{API: true, Workers: true}, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- app.Run(ctx) }()
	status := func() int {
		response, err := http.Get("http://" + app.Addr() + "/readyz") //nolint:noctx // a test's own server
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	testkit.Eventually(t, "not ready", func() bool { return status() == http.StatusServiceUnavailable })
	if _, err := supabase.Migrate(ctx, database.DSN, discard); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "ready", func() bool { return status() == http.StatusOK })
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestRiverUI(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"RIVER_UI": "true", "RIVER_UI_USER": "ops", "RIVER_UI_PASSWORD": "a password"})
	testkit.Eventually(t, "the workers run", func() bool {
		var works bool
		err := r.pool.QueryRow(t.Context(), "select exists (select from river.river_queue where name = 'memory')").Scan(&works)
		return err == nil && works
	})
	for _, c := range []struct {
		user, password string
		status         int
	}{{"", "", 401}, {"ops", "wrong", 401}, {"ops", "", 401}, {"opsa", " password", 401}, {"ops", "a password", 200}} {
		for _, path := range []string{"/river/", "/river/api/queues", "/river/api/jobs?state=completed"} {
			request := r.Request(t.Context(), http.MethodGet, path, nil)
			request.Header.Del("Authorization")
			if c.user != "" {
				request.SetBasicAuth(c.user, c.password)
			}
			got := r.Do(request)
			if got.Status != c.status || c.status == 401 && got.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s as %q %q: %d", path, c.user, c.password, got.Status)
			}
			if c.status == 200 && path == "/river/" && !strings.Contains(strings.ToLower(got.Text), "<!doctype html") {
				t.Errorf("%s is no page: %.200s", path, got.Text)
			}
			if c.status == 200 && path == "/river/api/queues" && !strings.Contains(got.Text, `"memory"`) {
				t.Errorf("%s: %s", path, got.Text)
			}
		}
	}
	open := r.start(app.Role{API: true}, env{"RIVER_UI": "false", "RIVER_UI_USER": "", "RIVER_UI_PASSWORD": ""})
	if got := open.Call(http.MethodGet, "/river/", nil); got.Status != http.StatusNotFound {
		t.Errorf("without River UI: %d", got.Status)
	}
}
