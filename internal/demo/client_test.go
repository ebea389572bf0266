package demo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/streaming"
)

func TestClientTriesAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first  func(a *api, w http.ResponseWriter, m *received)
		pauses int
	}{
		"a generation in progress": {func(_ *api, w http.ResponseWriter, _ *received) {
			refuse(w, http.StatusConflict, "generation_in_progress", "busy")
		}, 1},
		"a server shutting down": {func(_ *api, w http.ResponseWriter, _ *received) {
			refuse(w, http.StatusServiceUnavailable, "shutting_down", "bye")
		}, 1},
		"a connection cut in the middle":       {func(a *api, w http.ResponseWriter, m *received) { a.stream(w, m, 10) }, 1},
		"a connection cut after the start":     {func(a *api, w http.ResponseWriter, m *received) { a.stream(w, m, 0) }, 1},
		"a connection cut before the end":      {func(a *api, w http.ResponseWriter, m *received) { a.stream(w, m, 21) }, 1},
		"a connection reset without an answer": {func(*api, http.ResponseWriter, *received) { panic(http.ErrAbortHandler) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.hook = func(w http.ResponseWriter, _ *http.Request, m *received) bool {
				if m.attempt == 1 {
					test.first(a, w, m)
					return true
				}
				return false
			}
			o := a.options(lines(2))
			o.Question = "again?"
			s, pauses, err := a.run(t.Context(), o)
			if err != nil || len(s.Turns) != 2 || s.Recall.Answer != replyText(3) {
				t.Errorf("%v, %+v", err, s)
			}
			if len(pauses) != 3*test.pauses {
				t.Errorf("pauses %v", pauses)
			}
		})
	}
}

func TestClientGivesUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(a *api, w http.ResponseWriter, m *received)
		says   string
		tries  int64
	}{
		"a bad token": {func(_ *api, w http.ResponseWriter, _ *received) {
			refuse(w, http.StatusUnauthorized, "session_expired", "The session has expired.")
		}, "401 session_expired", 1},
		"another server": {func(_ *api, w http.ResponseWriter, _ *received) {
			w.WriteHeader(http.StatusTeapot)
		}, "no answer of Throughline's", 1},
		"JSON for a stream": {func(_ *api, w http.ResponseWriter, _ *received) {
			w.Header().Set("Content-Type", "application/json")
		}, "content type", 1},
		"a server that is gone": {func(*api, http.ResponseWriter, *received) { panic(http.ErrAbortHandler) }, "EOF", breaks},
		"a server that never lets us in": {func(_ *api, w http.ResponseWriter, _ *received) {
			w.Header().Set("Retry-After", "60")
			refuse(w, http.StatusServiceUnavailable, "not_ready", "Not yet.")
		}, "503 not_ready", 6},
		"a skipped delta": {func(_ *api, w http.ResponseWriter, m *received) {
			e := startStream(w, m)
			_ = e.Chunk(streaming.Chunk{Offset: 0, Text: []byte("äb")})
			_ = e.Chunk(streaming.Chunk{Offset: 3, Text: []byte("c")})
		}, "character 3 follows character 2", 1},
		"a short reply": {func(a *api, w http.ResponseWriter, m *received) {
			e := startStream(w, m)
			_ = e.Chunk(streaming.Chunk{Offset: 0, Text: []byte("ä")})
			_ = e.Chunk(streaming.Chunk{End: &streaming.Terminal{Completed: a.completed(m, 2)}})
		}, "1 characters came of a reply of 2", 1},
		"a stream that begins later": {func(_ *api, w http.ResponseWriter, m *received) {
			m.started.Offset = 4
			startStream(w, m)
		}, "begins at character 4", 1},
		"no message.started": {func(_ *api, w http.ResponseWriter, _ *received) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: content.delta\ndata: {}\n\n")
		}, `begins with "content.delta"`, 1},
		"two beginnings": {func(_ *api, w http.ResponseWriter, m *received) {
			startStream(w, m)
			startStream(w, m)
		}, "begins twice", 1},
		"an unknown event": {func(_ *api, w http.ResponseWriter, m *received) {
			startStream(w, m)
			fmt.Fprint(w, "event: surprise\ndata: {}\n\n")
		}, "surprise", 1},
		"a wrong id": {func(_ *api, w http.ResponseWriter, m *received) {
			startStream(w, m)
			fmt.Fprintf(w, "id: %s:9\nevent: content.delta\ndata: {\"offset\":0,\"delta\":\"a\"}\n\n", m.id)
		}, ":9", 1},
		"no JSON": {func(_ *api, w http.ResponseWriter, m *received) {
			startStream(w, m)
			fmt.Fprint(w, "event: content.delta\ndata: {\n\n")
		}, "content.delta:", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			var tries atomic.Int64
			a.hook = func(w http.ResponseWriter, _ *http.Request, m *received) bool {
				if m.n < 2 {
					return false
				}
				tries.Store(int64(m.attempt))
				test.answer(a, w, m)
				return true
			}
			o := a.options(lines(3))
			s, _, err := a.run(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "message 2") {
				t.Errorf("error %v, want one about message 2 that says %q", err, test.says)
			}
			if tries.Load() != test.tries {
				t.Errorf("%d tries, want %d", tries.Load(), test.tries)
			}
			// What there is is printed all the same.
			if printed := o.Out.(*strings.Builder).String(); len(s.Turns) != 1 || !strings.Contains(printed, "Totals of 1 turn,") {
				t.Errorf("%d turns, printed:\n%s", len(s.Turns), printed)
			}
		})
	}
}

func startStream(w http.ResponseWriter, m *received) *streaming.Encoder {
	w.Header().Set("Content-Type", "text/event-stream")
	e := streaming.NewEncoder(w, m.id)
	_ = e.Started(m.started)
	return e
}

// A reply that failed is a turn less, not the end: the message is stored, and the chat goes on.
func TestFailedRepliesAreCounted(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.hook = func(w http.ResponseWriter, _ *http.Request, m *received) bool {
		switch m.n {
		case 2:
			a.fail(w, m)
		case 3:
			refuse(w, http.StatusBadGateway, "upstream_failed", "The model does not answer.")
		default:
			return false
		}
		return true
	}
	o := a.options(lines(5))
	s, _, err := a.run(t.Context(), o)
	if err != nil || s.FailedTurns != 2 || len(s.Turns) != 3 || s.Turns[1].Number != 4 {
		t.Errorf("%v, %+v", err, s)
	}
	if printed := o.Out.(*strings.Builder).String(); !strings.Contains(printed, "message 3 failed (upstream_failed)") || !strings.Contains(printed, "replies that failed") {
		t.Errorf("printed:\n%s", printed)
	}
}

func TestManyFailuresInARowEndThePlaying(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.hook = func(w http.ResponseWriter, _ *http.Request, m *received) bool {
		if m.n > 1 {
			a.fail(w, m)
		}
		return m.n > 1
	}
	s, _, err := a.run(t.Context(), a.options(lines(9)))
	if err == nil || !strings.Contains(err.Error(), "message 4: upstream_failed, 3 in a row") || s.FailedTurns != 3 {
		t.Errorf("%v, %d failed", err, s.FailedTurns)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"3": 3 * time.Second, "0": 0, "": time.Second, "-1": time.Second, "soon": time.Second} {
		if got := retryAfter(header); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestWaitsGrowWhileTheServerIsGone(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for n := 1; n < breaks; n++ {
		wait, again := waitAfter(errCut, n)
		if !again || wait <= last {
			t.Errorf("break %d: wait %s, again %t", n, wait, again)
		}
		last = wait
	}
	if _, again := waitAfter(errors.Join(errCut), breaks); again {
		t.Error("no end")
	}
}
