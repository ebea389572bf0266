package stack

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks is how often per second Linux counts CPU time in /proc, on every machine that Go runs on.
const ticks = 100

// Usage is what a process has used. CPU counts from its start, RSS is memory in bytes. Both are 0 where the system
// does not tell, and for a process that is gone.
type Usage struct {
	CPU time.Duration
	RSS int64
}

// UsageOf is what one process uses.
func UsageOf(pid int) Usage {
	name := strconv.Itoa(pid)
	return Usage{CPU: CPUOf(name, false), RSS: statusOf(name)["VmRSS"]}
}

// Usage is what all processes of Postgres use: CPU time those that have ended included, memory with what they share
// counted once.
func (p *Postgres) Usage() Usage {
	text, err := os.ReadFile(filepath.Join(p.options.Dir, "data", "postmaster.pid"))
	postmaster, _, _ := strings.Cut(string(text), "\n")
	if err != nil || postmaster == "" {
		return Usage{}
	}
	// Of its ended children the postmaster knows; the living ones are asked one by one.
	used := Usage{CPU: CPUOf(postmaster, true)}
	var shared int64
	for _, pid := range append(ChildrenOf(postmaster), postmaster) {
		if pid != postmaster {
			used.CPU += CPUOf(pid, false)
		}
		status := statusOf(pid)
		used.RSS += status["RssAnon"]
		shared = max(shared, status["RssShmem"])
	}
	used.RSS += shared
	return used
}

// statOf gives the fields of /proc/<pid>/stat from the third one on: the second is a name that may hold anything. A
// process that is gone has none.
func statOf(pid string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

// statusOf gives the sizes in /proc/<pid>/status, in bytes.
func statusOf(pid string) map[string]int64 {
	text, _ := os.ReadFile(filepath.Join("/proc", pid, "status")) // a process that is gone has no sizes
	sizes := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			sizes[strings.TrimSuffix(fields[0], ":")] = kilobytes << 10
		}
	}
	return sizes
}

// CPUOf is the CPU time of a process since its start, on request with that of its children that have ended. 0 where the
// system does not tell, and for a process that is gone.
func CPUOf(pid string, andOfChildren bool) time.Duration {
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

// ChildrenOf gives the processes that a process has started and that live.
func ChildrenOf(pid string) []string {
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
