package demo

import (
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/streaming"
)

// A reply that is cut is heard whole, and a chat that is busy is waited for: what the conversation goes
// through is not in what it measures, but for the time.
func TestRunGoesOnAfterCutsAndRefusals(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.hook = func(w http.ResponseWriter, _ *http.Request, m *received) bool {
		switch {
		case m.attempt > 1:
			return false
		case m.n == 1:
			a.stream(w, m, 10)
		case m.n == 2:
			refuse(w, http.StatusConflict, "generation_in_progress", "Busy.")
		default:
			a.stream(w, m, 21)
		}
		return true
	}
	o := a.options(lines(2))
	o.Question = "again?"
	s, err := Run(t.Context(), o)
	if err != nil || len(s.Turns) != 2 || len(s.Answers) != 1 || s.Answers[0].Text != replyText(3) {
		t.Errorf("%v, %+v", err, s)
	}
}

// That the server asks to wait is told once.
func TestRateLimitIsTold(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.hook = func(w http.ResponseWriter, _ *http.Request, m *received) bool {
		if m.attempt > 2 {
			return false
		}
		w.Header().Set("Retry-After", "0")
		refuse(w, http.StatusTooManyRequests, "over_request_rate_limit", "Later.")
		return true
	}
	o := a.options(lines(1))
	if _, err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	if printed := o.Out.(*strings.Builder).String(); strings.Count(printed, "RATE_LIMIT_MESSAGES_PER_MINUTE") != 1 {
		t.Errorf("printed %q", printed)
	}
}

// A server that does not keep to the contract ends the playing, and what there is is printed all the same.
func TestRunEndsWithAServerThatIsNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(a *api, w http.ResponseWriter, m *received)
		says   string
	}{
		"a bad token": {func(_ *api, w http.ResponseWriter, _ *received) {
			refuse(w, http.StatusUnauthorized, "session_expired", "The session has expired.")
		}, "401 session_expired"},
		"a short reply": {func(a *api, w http.ResponseWriter, m *received) {
			a.end(w, m, streaming.Terminal{Completed: a.completed(m, 2)})
		}, "0 characters came of a reply of 2"},
		"no receipt": {func(a *api, w http.ResponseWriter, m *received) {
			whole := a.completed(m, 0)
			whole.Memory = []byte(`[]`)
			a.end(w, m, streaming.Terminal{Completed: whole})
		}, "the receipt cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.hook = func(w http.ResponseWriter, _ *http.Request, m *received) bool {
				if m.n == 2 {
					test.answer(a, w, m)
				}
				return m.n == 2
			}
			o := a.options(lines(3))
			s, err := Run(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "message 2") {
				t.Errorf("error %v, want one about message 2 that says %q", err, test.says)
			}
			if printed := o.Out.(*strings.Builder).String(); len(s.Turns) != 1 || !strings.Contains(printed, "TOKEN BILL  1 turn,") {
				t.Errorf("%d turns, printed:\n%s", len(s.Turns), printed)
			}
		})
	}
}

func TestAQuestionThatIsNotAnsweredIsTold(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.hook = func(w http.ResponseWriter, _ *http.Request, m *received) bool {
		if m.n == 2 {
			a.fail(w, m)
		}
		return m.n == 2
	}
	o := a.options(lines(1))
	o.Question = "What was it?"
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the question at the end: the reply failed (upstream_failed)") {
		t.Errorf("error %v", err)
	}
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
		case 5:
			a.end(w, m, streaming.Terminal{Cancelled: &streaming.Cancelled{MessageID: m.id}})
		default:
			return false
		}
		return true
	}
	o := a.options(lines(6))
	s, err := Run(t.Context(), o)
	if err != nil || s.FailedTurns != 3 || len(s.Turns) != 3 || s.Turns[1].Number != 4 {
		t.Errorf("%v, %+v", err, s)
	}
	if printed := o.Out.(*strings.Builder).String(); !strings.Contains(printed, "message 3 failed (upstream_failed)") || !strings.Contains(printed, "message 5 failed (cancelled)") || !strings.Contains(printed, "Replies that failed: 3") {
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
	s, err := Run(t.Context(), a.options(lines(9)))
	if err == nil || !strings.Contains(err.Error(), "message 4: upstream_failed, 3 in a row") || s.FailedTurns != 3 {
		t.Errorf("%v, %d failed", err, s.FailedTurns)
	}
}
