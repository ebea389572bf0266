package httpapi

import (
	"net/http"
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
