package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestRateLimitRefills(t *testing.T) {
	t.Parallel()
	limiter, user, now := newRateLimiter(3), uuid.New(), time.Unix(1_000_000, 0)
	for i := range 3 {
		if wait := limiter.take(user, now); wait != 0 {
			t.Fatalf("message %d of the burst waits %v", i, wait)
		}
	}
	if wait := limiter.take(user, now); wait != 20*time.Second {
		t.Errorf("the fourth waits %v, want 20s", wait)
	}
	if wait := limiter.take(user, now.Add(10*time.Second)); wait != 10*time.Second {
		t.Errorf("being refused costs something: %v", wait)
	}
	if wait := limiter.take(user, now.Add(20*time.Second)); wait != 0 {
		t.Errorf("after the wait there is still %v", wait)
	}
}

// Forgetting must not give anybody more than the burst and the rate.
func TestRateLimitHoldsOverAnyTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		perMinute := rapid.IntRange(1, 20).Draw(t, "per minute")
		limiter, user := newRateLimiter(perMinute), uuid.New()
		begin := time.Unix(1_000_000, 0)
		now, accepted := begin, 0
		for _, pause := range rapid.SliceOfN(rapid.IntRange(0, 90_000), 1, 60).Draw(t, "pauses in ms") {
			now = now.Add(time.Duration(pause) * time.Millisecond)
			if limiter.take(user, now) == 0 {
				accepted++
			}
		}
		if most := float64(perMinute)*(1+now.Sub(begin).Minutes()) + 1e-6; float64(accepted) > most {
			t.Fatalf("%d accepted, at most %.1f are due", accepted, most)
		}
	})
}

func TestZeroSwitchesLimitsOff(t *testing.T) {
	t.Parallel()
	limiter, streams, user := newRateLimiter(0), newStreamLimiter(0, "max_streams"), uuid.New()
	for range 1000 {
		if wait := limiter.take(user, time.Unix(0, 0)); wait != 0 {
			t.Fatal("a limit of zero limits")
		}
		if _, err := streams.acquire(user, "replies"); err != nil {
			t.Fatal(err)
		}
	}
}

// Every POST counts, also the replay of a reply and a body that is refused, for its user alone.
func TestEveryPostOfAMessageCounts(t *testing.T) {
	t.Parallel()
	model := says("x")
	h := newHarness(t, model, func(c *Config) { c.MessagesPerMinute = 4 })
	message := marshal(map[string]any{"content": "a", "client_message_id": someID})
	for i, c := range []struct {
		body string
		want int
	}{{message, 200}, {message, 200}, {`{"content":""}`, 422}, {`{"surprise":1}`, 400}, {message, 429}, {message, 429}} {
		if got := h.call(http.MethodPost, firstPath, c.body).status; got != c.want {
			t.Errorf("request %d: %d, want %d", i, got, c.want)
		}
	}
	if n := model.calls.Load(); n != 1 {
		t.Errorf("the model was called %d times", n)
	}
	if got := h.first("a", "Authorization", token(uuid.New())).status; got != 200 {
		t.Errorf("another user gets %d", got)
	}
	if got := h.first("a", "Authorization", "Bearer nonsense").status; got != 401 {
		t.Errorf("the limit comes before the token: %d", got)
	}
}

func TestStreamLimitCountsOpenStreams(t *testing.T) {
	t.Parallel()
	model := newConductor()
	h := newHarness(t, model, func(c *Config) { c.MaxStreamsPerUser = 2 })
	model.accept()
	stream := h.open(h.request(http.MethodPost, firstPath, hello))
	chatID, _ := stream.event().data["chat_id"].(string)
	second := h.open(h.request(http.MethodGet, "/v1/message/"+chatID+"/stream", ""))
	second.event()
	if got := h.call(http.MethodGet, "/v1/message/"+chatID+"/stream", "").status; got != 429 {
		t.Errorf("a third stream gets %d", got)
	}
	if got := h.call(http.MethodGet, "/v1/message/"+uuid.NewString()+"/stream", "", "Authorization", token(uuid.New())).status; got != 404 {
		t.Errorf("another user gets %d", got)
	}
	model.finish()
	stream.rest()
	second.rest()
	h.waitFor("both places to be free", func() bool { return h.places() == 0 })
}

func TestLeavingAStreamKeepsItsPlaceWhileTheReplyRuns(t *testing.T) {
	t.Parallel()
	model := newConductor()
	h := newHarness(t, model, func(c *Config) { c.MaxStreamsPerUser = 1 })
	model.accept()
	stream := h.open(h.request(http.MethodPost, firstPath, hello))
	stream.event()
	_ = stream.response.Body.Close()
	h.waitFor("the handler to end", func() bool { return len(h.logs.Lines(t, "request")) == 1 })
	if got := h.first("again").status; got != 429 {
		t.Errorf("leaving is a way around the limit: %d", got)
	}
	model.finish()
	h.waitForSave()
	h.waitFor("the place to be free", func() bool { return h.places() == 0 })
}

func TestFailedMessagesKeepNoPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t, refuses(errUpstream), func(c *Config) { c.MaxStreamsPerUser = 1 })
	for _, accept := range []string{"text/event-stream", "application/json"} {
		for range 3 {
			if got := h.first("a", "Accept", accept).status; got != 502 {
				t.Errorf("%s: status %d", accept, got)
			}
		}
	}
	if n := h.places(); n != 0 {
		t.Errorf("%d places are kept", n)
	}
}

// Memory is that of the users of the last minutes, however many there were before.
func TestRateLimitForgetsIdleUsers(t *testing.T) {
	t.Parallel()
	limiter, now := newRateLimiter(60), time.Unix(1_000_000, 0)
	for n := range 50_000 {
		if wait := limiter.take(uuid.New(), now.Add(time.Duration(n)*6*time.Millisecond)); wait != 0 { // five minutes of them
			t.Fatalf("user %d waits %v", n, wait)
		}
		if len(limiter.buckets) > 20_001 { // two minutes of them
			t.Fatalf("%d buckets after %d users", len(limiter.buckets), n)
		}
	}
}

// Many requests at once get the burst and not one more, and places are never more than there are.
func TestLimitsHoldAtOnce(t *testing.T) {
	t.Parallel()
	const burst, places = 100, 8
	limiter, streams, now := newRateLimiter(burst), newStreamLimiter(places, "max_streams"), time.Unix(1_000_000, 0)
	users := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	var taken [3]atomic.Int32
	var open atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for n := range 300 {
				if limiter.take(users[n%3], now) == 0 {
					taken[n%3].Add(1)
				}
				release, err := streams.acquire(users[0], "replies")
				if err != nil {
					continue
				}
				if at := open.Add(1); at > places {
					t.Errorf("%d places are taken", at)
				}
				open.Add(-1)
				if release(); n%2 == 0 {
					release() // counts once
				}
			}
		})
	}
	all.Wait()
	for i := range taken {
		if n := taken[i].Load(); n != burst {
			t.Errorf("user %d got %d, want %d", i, n, burst)
		}
	}
	if len(streams.open) != 0 {
		t.Errorf("places are kept: %v", streams.open)
	}
}

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

func TestRootAndDocumentAreServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	var found root
	h.call(http.MethodGet, "/", "").decode(t, &found)
	if found.Name != "throughline" || found.Version != "1.2.3" || len(found.Endpoints) != len(routes()) {
		t.Errorf("root is %+v", found)
	}
	if answer := h.call(http.MethodGet, "/openapi.json", ""); string(answer.body) != string(openAPIDocument("1.2.3")) {
		t.Errorf("%d %.100s", answer.status, answer.body)
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
