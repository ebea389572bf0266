package app

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/localpg"
	"github.com/arcoscribe/throughline/internal/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

func TestReadyOnlyAfterMigrations(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewEmptyDatabase(t), nil, nil)
	r.node = r.start(Role{API: true}, nil)
	before := r.call(r.node, http.MethodGet, "/readyz", nil)
	if before.status != http.StatusServiceUnavailable || before.json(t)["code"] != "not_ready" || before.header.Get("Retry-After") == "" {
		t.Errorf("before the migrations: %d %s", before.status, before.raw)
	}
	if got := r.call(r.node, http.MethodGet, "/healthz", nil); got.status != http.StatusOK {
		t.Errorf("/healthz: %d", got.status)
	}
	if _, err := supabase.Migrate(t.Context(), r.db.DSN, r.app.logger); err != nil {
		t.Fatal(err)
	}
	after := r.call(r.node, http.MethodGet, "/readyz", nil)
	if after.status != http.StatusOK || after.json(t)["status"] != "ready" {
		t.Errorf("after the migrations: %d %s", after.status, after.raw)
	}
}

// A process that only works fails without the migrations and says so; a supervisor starts it again.
func TestWorkersNeedMigrations(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewEmptyDatabase(t), nil, nil)
	app, err := New(t.Context(), r.config(nil), Role{Workers: true}, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := app.Run(ctx); err == nil || !strings.Contains(err.Error(), "start workers") {
		t.Errorf("run: %v", err)
	}
}

// A server with workers waits for the migrations, says so, and then works.
func TestServerWaitsForMigrations(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	r := newStoppedRig(t, database, nil, nil)
	app, err := New(t.Context(), r.config(nil), Role{API: true, Workers: true}, discard)
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
	within(t, "not ready", func() bool { return status() == http.StatusServiceUnavailable })
	if _, err := supabase.Migrate(ctx, database.DSN, discard); err != nil {
		t.Fatal(err)
	}
	within(t, "ready", func() bool { return status() == http.StatusOK })
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestRiverUI(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"RIVER_UI": "true", "RIVER_UI_USER": "ops", "RIVER_UI_PASSWORD": "a password"})
	within(t, "the workers run", func() bool {
		var queues int
		err := r.pool.QueryRow(t.Context(), "select count(*) from river.river_queue").Scan(&queues)
		return err == nil && queues == 2
	})
	for _, c := range []struct {
		user, password string
		status         int
	}{{"", "", 401}, {"ops", "wrong", 401}, {"ops", "", 401}, {"opsa", " password", 401}, {"ops", "a password", 200}} {
		for _, path := range []string{"/river/", "/river/api/queues", "/river/api/jobs?state=completed"} {
			request := r.request(t.Context(), r.node, http.MethodGet, path, nil)
			request.Header.Del("Authorization")
			if c.user != "" {
				request.SetBasicAuth(c.user, c.password)
			}
			got := r.do(request)
			if got.status != c.status || c.status == 401 && got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s as %q %q: %d", path, c.user, c.password, got.status)
			}
			if c.status == 200 && path == "/river/" && !strings.Contains(strings.ToLower(got.raw), "<!doctype html") {
				t.Errorf("%s is no page: %.200s", path, got.raw)
			}
			if c.status == 200 && path == "/river/api/queues" && !strings.Contains(got.raw, `"memory"`) {
				t.Errorf("%s: %s", path, got.raw)
			}
		}
	}
	open := r.start(Role{API: true}, env{"RIVER_UI": "false", "RIVER_UI_USER": "", "RIVER_UI_PASSWORD": ""})
	if got := r.call(open, http.MethodGet, "/river/", nil); got.status != http.StatusNotFound {
		t.Errorf("without River UI: %d", got.status)
	}
}

// Nobody's words get into the log, the metrics or River's tables, however wrong things go and however
// much is logged.
func TestWordsStayOutOfLogsMetricsAndJobs(t *testing.T) {
	t.Parallel()
	canaries := map[string]string{
		"content": "canary-of-the-content", "reply": "canary-of-the-reply", "summary": "canary-of-the-summary", "source": "canary-of-the-source",
		"metadata": "canary-of-the-metadata", "mail": "ada@canary.example", "title": "canary-of-the-title", "key": "sk-canary-of-the-key",
	}
	r := newRig(t, func(request *offline.Request) offline.Answer {
		switch {
		case request.Kind == offline.KindSummary && strings.Contains(request.Text, "Second"):
			return offline.Answer{Fault: offline.FaultRefusal}
		case request.Kind == offline.KindSummary:
			return offline.Answer{Text: "The user said: " + canaries["summary"] + " is what they talked about all day."}
		case strings.Contains(request.Current, "[[offline:"):
			return offline.Answer{} // by its directive
		}
		return offline.Answer{Text: "Noted: " + canaries["reply"] + " will be remembered by me."}
	}, env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "60", "MEMORY_K_RAW_TURNS": "1", "OPENAI_API_KEY": canaries["key"]})
	message := body{
		"content":  canaries["title"] + " is a title. Write to " + canaries["mail"] + " about " + canaries["content"] + ".",
		"sources":  []body{{"title": "t", "content": canaries["source"]}},
		"metadata": body{"note": canaries["metadata"]},
	}
	first := r.openMessage(r.node, "", message).rest()
	for _, content := range []string{"Second " + canaries["content"], "Third " + canaries["content"]} {
		r.openMessage(r.node, first.chatID, body{"content": content}).rest()
	}
	for _, directive := range []string{"401", "500", "cut", "failed", "invalid_utf8"} {
		s, err := r.tryOpen(r.node, http.MethodPost, "/v1/message/first", body{"content": canaries["content"] + "[[offline:" + directive + "]]"})
		if err != nil {
			t.Fatal(err)
		}
		readAll(s)
	}
	for _, bad := range []body{{"content": canaries["content"], "model_variant": canaries["content"]}, {canaries["content"]: 1}, {"content": 7}} {
		r.call(r.node, http.MethodPost, "/v1/message/first", bad)
	}
	r.call(r.node, http.MethodPost, "/v1/message", body{"chat_id": uuid.NewString(), "content": canaries["content"]})
	r.awaitModel("a fold was asked for", func(a offline.Request) bool { return a.Kind == offline.KindSummary && a.Ended })
	within(t, "a fold ended", func() bool { return strings.Contains(r.logs.String(), `"fold ended"`) })

	jobs := ask[string](r, "select coalesce(string_agg(j::text, ' '), '') from river.river_job j")
	metrics := r.call(r.node, http.MethodGet, "/metrics", nil).raw
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for place, text := range map[string]string{"the log": r.logs.String(), "River's jobs": jobs, "the metrics": metrics} {
		for what, canary := range canaries {
			if strings.Contains(text, canary) {
				t.Errorf("%s holds the %s", place, what)
			}
		}
		for what, secret := range map[string]string{"token": r.token, "secret": testkit.JWTSecret} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds the %s", place, what)
			}
		}
	}
	if !strings.Contains(r.logs.String(), first.chatID) {
		t.Error("the log does not even name the chat")
	}
}

// Postgres is restarted while a reply runs: the reply is not lost on its reader without a word, and
// the next request finds the database again.
func TestRestartOfPostgresIsSurvived(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openUp(t, dir)
	options := localpg.Options{Dir: dir + "/pg", Settings: map[string]string{"fsync": "off", "shared_buffers": "64MB"}}
	cluster, err := localpg.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Destroy(); err != nil {
			t.Error(err)
		}
	})
	admin := cluster.DSN(localpg.Superuser, "postgres")
	if err := localpg.Bootstrap(t.Context(), admin, supabase.BootstrapSQL); err != nil {
		t.Fatal(err)
	}
	db := testkit.Database{DSN: cluster.DSN("postgres", "postgres"), AdminDSN: admin, Name: "postgres"}
	if _, err := supabase.Migrate(t.Context(), db.DSN, discard); err != nil {
		t.Fatal(err)
	}
	r := newStoppedRig(t, db, nil, nil)
	r.user = testkit.NewUser(t, db)
	r.token = testkit.Token(t, r.user)
	r.node = r.start(Role{API: true, Workers: true}, nil)
	chatID := r.say("", "My cello teacher is called Ilse.").chatID

	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := r.call(r.node, http.MethodGet, "/readyz", nil); got.status != http.StatusServiceUnavailable {
		t.Errorf("without Postgres: %d %s", got.status, got.raw)
	}
	if got := r.call(r.node, http.MethodPost, "/v1/message", body{"chat_id": chatID, "content": "Hello?"}); got.status != http.StatusServiceUnavailable {
		t.Errorf("a message without Postgres: %d %s", got.status, got.raw)
	}
	options.Port = cluster.Port()
	again, err := localpg.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	cluster = again
	if got := r.say(chatID, "What is my cello teacher called?"); !strings.Contains(got.text, "Ilse") {
		t.Errorf("forgotten: %q", got.text)
	}
	if got := r.call(r.node, http.MethodGet, "/readyz", nil); got.status != http.StatusOK {
		t.Errorf("with Postgres again: %d %s", got.status, got.raw)
	}
}
