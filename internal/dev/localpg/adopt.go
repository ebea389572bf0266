package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// tryLock takes the lock of an owner. The system releases it when the process ends. It returns nil without an error when
// another process has it.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the Postgres cluster's folder is not ours to use: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// release gives a lock back at once: closing alone would leave it to a child of another goroutine's that has inherited
// the file and not yet begun its own program.
func release(lock *os.File) {
	_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN) // closing does the same a little later
	_ = lock.Close()
}

// pidFile is the content of the file that a postmaster writes into its data folder.
type pidFile struct {
	pid  int
	port int
}

func readPidFile(data string) (pidFile, bool) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return pidFile{}, false
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 4 {
		return pidFile{}, false
	}
	pid, pidErr := strconv.Atoi(strings.TrimSpace(lines[0]))
	port, portErr := strconv.Atoi(strings.TrimSpace(lines[3]))
	return pidFile{pid: pid, port: port}, pidErr == nil && portErr == nil && pid > 0
}

// findReady returns the port of the server that runs on data and answers.
func findReady(ctx context.Context, data string) (int, bool) {
	if target, err := filepath.EvalSymlinks(data); err == nil {
		data = target
	}
	found, ok := readPidFile(data)
	return found.port, ok && serves(ctx, found.port, data)
}

// serves asks the server on a port for its data folder: another program may have the pid or the port by now.
func serves(ctx context.Context, port int, data string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn(port, Superuser, "postgres"))
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	var served string
	if err := conn.QueryRow(ctx, "show data_directory").Scan(&served); err != nil {
		return false
	}
	return served == data
}

// adopt takes over the server that an earlier owner left running on data. It waits for one that still recovers or is
// shutting down. It returns nil without an error when none runs.
func adopt(ctx context.Context, data string) (*server, int, error) {
	for {
		found, ok := readPidFile(data)
		if !ok {
			return nil, 0, nil
		}
		if !runsOn(found.pid, data) {
			return nil, 0, dropStalePidFile(found.pid, data)
		}
		if serves(ctx, found.port, data) {
			ended := func() bool { return !runsOn(found.pid, data) }
			return &server{pid: found.pid, ended: ended}, found.port, nil
		}
		if err := pause(ctx); err != nil {
			return nil, 0, fmt.Errorf("the Postgres process %d in %s neither answers nor ends: %w", found.pid, data, err)
		}
	}
}

// runsOn reports whether a process is the server of data. Without /proc any living process with that pid counts, and
// serves decides.
func runsOn(pid int, data string) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		_, noProc := os.Stat("/proc/self")
		return noProc != nil
	}
	// A zombie, dead but not yet waited for, has an empty command line.
	return slices.Contains(strings.Split(string(line), "\x00"), data)
}

// dropStalePidFile removes a pid file whose pid now belongs to another program: the server would take that for another
// server and refuse to start. The server itself handles the pid of a dead process.
func dropStalePidFile(pid int, data string) error {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return nil
	}
	err := os.Remove(filepath.Join(data, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RemoveAbandoned deletes a cluster whose owner was killed, and stops its server if that still runs. It does nothing
// to one that has an owner. It cleans up after tests that were killed.
func RemoveAbandoned(ctx context.Context, dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	lock, err := tryLock(filepath.Join(dir, "owner.lock"))
	if err != nil || lock == nil {
		return err
	}
	defer release(lock)
	data, err := dataFolder(dir)
	if err != nil {
		return err
	}
	orphan, _, err := adopt(ctx, data)
	if err != nil {
		return err
	}
	if orphan != nil {
		if err := orphan.stop(); err != nil {
			return err
		}
	}
	return removeFiles(dir, data)
}
