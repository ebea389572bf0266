package brief_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// faulty returns a script whose answers have the fault that is set, if one is.
func faulty() (*atomic.Pointer[offline.Fault], testkit.Script) {
	fault := &atomic.Pointer[offline.Fault]{}
	return fault, func(*offline.Request) offline.Answer {
		if set := fault.Load(); set != nil {
			return offline.Answer{Fault: *set}
		}
		return offline.Answer{}
	}
}

// waits returns how many minutes the chat is put off, and why.
func (r *rig) waits(chatID uuid.UUID) string {
	return testkit.Ask[string](r.t, r.pool, `select coalesce((select round(extract(epoch from retry_at - now()) / 60)
		|| ' after ' || failures || ' ' || failure from throughline.work where kind = 'fold' and key = $1), '')`, chatID)
}

// What the gate refuses is tried again after 5 and 30 s, then after minutes, then twice as long, up to hours; before that
// no call is made. A change of what is folded ends the wait.
func TestRefusedFoldIsPutOff(t *testing.T) {
	t.Parallel()
	fault, script := faulty()
	r := newRig(t, script, nil)
	chatID := r.chat(8)
	fault.Store(new(offline.FaultNone))
	for n, want := range []string{
		"0 after 1 refused: none", "0 after 2 refused: none", "5 after 3 refused: none", "10 after 4 refused: none", "20 after 5 refused: none",
	} {
		report, err := r.fold(chatID)
		soon := []time.Duration{5 * time.Second, 30 * time.Second, 0, 0, 0}[n]
		assert.Truef(t, report.Again.Round(time.Second) == soon, "the job waits %s, want %s", report.Again, soon)
		_, refused := errors.AsType[*brief.RefusedError](err)
		require.Truef(t, refused && report.Result == work.Refused && report.Calls == 2, "%+v, %v", report, err)
		r.checkUntouched(chatID)
		assert.Equal(t, want, r.waits(chatID), "it waits")
		asked := len(r.model.Requests())
		if report, err := r.fold(chatID); err != nil || report.Result != work.Nothing || len(r.model.Requests()) != asked {
			t.Errorf("too early: %+v, %v, %d calls", report, err, len(r.model.Requests())-asked)
		}
		testkit.Exec(t, r.pool, "update throughline.work set retry_at = now()")
	}
	testkit.Exec(t, r.pool, "update throughline.work set failures = 40")
	_, err := r.fold(chatID)
	assert.Truef(t, err != nil && r.waits(chatID) == "360 after 41 refused: none", "it waits %s, %v", r.waits(chatID), err)
	lines := r.logs.Lines(t, "fold put off")
	assert.Truef(t, len(lines) == 6 && lines[3]["wait_s"] == 600.0 && lines[3]["failure"] == "refused: none" && lines[3]["failures"] == 4.0,
		"the log has %v", lines)
	fault.Store(nil)
	testkit.Exec(t, r.pool, "update messages set content = 'Never mind.' where chat_id = $1 and seq = 1", chatID)
	assert.Equal(t, "", r.waits(chatID), "after an edit it waits")
	r.mustFold(chatID)
}

// A model that fails is River's to try again, until the job has no attempt left. Then the chat is put off.
func TestFailedFoldIsPutOffAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	fault, script := faulty()
	r := newRig(t, script, nil)
	chatID := r.chat(8)
	fault.Store(new(offline.Fault401))
	report, err := r.fold(chatID)
	assert.Truef(t, err != nil && report.Result == work.Failed && r.waits(chatID) == "", "%+v, %v, it waits %s", report, err, r.waits(chatID))
	r.checkUntouched(chatID)
	last := work.Attempt{Last: true}
	if report, err := r.engine.Fold(t.Context(), chatID, last); err == nil || report.Result != work.Failed || r.waits(chatID) != "5 after 1 failed" {
		t.Errorf("%+v, %v, it waits %s", report, err, r.waits(chatID))
	}
	testkit.Exec(t, r.pool, "update throughline.work set failures = 40, retry_at = now()")
	_, err = r.engine.Fold(t.Context(), chatID, last)
	assert.Truef(t, err != nil && r.waits(chatID) == "60 after 41 failed", "it waits %s, %v", r.waits(chatID), err)
	fault.Store(nil)
	testkit.Exec(t, r.pool, "update throughline.work set retry_at = now()")
	r.mustFold(chatID)
	assert.Equal(t, "", r.waits(chatID), "after a fold it waits")
}

// A message that is deleted while the gate refuses the fold: the deletion is not made to wait, and the chat is
// not put off.
func TestDeletionDuringARefusedFoldDoesNotWait(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.InOrder(offline.Answer{}, offline.Answer{Fault: offline.FaultNone}, offline.Answer{Fault: offline.FaultNone, Gate: gate},
		offline.Answer{}), nil)
	chatID := r.chat(8)
	r.mustFold(chatID)
	r.play(chatID)
	done := make(chan brief.Report, 1)
	go func() {
		report, err := r.fold(chatID)
		assert.NoError(t, err)
		done <- report
	}()
	testkit.Eventually(t, "the second try", func() bool { return len(r.model.Requests()) == 3 })
	testkit.Exec(t, r.pool, "delete from messages where chat_id = $1 and seq = 1", chatID)
	close(gate)
	report := testkit.Receive(t, "the fold ends", done)
	assert.Truef(t, report.Result == work.Conflict && r.waits(chatID) == "" && r.summary(chatID) == "", "%+v, it waits %q", report, r.waits(chatID))
	r.mustFold(chatID)
}

// A fold that is due by the counters and finds nothing to do counts again.
func TestWrongCountersAreRepaired(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(2)
	testkit.Exec(t, r.pool, "update conversation_briefs set pending_tokens = 9999, pending_turns = 50")
	r.wantFold(chatID, work.Nothing)
	testkit.Want(t, r.pool, 0, "select count(*) from inspect.buffers where not counters_agree")
	testkit.Want(t, r.pool, "t t t",
		"select concat_ws(' ', settled_turns = pending_turns, settled_tokens = pending_tokens, not exists (select from throughline.work)) from conversation_briefs")
}
