package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestRequestID(t *testing.T) {
	t.Parallel()
	for given, kept := range map[string]bool{
		"abc-1_2.3:4/5+6=": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "a b": false, "a\"b": false, "a\nb": false, "ä": false, "a;b": false,
	} {
		got := chooseRequestID(given)
		if kept && got != given {
			t.Errorf("%q became %q", given, got)
		}
		if !kept && uuid.Validate(got) != nil {
			t.Errorf("%q became %q", given, got)
		}
	}
}

func TestAccessLogHoldsNoContent(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("canary-reply"))
	h.first("canary-question", "Idempotency-Key", "canary-key", "X-Request-Id", "id-1")
	h.call(http.MethodGet, "/v1/message/"+uuid.NewString()+"/stream?after=1&access_token=canary-token", "")
	h.call(http.MethodPost, firstPath, `{"canary-field":1}`, "Authorization", "Bearer canary-header")
	if strings.Contains(h.logs.String(), "canary") {
		t.Errorf("content is in the log: %s", h.logs)
	}
	lines := h.logs.Lines(t, "request")
	if len(lines) != 3 {
		t.Fatalf("%d lines for 3 requests", len(lines))
	}
	line := lines[0]
	if line["method"] != "POST" || line["route"] != firstPath || line["status"] != 200.0 || line["request_id"] != "id-1" ||
		line["user_id"] != h.user.String() || line["level"] != "INFO" || line["bytes"].(float64) < 1024 {
		t.Errorf("line is %v", line)
	}
	if _, ok := line["duration_ms"].(float64); !ok {
		t.Errorf("line is %v", line)
	}
	if lines[1]["route"] != "/v1/message/:chat_id/stream" {
		t.Errorf("route is %v", lines[1]["route"])
	}
	if _, ok := lines[2]["user_id"]; ok {
		t.Error("an unknown user has an id")
	}
}

func TestMetricsOfRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	h.first("a")
	h.call(http.MethodGet, "/some/random/path", "")
	h.call("BREW", "/", "")
	text := string(h.call(http.MethodGet, "/metrics", "").body)
	for _, want := range []string{
		`throughline_http_requests_total{method="POST",route="/v1/message/first",status="200"} 1`,
		`throughline_http_requests_total{method="other",route="/",status="405"} 1`,
		`throughline_http_request_duration_seconds_count{route="/v1/message/first"} 1`,
		`throughline_open_streams 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(text, "random") || strings.Contains(text, "BREW") {
		t.Error("a client can make labels")
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), func(c *Config) {
		c.Ready = func(ctx context.Context) (map[string]any, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("readiness may take for ever")
			}
			return map[string]any{"oldest_unfolded_turn_s": 3, "status": "nonsense"}, nil
		}
	})
	for path, want := range map[string]string{"/healthz": `{"status":"ok","version":"1.2.3"}`, "/readyz": `{"oldest_unfolded_turn_s":3,"status":"ready"}`} {
		answer := h.call(http.MethodGet, path, "", "Authorization", "")
		if got := strings.TrimSpace(string(answer.body)); answer.status != 200 || got != want {
			t.Errorf("%s: %d %s", path, answer.status, got)
		}
		if head := h.call(http.MethodHead, path, ""); head.status != 200 || len(head.body) > 0 {
			t.Errorf("HEAD %s: %d", path, head.status)
		}
	}
}

func TestRootNamesTheRoutes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	var found root
	h.call(http.MethodGet, "/", "").decode(t, &found)
	if found.Name != "throughline" || found.Version != "1.2.3" || len(found.Endpoints) != len(routes()) {
		t.Errorf("root is %+v", found)
	}
}

func TestRiverUI(t *testing.T) {
	t.Parallel()
	without := newHarness(t, says("x"))
	if got := without.call(http.MethodGet, "/river/", "").status; got != 404 {
		t.Errorf("switched off: %d", got)
	}
	with := newHarness(t, says("x"), func(c *Config) {
		c.RiverUI = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Method + " " + r.URL.Path)) })
	})
	for _, request := range [][2]string{{"GET", "/river/"}, {"GET", "/river"}, {"PUT", "/river/api/jobs/1"}, {"DELETE", "/river/a"}} {
		want := request[0] + " " + strings.Replace(request[1]+"/", "//", "/", 1)
		if request[1] != "/river" && !strings.HasSuffix(request[1], "/") {
			want = request[0] + " " + request[1]
		}
		if got := with.call(request[0], request[1], ""); string(got.body) != want {
			t.Errorf("%v: %d %s, want %s", request, got.status, got.body, want)
		}
	}
}

// A 401 tells its reason: to the operator in the log, to the sender in the header where the token shows it anyway.
func TestRefusedTokenHasAReason(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	invalid := func(description string) string {
		return `Bearer error="invalid_token", error_description="` + description + `"`
	}
	good := tokenAt(h.user, time.Now())
	for _, c := range []struct{ header, reason, challenge string }{
		{"", "no_header", "Bearer"},
		{strings.TrimPrefix(good, "Bearer "), "not_bearer", invalid("The Authorization header must be the word Bearer, a space and the access token.")},
		{"Bearer sb_secret_canary", "api_key", invalid("This is an API key of the project, not the access token of a signed-in user.")},
		{tokenAt(h.user, time.Now().Add(-2*time.Hour)), "expired", invalid("The token has expired.")},
		{good[:len(good)-4] + "AAAA", "bad_signature", invalid("The access token is not valid.")},
	} {
		answer := h.call(http.MethodPost, firstPath, hello, "Authorization", c.header)
		if got := answer.header.Get("WWW-Authenticate"); answer.status != 401 || got != c.challenge {
			t.Errorf("%s: %d %s", c.reason, answer.status, got)
		}
		lines := h.logs.Lines(t, "request")
		if line := lines[len(lines)-1]; line["reason"] != c.reason || line["level"] != "INFO" {
			t.Errorf("%s: %v", c.reason, line)
		}
	}
	h.first("a")
	lines := h.logs.Lines(t, "request")
	if line := lines[len(lines)-1]; line["status"] != 200.0 || line["reason"] != nil {
		t.Errorf("accepted: %v", line)
	}
	if strings.Contains(h.logs.String(), "canary") {
		t.Errorf("a token is in the log: %s", h.logs)
	}
}
