package chat

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
)

// recorder writes the text of running replies to Postgres while they are generated, so that other servers can read it
// and a crash does not lose it. It writes for all replies of a process together, however many there are. Replies never
// wait for it, and do not fail with it: their text is in their relays, and they store all of it at their end.
type recorder struct {
	store    Store
	server   uuid.UUID
	logger   *slog.Logger
	metrics  *metrics.Metrics
	interval time.Duration
	timeout  time.Duration // of one batch

	wake chan struct{}
	// unsent is a batch that may or may not have been committed. It is sent again unchanged. Only the recorder's
	// goroutine uses it.
	unsent  batch
	failing bool

	mu      sync.Mutex
	pending []*generation // with text that is not recorded
	ended   []uuid.UUID   // replies that are stored
}

// batch is what one transaction writes.
type batch struct {
	deltas []Delta
	ended  []uuid.UUID
}

func (b batch) empty() bool { return len(b.deltas) == 0 && len(b.ended) == 0 }

// noteText notes that a generation has more text. It is called for each delta, so the usual case, that this is noted
// already, costs one atomic load.
func (r *recorder) noteText(g *generation) {
	if g.unrecorded.Load() || g.unrecorded.Swap(true) {
		return
	}
	r.mu.Lock()
	r.pending = append(r.pending, g)
	r.mu.Unlock()
	r.signal()
}

// noteEnd notes that a reply is stored: its deltas can be deleted, and its followers should be notified.
func (r *recorder) noteEnd(messageID uuid.UUID) {
	r.mu.Lock()
	r.ended = append(r.ended, messageID)
	r.mu.Unlock()
	r.signal()
}

func (r *recorder) signal() { notify(r.wake) }

// recordInterval is the pause between two recordings of a running reply: the most text that a killed server loses. With the
// way to another server, a reader there waits 300 ms at most.
const recordInterval = 150 * time.Millisecond

// batchesPerInterval spreads the work: each reply is recorded once per interval, but not all in one batch, which would
// keep Postgres busy long enough to delay the streams of the same machine.
const batchesPerInterval = 4

// intervalsPerFailure is the pause after a failure, in intervals.
const intervalsPerFailure = 2

// run records until ctx ends, and then the rest. The first text of a reply is recorded at once,
// later text once per interval; a thousand replies take no more round trips than a few.
func (r *recorder) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			last := context.WithoutCancel(ctx)
			r.record(last, time.Time{}) // a batch that the end may have interrupted
			r.record(last, time.Time{}) // text that was noted since
			return
		case <-r.wake:
		}
		r.record(ctx, time.Now())
		next.Reset(r.pause())
		select {
		case <-ctx.Done():
		case <-next.C:
		}
	}
}

func (r *recorder) pause() time.Duration {
	if r.failing {
		return r.interval * intervalsPerFailure
	}
	return r.interval / batchesPerInterval
}

// record writes the text that is due at that time; everything for the zero time.
func (r *recorder) record(ctx context.Context, now time.Time) {
	next, waiting := r.collect(now)
	if waiting {
		r.signal() // there may be no other signal
	}
	if next.empty() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	began := time.Now()
	err := r.store.RecordDeltas(ctx, next.deltas, next.ended)
	r.report(ctx, time.Since(began), err)
	r.unsent = batch{}
	if err != nil {
		r.unsent = next
		r.signal()
	}
}

// collect returns the next batch: the one that failed before, or else all that is due. It also reports
// whether more is waiting.
func (r *recorder) collect(now time.Time) (next batch, waiting bool) {
	if !r.unsent.empty() {
		return r.unsent, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next.ended, r.ended = r.ended, nil
	later := r.pending[:0]
	for _, g := range r.pending {
		if !now.IsZero() && now.Sub(g.recordedAt) < r.interval {
			later = append(later, g)
		} else if delta := g.takeUnrecorded(now); delta.Text != "" {
			delta.Server = r.server
			next.deltas = append(next.deltas, delta)
		}
	}
	clear(r.pending[len(later):])
	r.pending = later
	return next, len(later) > 0
}

// report logs the first failure and the recovery, but not each try in between.
func (r *recorder) report(ctx context.Context, took time.Duration, err error) {
	if err == nil {
		r.metrics.RecordDuration.Observe(took.Seconds())
	} else {
		r.metrics.RecordFailures.Inc()
	}
	switch {
	case err != nil && !r.failing:
		r.logger.LogAttrs(ctx, slog.LevelWarn, "running replies not recorded", slog.Any("error", err))
	case err == nil && r.failing:
		r.logger.LogAttrs(ctx, slog.LevelInfo, "running replies recorded again")
	}
	r.failing = err != nil
}
