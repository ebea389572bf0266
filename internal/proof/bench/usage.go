package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/stack"
)

// usage is what a process has used. CPU counts from its start.
type usage struct {
	CPU time.Duration `json:"cpu_ns"`
	RSS int64         `json:"rss_bytes"`
}

func answerUsage(role, address, profile string) error {
	if profile != "" {
		file, err := os.Create(filepath.Join(profile, role+".pprof"))
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // a profile that is cut off shows when it is read
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if _, err := fmt.Fprintln(os.Stdout, address); err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if name, asked := strings.CutPrefix(lines.Text(), snapshot+" "); asked && profile != "" {
			if err := takeSnapshot(filepath.Join(profile, role+"-"+name)); err != nil {
				return err
			}
		}
		now, err := ownUsage()
		if err != nil {
			return err
		}
		if err := encoder.Encode(now); err != nil {
			return err
		}
	}
	return nil
}

// snapshot is asked for on stdin, with a name. It leaves a heap profile and a dump of the goroutines.
const snapshot = "snapshot"

func takeSnapshot(path string) error {
	runtime.GC() // a heap profile tells of the last collection
	for _, kind := range []string{"heap", "goroutine"} {
		file, err := os.Create(path + "." + kind)
		if err != nil {
			return err
		}
		if err := errors.Join(pprof.Lookup(kind).WriteTo(file, 0), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

func ownUsage() (usage, error) {
	var found syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &found); err != nil {
		return usage{}, err
	}
	return usage{CPU: time.Duration(found.Utime.Nano() + found.Stime.Nano()), RSS: residentBytes()}, nil
}

// usageOf is what another process and its children have used. Linux alone tells.
func usageOf(pid string) (usage, error) {
	used := usage{CPU: stack.CPUOf(pid, true), RSS: residentBytesOf(pid)}
	if used.RSS == 0 {
		return used, errors.New("the system does not tell what another process uses")
	}
	for _, child := range stack.ChildrenOf(pid) {
		used.CPU += stack.CPUOf(child, true)
		used.RSS += residentBytesOf(child)
	}
	return used, nil
}

// residentBytes is the process's memory; where the system does not tell, what Go has of it.
func residentBytes() int64 {
	if found := residentBytesOf("self"); found > 0 {
		return found
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Sys - stats.HeapReleased)
}

// residentBytesOf is a process's memory; 0 where the system does not tell, or the process is gone.
func residentBytesOf(pid string) int64 {
	status, _ := os.ReadFile(filepath.Join("/proc", pid, "status"))
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
