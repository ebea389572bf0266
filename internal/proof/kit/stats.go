package kit

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
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

// MS returns a percentile in milliseconds; NaN of nothing.
func (t Times) MS(q float64) float64 {
	if len(t) == 0 {
		return math.NaN()
	}
	return Milliseconds(Percentile(t, q))
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Number formats a figure with about three significant digits, and "-" for other values than finite numbers.
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
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Usage is what a process has used: CPU time since its start, that of its ended children included, and memory in
// bytes. Both are 0 where there is no /proc, and for a process that has ended.
type Usage struct {
	CPU time.Duration
	RSS int64
}

// UsageOf returns what one process uses.
func UsageOf(pid int) Usage {
	process, _ := procfs.NewProc(pid) // of one that has ended nothing can be read
	stat, _ := process.Stat()
	const tick = 10 * time.Millisecond // of Linux, on every machine that Go runs on
	return Usage{CPU: tick * time.Duration(int(stat.UTime+stat.STime)+stat.CUTime+stat.CSTime), RSS: int64(stat.ResidentMemory())}
}

// CPUWithChildren returns the CPU time of a process and its living children together.
func CPUWithChildren(pid int) time.Duration {
	all := UsageOf(pid).CPU
	for _, child := range childrenOf(pid) {
		all += UsageOf(child.PID).CPU
	}
	return all
}

// UsageOfPostgres returns what all processes of a server on this machine use, with shared memory counted once,
// and the bytes that it has written ahead. The connection is a superuser's.
func UsageOfPostgres(ctx context.Context, admin Querier) (all Usage, wal int64, err error) {
	var pid int
	err = admin.QueryRow(ctx, `select split_part(pg_read_file('postmaster.pid'), e'\n', 1)::int, pg_current_wal_lsn() - '0/0'::pg_lsn`).Scan(&pid, &wal)
	if err != nil {
		return Usage{}, 0, err
	}
	all.CPU = CPUWithChildren(pid)
	var shared uint64
	parent, _ := procfs.NewProc(pid) // it has just answered
	for _, process := range append(childrenOf(pid), parent) {
		status, _ := process.NewStatus() // its end is no error
		all.RSS += int64(status.RssAnon)
		shared = max(shared, status.RssShmem)
	}
	all.RSS += int64(shared)
	return all, wal, nil
}

// childrenOf returns the living children of a process.
func childrenOf(pid int) procfs.Procs {
	all, _ := procfs.AllProcs() // none where there is no /proc
	return slices.DeleteFunc(all, func(p procfs.Proc) bool {
		stat, err := p.Stat()
		return err != nil || stat.PPID != pid
	})
}
