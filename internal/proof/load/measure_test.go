package main

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestSlope(t *testing.T) {
	t.Parallel()
	if got := slope(nil); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	points := make([]kit.Point, 1000)
	for n := range points {
		points[n] = kit.Point{X: float64(n), Y: 5 + 2*float64(n)}
		if n%5 == 0 {
			points[n].Y = 1e9 // peaks do not count
		}
	}
	if got := slope(points); math.Abs(got-2) > .01 {
		t.Errorf("2 per second was found as %v", got)
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h histogram
	if got := h.ms(.5); !math.IsNaN(got) {
		t.Errorf("the median of nothing: %v", got)
	}
	for n := range 1000 {
		h.add(time.Duration(n+1) * time.Millisecond)
	}
	before := h
	for q, want := range map[float64]float64{.5: 500, .99: 990, 0: 1, 1: 1000} {
		if got := before.ms(q); got < want*.97 || got > want*1.03 {
			t.Errorf("%v: %v, not %v", q, got, want)
		}
	}
	h.add(-time.Second) // the clock was set
	h.add(time.Hour * 1000)
	if n := h.since(before).total(); n != 2 {
		t.Errorf("%d since", n)
	}
}

func TestStampTellsWhenAWordWasDue(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Microsecond)
	read, err := readStamp(stamp{now, 20 * time.Millisecond}.String())
	if err != nil || !read.asked.Equal(now) || read.due(2) != read.asked.Add(replyLatency+60*time.Millisecond) {
		t.Errorf("%+v, %v", read, err)
	}
	for _, wrong := range []string{"", "On", "abc", "abc-", "?-5"} {
		if _, err := readStamp(wrong); err == nil {
			t.Errorf("%q is a stamp", wrong)
		}
	}
}

// A stream that is not as the contract says is an error, whatever it says.
func TestReplyHoldsToTheContract(t *testing.T) {
	t.Parallel()
	word := stamp{time.Now(), time.Millisecond}.String() + " "
	delta := func(offset, text string) string {
		return "event: content.delta\ndata: {\"offset\":" + offset + ",\"delta\":\"" + text + "\"}\n\n"
	}
	for want, stream := range map[string]string{
		"no terminal event":    delta("0", word),
		"follows character 0":  delta("3", word),
		"no stamp":             delta("0", "hello "),
		"came of a reply of 7": delta("0", word) + "event: completion\ndata: {\"content_length\":7}\n\n",
		"invalid character":    "event: completion\ndata: {nonsense\n\n",
	} {
		r := &reply{gauges: &gauges{}}
		if _, err := r.read(strings.NewReader(stream), never); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// What a server refuses, and one that is not there, are counted under their names.
func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"code": "not_ready"}`))
	}))
	c := caller{Client: kit.Client{HTTP: newHTTP()}, replicas: []string{server.URL}, gauges: &gauges{}}
	err := c.call(t.Context(), request{method: http.MethodGet, path: "/"})
	if r, ok := errors.AsType[*refused](err); !ok || r.status != http.StatusServiceUnavailable || kindOf(err) != "a turn given up" {
		t.Errorf("%v", err)
	}
	server.Close()
	if err := c.call(t.Context(), request{method: http.MethodGet, path: "/"}); err == nil {
		t.Error("a server that is gone answered")
	}
	if got := c.gauges.totals().errors; got["HTTP 503 not_ready"] != 1 || got["no answer"] != 1 || len(got) != 2 {
		t.Errorf("%v", got)
	}
	c.HTTP.CloseIdleConnections()
}

// A process that crashes writes no JSON; that is an error as one that it logs.
func TestLogCountsErrors(t *testing.T) {
	t.Parallel()
	kept := &closing{}
	l := &processLog{kept: kept}
	for _, line := range []string{`{"level":"INFO","msg":"a"}`, `{"level":"WARN","msg":"b"}`, `{"level":"ERROR","msg":"c"}`, "panic: d"} {
		if _, err := l.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if l.errors.Load() != 2 || !strings.Contains(*l.first.Load(), `"c"`) || !strings.Contains(kept.String(), `"b"`) || strings.Contains(kept.String(), `"a"`) || !strings.Contains(kept.String(), "panic: d") {
		t.Errorf("%d errors, %s", l.errors.Load(), kept)
	}
}

type closing struct{ testkit.Log }

func (*closing) Close() error { return nil }

// A person who is told to stop says no more.
func TestLifeEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &person{caller: caller{gauges: &gauges{}}, habits: ordinary, dice: newDice(1)}
	p.live(ctx, nil)
	stopping := make(chan struct{})
	close(stopping)
	p.live(t.Context(), stopping)
	if n := len(p.gauges.totals().turns); n != 0 {
		t.Errorf("%d turns", n)
	}
}

func TestDurationsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{time.Hour: "1h", 5 * time.Minute: "5m", 90 * time.Second: "1m30s", 4 * time.Second: "4s"} {
		if got := shortest(d); got != want {
			t.Errorf("%s: %q, not %q", d, got, want)
		}
	}
}
