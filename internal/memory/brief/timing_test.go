package brief_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// The model's share of a fold and Postgres' are measured apart: each call, and the one commit.
func TestCallsAndCommitAreMeasuredApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Fault: offline.FaultNone}, offline.Answer{}, offline.Answer{Fault: offline.Fault401}), nil)
	calls, commits := r.metrics.SummaryDuration.WithLabelValues, r.metrics.CommitDuration
	r.mustFold(r.chat(8))
	answered, n := testkit.Measured(t, calls("answered")), testkit.Measured(t, commits)
	assert.Truef(t, answered == 2 && n == 1, "%v calls and %v commits were measured", answered, n)
	_, err := r.fold(r.chat(8))
	assert.Error(t, err, "a refused key goes unnoticed")
	failed, n := testkit.Measured(t, calls("failed")), testkit.Measured(t, commits)
	assert.Truef(t, failed == 1 && n == 1, "%v failed calls and %v commits were measured", failed, n)
}
