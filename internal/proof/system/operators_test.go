package system

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	checkWaits(t, r.Client, "migrations_pending", "migrations")
	before := r.Call(http.MethodGet, "/readyz", nil)
	if before.Status != http.StatusServiceUnavailable || before.Code() != "migrations_pending" || before.Header.Get("Retry-After") == "" ||
		!strings.Contains(before.Text, "throughline migrate") || !strings.Contains(before.Text, "_river_001") {
		t.Errorf("before the migrations: %d %s", before.Status, before.Text)
	}
	for _, path := range []string{"/v1/chats", "/v1/message/" + uuid.NewString() + "/stream", "/v1/search?q=cello"} {
		got := r.Call(http.MethodGet, path, nil)
		if got.Status != http.StatusServiceUnavailable || got.Code() != "not_ready" || !strings.Contains(got.Text, "throughline migrate") ||
			got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", path, got.Status, got.Text)
		}
	}
	assert.Equal(t, http.StatusOK, r.Call(http.MethodGet, "/healthz", nil).Status, "/healthz")
	_, err := supabase.Migrate(t.Context(), r.db.DSN, discard)
	require.NoError(t, err)
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
	r := newStoppedRig(t, db, nil, env{"DATABASE_URL": testkit.AsServer(db.Direct())})
	r.newUser()
	r.node = r.start(app.Role{API: true}, nil)
	got := r.Call(http.MethodGet, "/readyz", nil)
	require.Truef(t, got.Status == http.StatusOK, "/readyz: %d %s", got.Status, got.Text)
	const idle = "datname = current_database() and application_name = 'throughline' and state = 'idle'"
	open := r.count("select count(*) from pg_stat_activity where " + idle)
	assert.Truef(t, open >= 8, "%d of 8 connections are open", open)
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
	require.NoError(t, err)
	dsn.User = url.User(login)
	r.token = testkit.Token(t, uuid.New())
	r.node = r.start(app.Role{API: true}, env{"DATABASE_URL": dsn.String(), "DATABASE_DIRECT_URL": dsn.String()})
	got := r.Call(http.MethodGet, "/readyz", nil)
	assert.Truef(t, got.Status == http.StatusServiceUnavailable && got.Code() == "role_not_granted" && strings.Contains(got.Text, "throughline_app"),
		"/readyz: %d %s", got.Status, got.Text)
	got = r.Call(http.MethodGet, "/v1/chats", nil)
	assert.Truef(t, got.Status == http.StatusServiceUnavailable && got.Code() == "not_ready" && strings.Contains(got.Text, "not a member"),
		"/v1/chats: %d %s", got.Status, got.Text)
}

// A process without an API waits for the migrations as well, says so, and then works.
func TestWorkersWaitForMigrations(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewEmptyDatabase(t), nil, nil)
	worker := r.start(app.Role{Workers: true}, nil)
	at := testkit.Client{T: t, Base: "http://" + worker.app.Addr()}
	checkWaits(t, at, "migrations_pending", "migrations")
	_, err := supabase.Migrate(t.Context(), r.db.DSN, discard)
	require.NoError(t, err)
	testkit.Eventually(t, "ready", func() bool { return at.Call(http.MethodGet, "/readyz", nil).Status == http.StatusOK })
	testkit.Eventually(t, "its workers run", func() bool { return r.count("select count(*) from river.river_leader") == 1 })
}

// A process without an API serves metrics at HTTP_ADDR, and listens nowhere without it.
func TestWorkerServesMetrics(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, nil)
	watched := r.start(app.Role{Workers: true}, nil)
	testkit.Eventually(t, "it says where", func() bool { return strings.Contains(watched.logs.String(), watched.app.Addr()) })
	for path, want := range map[string]string{"/metrics": "go_goroutines", "/healthz": ""} {
		response, err := http.Get("http://" + watched.app.Addr() + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		assert.Truef(t, response.StatusCode == http.StatusOK && strings.Contains(string(body), want) && err == nil,
			"%s: %d, %v, %s", path, response.StatusCode, err, body)
		_ = response.Body.Close()
	}
	taken := r.config(env{"HTTP_ADDR": watched.app.Addr()})
	_, err := app.New(t.Context(), taken, app.Role{Workers: true}, discard)
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "HTTP_ADDR"), "at an address that is taken: %v", err)
	assert.NoError(t, watched.stop())
	if response, err := http.Get("http://" + watched.app.Addr() + "/healthz"); err == nil {
		_ = response.Body.Close()
		t.Error("it still answers after its end")
	}
	quiet := r.start(app.Role{Workers: true}, env{"HTTP_ADDR": ""})
	assert.Equal(t, "", quiet.app.Addr(), "without the variable it listens at")
	http.DefaultClient.CloseIdleConnections()
}

var riverUI = env{"RIVER_UI": "true", "RIVER_UI_USER": "ops", "RIVER_UI_PASSWORD": "a password"}

// riverUI asks River UI with a password, which a browser adds to all that a page sends there.
func (n *node) riverUI(password, method, path, body string, headers ...string) testkit.Answer {
	request, err := http.NewRequestWithContext(n.T.Context(), method, n.Base+path, strings.NewReader(body))
	require.NoError(n.T, err)
	request.SetBasicAuth("ops", password)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	return n.Do(request)
}

// River UI opens with its password alone, and is not there where it is off.
func TestRiverUI(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, riverUI)
	testkit.Eventually(t, "the workers run", func() bool { return r.count("select count(*) from river.river_queue where name = 'memory'") > 0 })
	for path, holds := range map[string]string{
		"/river": "<!doctype html", "/river/": "<!doctype html", "/river/api/queues": `"memory"`, "/river/api/jobs?state=completed": "",
	} {
		for password, status := range map[string]int{"": 401, "wrong": 401, " password": 401, "a password": 200} {
			got := r.riverUI(password, http.MethodGet, path, "")
			assert.Truef(t, got.Status == status && (got.Header.Get("WWW-Authenticate") != "") == (status == 401),
				"%s with %q: %d %v", path, password, got.Status, got.Header)
			assert.Truef(t, status != 200 || strings.Contains(strings.ToLower(got.Text), holds),
				"%s: %.200s", path, got.Text)
		}
	}
	without := r.start(app.Role{API: true}, env{"RIVER_UI": "false", "RIVER_UI_USER": "", "RIVER_UI_PASSWORD": ""})
	assert.Equal(t, http.StatusNotFound, without.Call(http.MethodGet, "/river/", nil).Status, "without River UI")
	cfg := r.config(nil)
	cfg.RiverUIUser, cfg.RiverUIPassword = "", "" // as in dev: a page whose name was made to point to this machine reads no jobs
	open := r.startWith(cfg, app.Role{API: true})
	for host, want := range map[string]int{"": 200, "localhost:8080": 200, "192.168.1.5:8080": 200, "[::1]:8080": 200, "evil.example:8080": 403,
		"localhost.evil.example": 403} {
		got := open.riverUI("", http.MethodGet, "/river/api/states", "", "Host", host)
		assert.Truef(t, got.Status == want, "as %q: %d %s", host, got.Status, got.Text)
	}
}

// A page of another site, visited by an operator, cannot cancel or delete jobs, and cannot show River UI in a frame.
// Browsers send such a page's forms as text/plain, with the operator's password.
func TestOtherSitesChangeNoJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, riverUI)
	job := testkit.Ask[int64](t, r.pool, `insert into river.river_job (kind, args, max_attempts, state, scheduled_at, queue)
		values ('nothing', '{}', 1, 'scheduled', now() + interval '1 day', 'nobody') returning id`)
	wants := func(state string) {
		assert.Equalf(t, 1, r.count("select count(*) from river.river_job where id = $1 and state::text = $2", job, state),
			"the job is not %s", state)
	}
	form := fmt.Sprintf(`{"ids":["%d"]}`, job)
	for _, path := range []string{"/river/api/jobs/cancel", "/river/api/jobs/delete", "/river/api/jobs/retry"} {
		for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, {"Origin", "http://evil.example"},
			{"Origin", "null"}} {
			got := r.riverUI("a password", http.MethodPost, path, form, append(headers, "Content-Type", "text/plain")...)
			assert.Truef(t, got.Status == http.StatusForbidden, "%s, %v: %d %s", path, headers, got.Status, got.Text)
		}
	}
	wants("scheduled")
	page := r.riverUI("a password", http.MethodGet, "/river/", "").Header
	assert.Truef(t, page.Get("Content-Security-Policy") == "frame-ancestors 'none'" && page.Get("X-Frame-Options") == "DENY",
		"the page: %v", page)
	own := r.riverUI("a password", http.MethodPost, "/river/api/jobs/cancel", form, "Origin", r.Base)
	assert.Truef(t, own.Status == http.StatusOK, "its own page: %d %s", own.Status, own.Text)
	wants("cancelled")
}
