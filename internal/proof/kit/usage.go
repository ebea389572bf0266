package kit

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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
	name := strconv.Itoa(pid)
	return Usage{CPU: cpuOf(name), RSS: sizesOf(name)["VmRSS"]}
}

// UsageWithChildren returns what a process and its living children use together.
func UsageWithChildren(pid int) Usage {
	used := UsageOf(pid)
	for _, child := range childrenOf(strconv.Itoa(pid)) {
		used.CPU += cpuOf(child)
		used.RSS += sizesOf(child)["VmRSS"]
	}
	return used
}

// UsageOfPostgres returns what all processes of a server on this machine use, with shared memory counted once,
// and the bytes that it has written ahead. The connection is a superuser's.
func UsageOfPostgres(ctx context.Context, admin querier) (used Usage, wal int64, err error) {
	var pid string
	err = admin.QueryRow(ctx, `select split_part(pg_read_file('postmaster.pid'), e'\n', 1), pg_current_wal_lsn() - '0/0'::pg_lsn`).Scan(&pid, &wal)
	if err != nil {
		return Usage{}, 0, err
	}
	var shared int64
	for _, process := range append(childrenOf(pid), pid) {
		used.CPU += cpuOf(process)
		sizes := sizesOf(process)
		used.RSS += sizes["RssAnon"]
		shared = max(shared, sizes["RssShmem"])
	}
	used.RSS += shared
	return used, wal, nil
}

// statOf returns the fields of /proc/<pid>/stat from the third one on: the second is a name, which may hold anything.
func statOf(pid string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

// sizesOf returns the sizes in /proc/<pid>/status, in bytes.
func sizesOf(pid string) map[string]int64 {
	text, _ := os.ReadFile(filepath.Join("/proc", pid, "status")) // a process that has ended has no sizes
	sizes := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			sizes[strings.TrimSuffix(fields[0], ":")] = kilobytes << 10
		}
	}
	return sizes
}

// cpuOf returns the CPU time of a process and its ended children.
func cpuOf(pid string) time.Duration {
	const first, last = 11, 14 // utime, stime, cutime, cstime, counted from the third field
	stat := statOf(pid)
	if len(stat) <= last {
		return 0
	}
	var sum int64
	for _, count := range stat[first : last+1] {
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return 0
		}
		sum += n
	}
	return time.Duration(sum) * (time.Second / ticks)
}

// childrenOf returns the living children of a process.
func childrenOf(pid string) []string {
	const parent = 1 // counted from the third field
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range entries {
		if stat := statOf(entry.Name()); len(stat) > parent && stat[parent] == pid {
			found = append(found, entry.Name())
		}
	}
	return found
}
