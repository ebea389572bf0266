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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

func TestRateLimitRefills(t *testing.T) {
	t.Parallel()
	limiter, user, now := newRateLimiter(3, "messages"), uuid.New(), time.Unix(1_000_000, 0)
	for i := range 3 {
		wait := limiter.take(user, now)
		require.Truef(t, wait == 0, "message %d of the burst waits %v", i, wait)
	}
	wait := limiter.take(user, now)
	assert.Truef(t, wait == 20*time.Second, "the fourth waits %v, want 20s", wait)
	wait = limiter.take(user, now.Add(10*time.Second))
	assert.Truef(t, wait == 10*time.Second, "being refused costs something: %v", wait)
	wait = limiter.take(user, now.Add(20*time.Second))
	assert.Truef(t, wait == 0, "after the wait there is still %v", wait)
}

// Forgetting must not give anybody more than the burst and the rate.
func TestRateLimitHoldsOverAnyTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		perMinute := rapid.IntRange(1, 20).Draw(t, "per minute")
		limiter, user := newRateLimiter(perMinute, "messages"), uuid.New()
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
	limiter, streams, user := newRateLimiter(0, "messages"), newStreamLimiter(0, "max_streams"), uuid.New()
	for range 1000 {
		require.True(t, limiter.take(user, time.Unix(0, 0)) == 0, "a limit of zero limits")
		_, err := streams.acquire(user, "replies")
		require.NoError(t, err)
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
		assert.Equalf(t, c.want, h.call(http.MethodPost, firstPath, c.body).status, "request %d", i)
	}
	n := model.calls.Load()
	assert.Truef(t, n == 1, "the model was called %d times", n)
	assert.Equal(t, 200, h.first("a", "Authorization", token(uuid.New())).status, "another user gets")
	assert.Equal(t, 401, h.first("a", "Authorization", "Bearer nonsense").status, "the limit comes before the token")
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
	assert.Equal(t, 429, h.call(http.MethodGet, "/v1/message/"+chatID+"/stream", "").status, "a third stream gets")
	assert.Equal(t, 404, h.call(http.MethodGet, "/v1/message/"+uuid.NewString()+"/stream", "", "Authorization", token(uuid.New())).status,
		"another user gets")
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
	assert.Equal(t, 429, h.first("again").status, "leaving is a way around the limit")
	model.finish()
	h.waitForSave()
	h.waitFor("the place to be free", func() bool { return h.places() == 0 })
}

func TestFailedMessagesKeepNoPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t, refuses(errUpstream), func(c *Config) { c.MaxStreamsPerUser = 1 })
	for _, accept := range []string{"text/event-stream", "application/json"} {
		for range 3 {
			assert.Equalf(t, 502, h.first("a", "Accept", accept).status, "%s: status", accept)
		}
	}
	n := h.places()
	assert.Truef(t, n == 0, "%d places are kept", n)
}

// Memory is that of the users of the last minutes, however many there were before.
func TestRateLimitForgetsIdleUsers(t *testing.T) {
	t.Parallel()
	limiter, now := newRateLimiter(60, "messages"), time.Unix(1_000_000, 0)
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
	limiter, streams, now := newRateLimiter(burst, "messages"), newStreamLimiter(places, "max_streams"), time.Unix(1_000_000, 0)
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
				at := open.Add(1)
				assert.Truef(t, at <= places, "%d places are taken", at)
				open.Add(-1)
				if release(); n%2 == 0 {
					release() // counts once
				}
			}
		})
	}
	all.Wait()
	for i := range taken {
		n := taken[i].Load()
		assert.Truef(t, n == burst, "user %d got %d, want %d", i, n, burst)
	}
	assert.Equalf(t, 0, len(streams.open), "places are kept: %v", streams.open)
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	for given, kept := range map[string]bool{
		"abc-1_2.3:4/5+6=": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "a b": false, "a\"b": false, "a\nb": false, "ä": false, "a;b": false,
	} {
		got := chooseRequestID(given)
		assert.Truef(t, !kept || got == given, "%q became %q", given, got)
		assert.Truef(t, kept || uuid.Validate(got) == nil, "%q became %q", given, got)
	}
}

func TestAccessLogHoldsNoContent(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("canary-reply"))
	h.first("canary-question", "Idempotency-Key", "canary-key", "X-Request-Id", "id-1")
	h.call(http.MethodGet, "/v1/message/"+uuid.NewString()+"/stream?after=1&access_token=canary-token", "")
	h.call(http.MethodPost, firstPath, `{"canary-field":1}`, "Authorization", "Bearer canary-header")
	assert.NotContainsf(t, h.logs.String(), "canary", "content is in the log: %s", h.logs)
	lines := h.logs.Lines(t, "request")
	require.Truef(t, len(lines) == 3, "%d lines for 3 requests", len(lines))
	line := lines[0]
	if line["method"] != "POST" || line["route"] != firstPath || line["status"] != 200.0 || line["request_id"] != "id-1" ||
		line["user_id"] != h.user.String() || line["level"] != "INFO" || line["bytes"].(float64) < 1024 {
		t.Errorf("line is %v", line)
	}
	_, ok := line["duration_ms"].(float64)
	assert.Truef(t, ok, "line is %v", line)
	assert.Truef(t, lines[1]["route"] == "/v1/message/:chat_id/stream", "route is %v", lines[1]["route"])
	_, ok = lines[2]["user_id"]
	assert.False(t, ok, "an unknown user has an id")
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
		assert.Containsf(t, text, want+"\n", "missing: %s", want)
	}
	assert.True(t, !strings.Contains(text, "random") && !strings.Contains(text, "BREW"), "a client can make labels")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), func(c *Config) {
		c.Ready = func(ctx context.Context) (map[string]any, error) {
			_, bounded := ctx.Deadline()
			assert.True(t, bounded, "readiness may take for ever")
			return map[string]any{"oldest_unfolded_turn_s": 3, "status": "nonsense"}, nil
		}
	})
	for path, want := range map[string]string{"/healthz": `{"status":"ok","version":"1.2.3"}`, "/readyz": `{"oldest_unfolded_turn_s":3,"status":"ready"}`} {
		answer := h.call(http.MethodGet, path, "", "Authorization", "")
		got := strings.TrimSpace(string(answer.body))
		assert.Truef(t, answer.status == 200 && got == want, "%s: %d %s", path, answer.status, got)
		head := h.call(http.MethodHead, path, "")
		assert.Truef(t, head.status == 200 && len(head.body) == 0, "HEAD %s: %d", path, head.status)
	}
}

func TestRootAndDocumentAreServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	var found root
	h.call(http.MethodGet, "/", "").decode(t, &found)
	assert.Truef(t, found.Name == "throughline" && found.Version == "1.2.3" && len(found.Endpoints) == len(routes()),
		"root is %+v", found)
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
		got := answer.header.Get("WWW-Authenticate")
		assert.Truef(t, answer.status == 401 && got == c.challenge, "%s: %d %s", c.reason, answer.status, got)
		lines := h.logs.Lines(t, "request")
		line := lines[len(lines)-1]
		assert.Truef(t, line["reason"] == c.reason && line["level"] == "INFO", "%s: %v", c.reason, line)
	}
	h.first("a")
	lines := h.logs.Lines(t, "request")
	line := lines[len(lines)-1]
	assert.Truef(t, line["status"] == 200.0 && line["reason"] == nil, "accepted: %v", line)
	assert.NotContainsf(t, h.logs.String(), "canary", "a token is in the log: %s", h.logs)
}

// Where a user is counts before what is wrong with a request, but not before haste, and nothing is looked up for a good one. What keeps
// Postgres from saying it is no reason.
func TestWhoIsNotServedHereIsTold(t *testing.T) {
	t.Parallel()
	looks, found := 0, error(fault.OtherCell("c"))
	h := newHarness(t, says("x"), withTools(echoBody), func(config *Config) {
		config.Cell, config.MessagesPerMinute = "b", 1
		config.Admit = func(context.Context, auth.Principal) error { looks++; return found }
	})
	for _, c := range []struct {
		what, path, body, code string
		looks                  int
		found                  error
	}{
		{"a good message", firstPath, hello, "", 0, found},
		{"one at once after it", firstPath, hello, "over_request_rate_limit", 0, found},
		{"no JSON", "/v1/chats", "{", "wrong_cell", 1, found},
		{"no chat", "/v1/message/" + exampleChat + "/cancel", "", "wrong_cell", 1, found},
		{"a tool", pathMCP, "{}", "wrong_cell", 1, found},
		{"no JSON, of a user of this cell", "/v1/chats", "{", "bad_request", 1, nil},
		{"no JSON, without Postgres", "/v1/chats", "{", "bad_request", 1, fault.New(fault.NotReady, "Away.")},
	} {
		looks, found = 0, c.found
		answer := h.call(post, c.path, c.body)
		assert.Truef(t, errorCode(answer.body) == c.code && looks == c.looks, "%s: %d looks, %d %s", c.what, looks, answer.status, answer.body)
		assert.Equal(t, "b", answer.header.Get(headerCell), c.what)
	}
	assert.Equal(t, "b", h.call(get, "/healthz", "", "Authorization", "").header.Get(headerCell))
}
