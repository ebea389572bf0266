package brief_test

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// The model's share of a fold and Postgres' are measured apart: each call, and the one commit.
func TestCallsAndCommitAreMeasuredApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Fault: offline.FaultNone}, offline.Answer{}, offline.Answer{Fault: offline.Fault401}), nil)
	calls, commits := r.metrics.SummaryDuration.WithLabelValues, r.metrics.CommitDuration
	r.mustFold(r.chat(8))
	if answered, n := testkit.Measured(t, calls("answered")), testkit.Measured(t, commits); answered != 2 || n != 1 {
		t.Errorf("%v calls and %v commits were measured", answered, n)
	}
	if _, err := r.fold(r.chat(8)); err == nil {
		t.Error("a refused key goes unnoticed")
	}
	if failed, n := testkit.Measured(t, calls("failed")), testkit.Measured(t, commits); failed != 1 || n != 1 {
		t.Errorf("%v failed calls and %v commits were measured", failed, n)
	}
}
