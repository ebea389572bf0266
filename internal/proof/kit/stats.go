package kit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// MS returns a percentile in milliseconds; NaN of nothing.
func (t Times) MS(q float64) float64 {
	if len(t) == 0 {
		return math.NaN()
	}
	return Milliseconds(Percentile(t, q))
}

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

// ticks is how often per second Linux counts CPU time in /proc, on every machine that Go runs on.
const ticks = 100

// Usage is what a process has used: CPU time since its start, that of its ended children included, and memory in
// bytes. Both are 0 where there is no /proc, and for a process that has ended.
type Usage struct {
	CPU time.Duration
	RSS int64
}

// UsageOf returns what one process uses.
func UsageOf(pid int) Usage {
	used := Usage{RSS: memoryOf(pid, "VmRSS")}
	for _, field := range statOf(pid, 13, 17) { // of the process and of its ended children, each for user and system
		counted, _ := strconv.Atoi(field) // the kernel writes numbers
		used.CPU += time.Duration(counted) * (time.Second / ticks)
	}
	return used
}

// UsageWithChildren returns what a process and its living children use together.
func UsageWithChildren(pid int) Usage {
	all := UsageOf(pid)
	for _, child := range childrenOf(pid) {
		used := UsageOf(child)
		all.CPU += used.CPU
		all.RSS += used.RSS
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
	var shared int64
	for _, process := range append(childrenOf(pid), pid) {
		all.CPU += UsageOf(process).CPU
		all.RSS += memoryOf(process, "RssAnon")
		shared = max(shared, memoryOf(process, "RssShmem"))
	}
	all.RSS += shared
	return all, wal, nil
}

// statOf returns fields of /proc/PID/stat, counted from 0 as proc(5) does from 1; none where there is no such process.
func statOf(pid, from, to int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // its end is no error
	// The second field, the program's name in brackets, may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < to-2 {
		return nil
	}
	return fields[from-2 : to-2]
}

// memoryOf returns one of a process's sizes in /proc/PID/status, in bytes.
func memoryOf(pid int, name string) (size int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // its end is no error
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	_, _ = fmt.Sscan(rest, &size) // nothing to read is 0
	return size << 10
}

// childrenOf returns the living children of a process.
func childrenOf(pid int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // fails on a malformed pattern alone
	for _, path := range stats {
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // the pattern has digits only at its beginning
		if parent := statOf(child, 3, 4); len(parent) == 1 && parent[0] == strconv.Itoa(pid) {
			children = append(children, child)
		}
	}
	return children
}
