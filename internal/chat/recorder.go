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

// run records until ctx ends, and then what is left. A batch goes at the first sign after a silence and
// then after each interval: a lone reply is seen elsewhere at once, a thousand cost no more round trips
// than one.
func (r *recorder) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			last := context.WithoutCancel(ctx)
			r.record(last) // perhaps a batch that the end cut off
			r.record(last) // what came since
			return
		case <-r.wake:
		}
		r.record(ctx)
		pause.Reset(r.interval)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}

func (r *recorder) record(ctx context.Context) {
	next := r.collect()
	if next.empty() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	waited := !r.unsent.empty() // then so did what was said meanwhile
	began := time.Now()
	err := r.store.RecordDeltas(ctx, next.deltas, next.ended)
	r.report(ctx, time.Since(began), err)
	r.unsent = batch{}
	if err != nil {
		r.unsent = next
	}
	if err != nil || waited {
		r.signal() // nobody else may
	}
}

// collect gives what is to be written next: what failed before, or else all that is new.
func (r *recorder) collect() batch {
	if !r.unsent.empty() {
		return r.unsent
	}
	r.mu.Lock()
	said := r.said
	next := batch{ended: r.ended}
	r.said, r.ended = nil, nil
	r.mu.Unlock()
	next.deltas = make([]Delta, 0, len(said))
	for _, g := range said {
		if delta := g.unrecordedText(); delta.Text != "" {
			next.deltas = append(next.deltas, delta)
		}
	}
	return next
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
