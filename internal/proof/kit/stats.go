package kit

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"
)

// Percentile returns the value below which the share q (0 to 1) of the values lies; the zero value for none.
func Percentile[T cmp.Ordered](values []T, q float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

// Times are durations of the same thing.
type Times []time.Duration

// MS returns a percentile in milliseconds.
func (t Times) MS(q float64) float64 { return Milliseconds(Percentile(t, q)) }

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Number formats a figure with about three significant digits, and "-" for what is no finite number.
func Number(value float64) string {
	switch size := math.Abs(value); {
	case math.IsInf(value, 0) || math.IsNaN(value):
		return "-"
	case size >= 100_000:
		return strconv.FormatFloat(math.Round(value/10)*10, 'f', 0, 64)
	case size >= 100 || value == math.Trunc(value):
		return strconv.FormatFloat(value, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	case size >= 0.1:
		return strconv.FormatFloat(value, 'f', 2, 64)
	default:
		return strconv.FormatFloat(value, 'g', 2, 64)
	}
}

// Sleep waits for a time, or until ctx ends, whose error it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SleepUntil is Sleep until a moment.
func SleepUntil(ctx context.Context, at time.Time) error { return Sleep(ctx, time.Until(at)) }
