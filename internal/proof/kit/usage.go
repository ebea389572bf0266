package kit

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/procfs"
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
	used, _ := usageOf(pid)
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
		used, sizes := usageOf(process)
		all.CPU += used.CPU
		all.RSS += int64(sizes.RssAnon)
		shared = max(shared, int64(sizes.RssShmem))
	}
	all.RSS += shared
	return all, wal, nil
}

// usageOf returns what a process uses, and the sizes of its memory in bytes.
func usageOf(pid int) (Usage, procfs.ProcStatus) {
	process, none := procfs.NewProc(pid)
	stat, noStat := process.Stat()
	sizes, noSizes := process.NewStatus()
	if errors.Join(none, noStat, noSizes) != nil {
		return Usage{}, procfs.ProcStatus{}
	}
	counted := int(stat.UTime) + int(stat.STime) + stat.CUTime + stat.CSTime
	return Usage{CPU: time.Duration(counted) * (time.Second / ticks), RSS: int64(sizes.VmRSS)}, sizes
}

// childrenOf returns the living children of a process.
func childrenOf(pid int) (children []int) {
	processes, _ := procfs.AllProcs() // none where there is no /proc
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil && stat.PPID == pid {
			children = append(children, p.PID)
		}
	}
	return children
}
