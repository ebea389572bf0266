package system

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

func TestReadyOnlyAfterMigrations(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewEmptyDatabase(t), nil, nil)
	r.node = r.start(app.Role{API: true}, nil)
	before := r.Call(http.MethodGet, "/readyz", nil)
	if before.Status != http.StatusServiceUnavailable || before.JSON(t)["code"] != "not_ready" || before.Header.Get("Retry-After") == "" {
		t.Errorf("before the migrations: %d %s", before.Status, before.Text)
	}
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
	if err := app.Run(ctx); err == nil || !strings.Contains(err.Error(), "start workers") {
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
		var queues int
		err := r.pool.QueryRow(t.Context(), "select count(*) from river.river_queue").Scan(&queues)
		return err == nil && queues == 2
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
