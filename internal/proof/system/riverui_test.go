package system

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// riverUI asks River UI, whose password a browser adds to whatever a page sends there.
func (n *node) riverUI(method, path, body string, headers ...string) testkit.Answer {
	n.T.Helper()
	request, err := http.NewRequestWithContext(n.T.Context(), method, n.Base+path, strings.NewReader(body))
	if err != nil {
		n.T.Fatal(err)
	}
	request.SetBasicAuth("ops", "a password")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	return n.Do(request)
}

// TestOtherSitesChangeNoJobs holds that a page of another site, visited by an operator, cannot cancel or delete jobs, and
// cannot show River UI in a frame. Browsers send such a page's forms as text/plain, with the operator's password.
func TestOtherSitesChangeNoJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"RIVER_UI": "true", "RIVER_UI_USER": "ops", "RIVER_UI_PASSWORD": "a password"})
	job := testkit.Ask[int64](t, r.pool, `insert into river.river_job (kind, args, max_attempts, state, scheduled_at, queue)
		values ('nothing', '{}', 1, 'scheduled', now() + interval '1 day', 'nobody') returning id`)
	state := func() string {
		return testkit.Ask[string](t, r.pool, "select coalesce((select state::text from river.river_job where id = $1), 'deleted')", job)
	}
	form := fmt.Sprintf(`{"ids":["%d"]}`, job)
	for _, path := range []string{"/river/api/jobs/cancel", "/river/api/jobs/delete", "/river/api/jobs/retry"} {
		for name, headers := range map[string][]string{
			"a page over https": {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
			"a page over http":  {"Origin", "http://evil.example"},
			"a sandboxed frame": {"Origin", "null"},
		} {
			got := r.riverUI(http.MethodPost, path, form, append(headers, "Content-Type", "text/plain")...)
			if got.Status != http.StatusForbidden {
				t.Errorf("%s, %s: %d %s", path, name, got.Status, got.Text)
			}
		}
	}
	if got := state(); got != "scheduled" {
		t.Errorf("the job is %s", got)
	}
	page := r.riverUI(http.MethodGet, "/river/", "")
	if page.Status != http.StatusOK || page.Header.Get("Content-Security-Policy") != "frame-ancestors 'none'" || page.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the page: %d %v", page.Status, page.Header)
	}
	if own := r.riverUI(http.MethodPost, "/river/api/jobs/cancel", form, "Origin", r.Base); own.Status != http.StatusOK || state() != "cancelled" {
		t.Errorf("its own page: %d %s, the job is %s", own.Status, own.Text, state())
	}
}

// TestRiverUIWithoutAPassword holds that a page whose name was made to point to a developer's machine reads no jobs.
func TestRiverUIWithoutAPassword(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, nil)
	cfg := r.config(nil)
	cfg.RiverUI = true // as in dev
	r.node = r.startWith(cfg, app.Role{API: true})
	for host, want := range map[string]int{"": 200, "localhost:8080": 200, "192.168.1.5:8080": 200, "[::1]:8080": 200, "evil.example:8080": 403, "localhost.evil.example": 403} {
		if got := r.riverUI(http.MethodGet, "/river/api/states", "", "Host", host); got.Status != want {
			t.Errorf("as %q: %d %s", host, got.Status, got.Text)
		}
	}
}
