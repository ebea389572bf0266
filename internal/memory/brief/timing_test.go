package brief_test

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func observed(t *testing.T, histogram prometheus.Observer) uint64 {
	t.Helper()
	var read dto.Metric
	if err := histogram.(prometheus.Metric).Write(&read); err != nil {
		t.Fatal(err)
	}
	return read.GetHistogram().GetSampleCount()
}

// The model's share of a fold and Postgres' are measured apart: each call, and the one commit.
func TestCallsAndCommitAreMeasuredApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Fault: offline.FaultNone}, offline.Answer{}, offline.Answer{Fault: offline.Fault401}), nil)
	calls, commits := r.metrics.SummaryDuration.WithLabelValues, r.metrics.CommitDuration
	r.mustFold(r.chat(8))
	if answered, n := observed(t, calls("answered")), observed(t, commits); answered != 2 || n != 1 {
		t.Errorf("%d calls and %d commits were measured", answered, n)
	}
	if _, err := r.fold(r.chat(8)); err == nil {
		t.Error("a refused key goes unnoticed")
	}
	if failed, n := observed(t, calls("failed")), observed(t, commits); failed != 1 || n != 1 {
		t.Errorf("%d failed calls and %d commits were measured", failed, n)
	}
}
