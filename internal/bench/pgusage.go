package main

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

// postgresUsage reads what Postgres has used since it was started: CPU time of all its processes, those that
// have ended included, and bytes written ahead. Where the system does not tell, the CPU time is 0.
func (e *environment) postgresUsage(ctx context.Context) (cpu time.Duration, wal int64, err error) {
	var pid string
	err = e.admin.QueryRow(ctx, "select split_part(pg_read_file('postmaster.pid'), e'\\n', 1), pg_current_wal_lsn() - '0/0'::pg_lsn").Scan(&pid, &wal)
	if err != nil {
		return 0, 0, err
	}
	// Of its ended children the postmaster knows; the living ones are asked one by one.
	cpu = cpuOf(pid, true)
	for _, child := range childrenOf(pid) {
		cpu += cpuOf(child, false)
	}
	return cpu, wal, nil
}

// statOf gives the fields of /proc/<pid>/stat from the third one on: the second is a name that may hold
// anything. A process that is gone has none.
func statOf(pid string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

func cpuOf(pid string, andOfChildren bool) time.Duration {
	const parts, userTime, childrenTime = 2, 11, 13 // counted from the third field
	stat := statOf(pid)
	if len(stat) < childrenTime+parts {
		return 0
	}
	counted := stat[userTime : userTime+parts]
	if andOfChildren {
		counted = stat[userTime : childrenTime+parts]
	}
	var sum int64
	for _, count := range counted {
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return 0
		}
		sum += n
	}
	return time.Duration(sum) * (time.Second / ticks)
}

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

// watchPostgres gives the CPU time that Postgres uses within a time.
func (e *environment) watchPostgres(ctx context.Context, from, to time.Time) (time.Duration, error) {
	if err := sleepUntil(ctx, from); err != nil {
		return 0, err
	}
	before, _, err := e.postgresUsage(ctx)
	if err != nil {
		return 0, err
	}
	if err := sleepUntil(ctx, to); err != nil {
		return 0, err
	}
	after, _, err := e.postgresUsage(ctx)
	return after - before, err
}
