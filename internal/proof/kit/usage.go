package kit

import (
	"context"
	"fmt"
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
func UsageOfPostgres(ctx context.Context, admin querier) (all Usage, wal int64, err error) {
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

// statOf returns some fields of a process's /proc/PID/stat, counted from 0 as proc(5) does from 1; none where there is no
// such process.
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
