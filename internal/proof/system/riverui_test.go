package system

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
)

var riverUI = env{"RIVER_UI": "true", "RIVER_UI_USER": "ops", "RIVER_UI_PASSWORD": "a password"}

// riverUI asks River UI with a password, which a browser adds to all that a page sends there.
func (n *node) riverUI(password, method, path, body string, headers ...string) testkit.Answer {
	n.T.Helper()
	request, err := http.NewRequestWithContext(n.T.Context(), method, n.Base+path, strings.NewReader(body))
	if err != nil {
		n.T.Fatal(err)
	}
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
	for path, holds := range map[string]string{"/river/": "<!doctype html", "/river/api/queues": `"memory"`, "/river/api/jobs?state=completed": ""} {
		for password, status := range map[string]int{"": 401, "wrong": 401, " password": 401, "a password": 200} {
			got := r.riverUI(password, http.MethodGet, path, "")
			if got.Status != status || (got.Header.Get("WWW-Authenticate") != "") != (status == 401) {
				t.Errorf("%s with %q: %d %v", path, password, got.Status, got.Header)
			}
			if status == 200 && !strings.Contains(strings.ToLower(got.Text), holds) {
				t.Errorf("%s: %.200s", path, got.Text)
			}
		}
	}
	without := r.start(app.Role{API: true}, env{"RIVER_UI": "false", "RIVER_UI_USER": "", "RIVER_UI_PASSWORD": ""})
	if got := without.Call(http.MethodGet, "/river/", nil); got.Status != http.StatusNotFound {
		t.Errorf("without River UI: %d", got.Status)
	}
	cfg := r.config(nil)
	cfg.RiverUIUser, cfg.RiverUIPassword = "", "" // as in dev: a page whose name was made to point to this machine reads no jobs
	open := r.startWith(cfg, app.Role{API: true})
	for host, want := range map[string]int{"": 200, "localhost:8080": 200, "192.168.1.5:8080": 200, "[::1]:8080": 200, "evil.example:8080": 403,
		"localhost.evil.example": 403} {
		if got := open.riverUI("", http.MethodGet, "/river/api/states", "", "Host", host); got.Status != want {
			t.Errorf("as %q: %d %s", host, got.Status, got.Text)
		}
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
		t.Helper()
		if n := r.count("select count(*) from river.river_job where id = $1 and state::text = $2", job, state); n != 1 {
			t.Errorf("the job is not %s", state)
		}
	}
	form := fmt.Sprintf(`{"ids":["%d"]}`, job)
	for _, path := range []string{"/river/api/jobs/cancel", "/river/api/jobs/delete", "/river/api/jobs/retry"} {
		for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, {"Origin", "http://evil.example"},
			{"Origin", "null"}} {
			got := r.riverUI("a password", http.MethodPost, path, form, append(headers, "Content-Type", "text/plain")...)
			if got.Status != http.StatusForbidden {
				t.Errorf("%s, %v: %d %s", path, headers, got.Status, got.Text)
			}
		}
	}
	wants("scheduled")
	page := r.riverUI("a password", http.MethodGet, "/river/", "").Header
	if page.Get("Content-Security-Policy") != "frame-ancestors 'none'" || page.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the page: %v", page)
	}
	if own := r.riverUI("a password", http.MethodPost, "/river/api/jobs/cancel", form, "Origin", r.Base); own.Status != http.StatusOK {
		t.Errorf("its own page: %d %s", own.Status, own.Text)
	}
	wants("cancelled")
}
