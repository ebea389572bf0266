package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func stamped(ago time.Duration) string {
	return strconv.FormatInt(time.Now().Add(-ago).UnixMicro(), stampBase)
}

func TestLagsTellWhenTokensWereSent(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Second)
	var r reply
	// The second event is what a reader gets that was behind: two tokens at once.
	body := ":   \n\nid: m:11\nevent: content.delta\ndata: {\"offset\":0,\"delta\":\"" + stamped(500*time.Millisecond) + " \"}\n\n" +
		"id: m:33\nevent: content.delta\ndata: {\"offset\":11,\"delta\":\"" + stamped(200*time.Millisecond) + " " + stamped(100*time.Millisecond) + " \"}\n\n" +
		"event: completion\ndata: {}\n\n"
	require.NoError(t, r.read(strings.NewReader(body), began, toTheEnd))
	lags, err := lagsBetween([]reply{r}, began, time.Now())
	require.Truef(t, err == nil && len(lags) == 3 && r.first >= time.Second && string(r.cursor) == "m:33",
		"%v, the first after %v, cursor %q: %v", lags, r.first, r.cursor, err)
	for i, least := range []time.Duration{500 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond} {
		lag := lags[i]
		assert.Truef(t, lag >= least && lag <= least+time.Minute, "token %d: %v", i, lag)
	}
	if lags, err := lagsBetween([]reply{r}, began, time.Now().Add(-300*time.Millisecond)); err != nil || len(lags) != 1 {
		t.Errorf("of the first part: %v, %v", lags, err)
	}
	var cut reply
	if err := cut.read(strings.NewReader(body), began, 1); err != nil || len(cut.deltas) != 1 || string(cut.cursor) != "m:11" || cut.end != "" {
		t.Errorf("cut: %+v, %v", cut, err)
	}
	if _, err := lagsBetween([]reply{{text: []byte("hello! "), deltas: []delta{{to: 7}}}}, began, began); err == nil {
		t.Error("a word passes for a time")
	}
}

func TestWholeReportsWhatWentWrong(t *testing.T) {
	t.Parallel()
	delta := "data: {\"delta\":\"" + stamped(0) + " \"}\n\n"
	for name, c := range map[string]struct {
		status       int
		answer, want string
	}{
		"refused":          {http.StatusTooManyRequests, `{"code":"rate_limited"}`, "HTTP 429 rate_limited"},
		"too short":        {http.StatusOK, delta + "event: completion\n\n", "1 of 2 tokens"},
		"broken off":       {http.StatusOK, delta, "no terminal event"},
		"a failure":        {http.StatusOK, delta + delta + "event: message.failed\ndata: {}\n\n", "before message.failed"},
		"an unknown event": {http.StatusOK, "event: error\ndata: {}\n\n", "no terminal event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.answer)
			}))
			defer server.Close()
			p := endpoint{address: server.URL, ours: true}
			_, err := p.whole(t.Context(), fresh, p.asks(chat{}, "ask"), 2)
			assert.Truef(t, err != nil && strings.Contains(err.Error(), c.want), "got %v, want %q", err, c.want)
		})
	}
}
