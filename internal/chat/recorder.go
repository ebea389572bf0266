package chat

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
)

// recorder writes what running replies say to Postgres while they say it, so that other servers can read
// on and a crash leaves what was said. One writes for all replies of a process together: a batch per
// interval, however many there are. Replies never wait for it, and its failures cost them nothing: what
// is not recorded yet is still in their relays, and they store the whole text at their end.
type recorder struct {
	store    Store
	logger   *slog.Logger
	metrics  *metrics.Metrics
	interval time.Duration
	timeout  time.Duration // of one batch

	wake chan struct{}
	// unsent is a batch that may or may not have been committed. It is sent again as it is, because
	// pieces never change. Only the recorder's goroutine uses it.
	unsent  batch
	failing bool

	mu    sync.Mutex
	said  []*generation // that have said more than was recorded
	ended []uuid.UUID   // replies that are stored
}

// batch is what one transaction writes.
type batch struct {
	deltas []Delta
	ended  []uuid.UUID
}

func (b batch) empty() bool { return len(b.deltas) == 0 && len(b.ended) == 0 }

// more notes that a generation has more text. It is called for each delta, so the usual case, that this
// was noted already, costs one look.
func (r *recorder) more(g *generation) {
	if g.unrecorded.Load() || g.unrecorded.Swap(true) {
		return
	}
	r.mu.Lock()
	r.said = append(r.said, g)
	r.mu.Unlock()
	r.signal()
}

// end notes that a reply is stored: its deltas are spent, and whoever follows it should look.
func (r *recorder) end(messageID uuid.UUID) {
	r.mu.Lock()
	r.ended = append(r.ended, messageID)
	r.mu.Unlock()
	r.signal()
}

func (r *recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// batchesPerInterval spreads the work: each reply is recorded once per interval, but they take turns. One
// batch of all would keep Postgres busy long enough to be felt by every stream on the same machine.
const batchesPerInterval = 4

// intervalsPerFailure is how long a Postgres that is away is left alone.
const intervalsPerFailure = 5

// run records until ctx ends, and then what is left. The first words of a reply are recorded at once, what
// follows after each interval; a thousand replies cost no more round trips than a few.
func (r *recorder) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			last := context.WithoutCancel(ctx)
			r.record(last, time.Time{}) // perhaps a batch that the end cut off
			r.record(last, time.Time{}) // what came since
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

// record writes what is due at that time; everything for none.
func (r *recorder) record(ctx context.Context, now time.Time) {
	next, waiting := r.collect(now)
	if waiting {
		r.signal() // nobody else may
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

// collect gives what is to be written next: what failed before, or else all that is due. It tells whether
// more is waiting.
func (r *recorder) collect(now time.Time) (next batch, waiting bool) {
	if !r.unsent.empty() {
		return r.unsent, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next.ended, r.ended = r.ended, nil
	later := r.said[:0]
	for _, g := range r.said {
		if !now.IsZero() && now.Sub(g.recordedAt) < r.interval {
			later = append(later, g)
		} else if delta := g.unrecordedText(now); delta.Text != "" {
			next.deltas = append(next.deltas, delta)
		}
	}
	clear(r.said[len(later):])
	r.said = later
	return next, len(later) > 0
}

// report tells of the first failure and of the recovery, not of each try in between.
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
