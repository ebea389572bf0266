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

const selectUsage = `
select split_part(pg_read_file('postmaster.pid'), e'\n', 1), (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8,
       sum(heap_blks_hit + coalesce(idx_blks_hit, 0))::float8, sum(heap_blks_read + coalesce(idx_blks_read, 0))::float8
  from pg_statio_user_tables where relid in (` + messageTables + `)`

// usage is what Postgres has used since it was started, and read of messages.
type usage struct {
	cpu         time.Duration
	wal         float64
	hits, reads float64
}

// usage looks at Postgres once the talker's connections have told what they did.
func (t *talker) usage(ctx context.Context, d *database) (usage, error) {
	if err := t.tell(ctx); err != nil {
		return usage{}, err
	}
	return d.usage(ctx)
}

// usage looks at Postgres. Where the system does not tell CPU times, they are 0.
func (d *database) usage(ctx context.Context) (usage, error) {
	var u usage
	var pid string
	err := d.do(ctx, "select pg_stat_clear_snapshot()")
	if err == nil {
		err = d.admin.QueryRow(ctx, selectUsage).Scan(&pid, &u.wal, &u.hits, &u.reads)
	}
	if err != nil {
		return u, err
	}
	entries, _ := os.ReadDir("/proc") // other systems have none
	for _, entry := range entries {
		if parent, used := processOf(entry.Name()); parent == pid || entry.Name() == pid {
			u.cpu += used
		}
	}
	return u, nil
}

// processOf gives a process's parent and its CPU time. The fields of /proc/<pid>/stat are counted from the
// third on: the second is a name that may hold anything.
func processOf(pid string) (parent string, used time.Duration) {
	const parentField, userTime, systemTime = 1, 11, 12
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) <= systemTime {
		return "", 0
	}
	user, _ := strconv.Atoi(fields[userTime]) // the kernel writes numbers
	system, _ := strconv.Atoi(fields[systemTime])
	return fields[parentField], time.Duration(user+system) * time.Second / ticks
}
