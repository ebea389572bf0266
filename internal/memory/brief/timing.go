package brief

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// timedSummarizer measures each summary call.
type timedSummarizer struct {
	Summarizer
	metrics *metrics.Metrics
}

// Summarize measures a call of Summarizer's.
func (t timedSummarizer) Summarize(ctx context.Context, call Call) (Answer, error) {
	began := time.Now()
	answer, err := t.Summarizer.Summarize(ctx, call)
	result := "answered"
	if err != nil {
		result = "failed"
	}
	t.metrics.SummaryDuration.WithLabelValues(result).Observe(time.Since(began).Seconds())
	return answer, err
}

// timedStore measures the transaction that writes a brief.
type timedStore struct {
	Store
	commits prometheus.Histogram
}

// Commit measures a call of Store's.
func (t timedStore) Commit(ctx context.Context, change Change, then func(ctx context.Context, tx pgx.Tx, after Counters) error) (bool, error) {
	began := time.Now()
	committed, err := t.Store.Commit(ctx, change, then)
	t.commits.Observe(time.Since(began).Seconds())
	return committed, err
}
