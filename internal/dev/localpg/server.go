package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// freePortTries: another program may take a free port between our choice and the start.
const freePortTries = 5

// errPortTaken stands for a server that found its port in use.
var errPortTaken = errors.New("the port is taken")

// FreePort returns a port on 127.0.0.1 that is free now: the one wanted, or any where that is taken or 0.
func FreePort(wanted int) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(wanted)))
	if err != nil && wanted != 0 {
		return FreePort(0)
	}
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// launch starts the server and returns when it answers.
func (c *Cluster) launch(ctx context.Context, s setup, options Options) error {
	for try := 1; ; try++ {
		var err error
		if c.port, err = FreePort(options.Port); err != nil {
			return err
		}
		if err = c.startOnce(ctx, s, options.Settings); !errors.Is(err, errPortTaken) || try == freePortTries {
			return err
		}
	}
}

func (c *Cluster) startOnce(ctx context.Context, s setup, settings map[string]string) error {
	_ = os.Rename(s.logFile, s.logFile+".old") // there is none at the first start
	log, err := os.Create(s.logFile)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// Not the caller's context: the server outlives the start.
	cmd := s.command(context.WithoutCancel(ctx), "postgres", serverArgs(s.data, c.port, settings)...)
	cmd.Stdout, cmd.Stderr = log, log
	if c.gone, err = StartChild(cmd, syscall.SIGINT); err != nil {
		return fmt.Errorf("starting Postgres: %w", err)
	}
	c.process = cmd.Process
	if err := c.awaitReady(ctx); err != nil {
		_ = c.end() // the reason why it did not start matters more
		return explain(err, s.logFile)
	}
	return nil
}

func serverArgs(data string, port int, settings map[string]string) []string {
	args := []string{"-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// awaitReady returns when the server answers, when it exits, or when ctx ends.
func (c *Cluster) awaitReady(ctx context.Context) error {
	for {
		if conn, err := pgx.Connect(ctx, c.DSN(Superuser, "postgres")); err == nil {
			return conn.Close(ctx)
		}
		if c.ended(0) {
			return errors.New("Postgres did not start")
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("Postgres was not ready in time: %w", err)
		}
	}
}

// explain adds the server's own message.
func explain(err error, logFile string) error {
	text, _ := os.ReadFile(logFile) // without it there is less to say
	log := string(text)
	if strings.Contains(log, "Address already in use") {
		return errPortTaken
	}
	if _, fatal, found := strings.Cut(log, "FATAL:"); found {
		log, _, _ = strings.Cut(fatal, "\n")
	}
	return fmt.Errorf("%w: %s (log: %s)", err, lastLine(log), logFile)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// end ends the server with stronger and stronger signals: SIGINT is Postgres's fast shutdown, SIGQUIT an immediate one
// that the next start recovers from.
func (c *Cluster) end() error {
	for _, step := range []struct {
		signal   os.Signal
		patience time.Duration
	}{
		{syscall.SIGINT, 30 * time.Second},
		{syscall.SIGQUIT, 10 * time.Second},
		{syscall.SIGKILL, 10 * time.Second},
	} {
		_ = c.process.Signal(step.signal) // fails when it has ended
		if c.ended(step.patience) {
			return nil
		}
	}
	return fmt.Errorf("the Postgres process %d does not end", c.process.Pid)
}

// ended reports whether the server ends in a time.
func (c *Cluster) ended(within time.Duration) bool {
	select {
	case <-c.gone:
		return true
	case <-time.After(within):
		return false
	}
}

// endOrphan ends the server of an owner that was killed. A pid file that names another program by now, as after the
// machine was restarted, is removed: the server would take that program for another server. Without /proc no program can
// tell, and it is left to the server to refuse.
func endOrphan(ctx context.Context, data string) error {
	if target, err := filepath.EvalSymlinks(data); err == nil {
		data = target
	}
	file := filepath.Join(data, "postmaster.pid")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, noProc := os.Stat("/proc/self"); err != nil || noProc != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	for err == nil && serves(pid, data) {
		_ = syscall.Kill(pid, syscall.SIGINT) // it may have ended just now
		if err := pause(ctx); err != nil {
			return fmt.Errorf("the Postgres process %d in %s does not end: %w", pid, data, err)
		}
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// serves reports whether a process is the server of data. One that is dead but not yet waited for has an empty command
// line.
func serves(pid int, data string) bool {
	line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")) // none for a process that is gone
	return slices.Contains(strings.Split(string(line), "\x00"), data)
}
