package demo

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/fault"
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
	s, err := a.run(t.Context(), o)
	if err != nil || len(s.Turns) != 2 || s.Recall.Answer != replyText(3) || s.Waits != 1 || s.Waited <= 0 {
		t.Errorf("%v, %+v", err, s)
	}
	for _, turn := range append(s.Turns, s.Recall.Turn) {
		if turn.FirstDelta <= 0 || turn.Took < turn.FirstDelta {
			t.Errorf("turn %d: first words after %s, all after %s", turn.Number, turn.FirstDelta, turn.Took)
		}
	}
}

// What the server asks for is counted and told once. A connection that breaks is none of that.
func TestWaitsAreCounted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := &player{bar: newProgress(&out, false, 80, 1)}
	limited := &client.Error{Status: http.StatusTooManyRequests, Code: fault.OverRequestRateLimit}
	for _, reason := range []error{limited, errors.New("broke off"), limited, &client.Error{Code: fault.GenerationInProgress}} {
		p.onWait(reason, 7*time.Second)
	}
	if p.chat.Waits != 3 || p.chat.Waited != 21*time.Second {
		t.Errorf("%d waits, %s", p.chat.Waits, p.chat.Waited)
	}
	if printed := strings.Join(strings.Fields(out.String()), " "); strings.Count(printed, "RATE_LIMIT_MESSAGES_PER_MINUTE") != 1 {
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
			s, err := a.run(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "message 2") {
				t.Errorf("error %v, want one about message 2 that says %q", err, test.says)
			}
			if printed := o.Out.(*strings.Builder).String(); len(s.Turns) != 1 || !strings.Contains(printed, "Totals of 1 turn,") {
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
	if _, err := a.run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the question at the end: the reply failed (upstream_failed)") {
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
	s, err := a.run(t.Context(), o)
	if err != nil || s.FailedTurns != 3 || len(s.Turns) != 3 || s.Turns[1].Number != 4 {
		t.Errorf("%v, %+v", err, s)
	}
	if printed := o.Out.(*strings.Builder).String(); !strings.Contains(printed, "message 3 failed (upstream_failed)") || !strings.Contains(printed, "message 5 failed (cancelled)") || !strings.Contains(printed, "replies that failed") {
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
	s, err := a.run(t.Context(), a.options(lines(9)))
	if err == nil || !strings.Contains(err.Error(), "message 4: upstream_failed, 3 in a row") || s.FailedTurns != 3 {
		t.Errorf("%v, %d failed", err, s.FailedTurns)
	}
}
