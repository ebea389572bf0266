package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// arm is one of several things that are compared.
type arm struct {
	work func(ctx context.Context) error
	took kit.Times
}

// alternate times the arms in turn, so that noise falls on all of them alike. The first repetitions warm up and
// do not count.
func alternate(ctx context.Context, samples int, arms ...*arm) error {
	warm := samples/20 + 2
	for i := range warm + samples {
		for _, a := range arms {
			began := time.Now()
			if err := a.work(ctx); err != nil {
				return err
			}
			if i >= warm {
				a.took = append(a.took, time.Since(began))
			}
		}
	}
	return nil
}

// perSecond counts how often clients at once get work done within the window.
func perSecond(ctx context.Context, window time.Duration, work func(ctx context.Context) error) (float64, error) {
	var done atomic.Int64
	began := time.Now()
	err := evenly(ctx, clients, 0, func(ctx context.Context, _ int) error {
		for time.Since(began) < window {
			if err := work(ctx); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	return float64(done.Load()) / time.Since(began).Seconds(), err
}

// micro is what testing.Benchmark measures of one repetition.
type micro struct {
	ns, allocs, bytes float64
}

// compare repeats two things in short loops, by turns, and returns the fastest loop of each: what is slower
// without I/O is noise.
func compare(ours, theirs func()) (fastest, baseline micro, err error) {
	const rounds = 3
	var best [2]micro
	for range rounds {
		for i, work := range []func(){ours, theirs} {
			result := testing.Benchmark(func(b *testing.B) {
				for b.Loop() {
					work()
				}
			})
			if result.N == 0 {
				return fastest, baseline, errors.New("a loop failed")
			}
			if ns := float64(result.T.Nanoseconds()) / float64(result.N); best[i].ns == 0 || ns < best[i].ns {
				best[i] = micro{ns: ns, allocs: float64(result.AllocsPerOp()), bytes: float64(result.AllocedBytesPerOp())}
			}
		}
	}
	return best[0], best[1], nil
}
