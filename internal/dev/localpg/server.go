package localpg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// freePortTries: another program may take a free port between our choice and the start.
	freePortTries = 5
	// logLimit is the size, in bytes, at which the server's log starts afresh.
	logLimit = 16 << 20
	// maxSocketPath is what fits in the address of a Unix socket on every system.
	maxSocketPath = 103
)

// errPortTaken stands for a server that found its port in use.
var errPortTaken = errors.New("the port is taken")

// server is a running postmaster, our child or adopted.
type server struct {
	pid int
	// ended reports whether the process is gone.
	ended func() bool
}

// launch starts the server and returns when it answers.
func launch(ctx context.Context, s setup, options Options) (*server, int, error) {
	for try := 1; ; try++ {
		port, err := FreePort(options.Port)
		if err == nil {
			var started *server
			if started, err = startOn(ctx, s, port, options.Settings); err == nil {
				return started, port, nil
			}
		}
		switch {
		case !errors.Is(err, errPortTaken):
			return nil, 0, err
		case options.Port != 0:
			return nil, 0, fmt.Errorf("port %d on 127.0.0.1 is taken by another program: set DEV_POSTGRES_PORT to another port, or DATABASE_URL to a Postgres "+
				"that is running", options.Port)
		case try == freePortTries:
			return nil, 0, err
		}
	}
}

// FreePort returns a port on 127.0.0.1 that is free now: the one wanted, or any for 0.
func FreePort(wanted int) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(wanted)))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func startOn(ctx context.Context, s setup, port int, settings map[string]string) (*server, error) {
	log, err := openLog(s.logFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	from, err := log.Seek(0, 2)
	if err != nil {
		return nil, err
	}
	// Not the caller's context: the server outlives the start.
	cmd := s.command(context.WithoutCancel(ctx), "postgres", serverArgs(s.data, port, settings)...)
	cmd.Stdout, cmd.Stderr = log, log
	gone, err := StartChild(cmd, syscall.SIGINT)
	if err != nil {
		return nil, fmt.Errorf("starting Postgres: %w", err)
	}
	started := &server{pid: cmd.Process.Pid, ended: func() bool { return isClosed(gone) }}
	if err := started.awaitReady(ctx, port); err != nil {
		_ = started.stop()
		return nil, explain(err, s.logFile, from)
	}
	return started, nil
}

func serverArgs(data string, port int, settings map[string]string) []string {
	socketDir := data // 0700: the socket is for the cluster's own user
	if len(data)+len("/.s.PGSQL.65535") > maxSocketPath {
		socketDir = ""
	}
	args := []string{
		"-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + socketDir,
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

func openLog(path string) (*os.File, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		flags |= os.O_TRUNC
	}
	return os.OpenFile(path, flags, 0o600)
}

// awaitReady returns when the server answers a query, when it exits, or when ctx ends.
func (s *server) awaitReady(ctx context.Context, port int) error {
	for {
		if conn, err := pgx.Connect(ctx, dsn(port, Superuser, "postgres")); err == nil {
			return conn.Close(ctx)
		}
		if s.ended() {
			return errors.New("Postgres did not start")
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("Postgres was not ready in time: %w", err)
		}
	}
}

// explain adds the server's own message, from the part of its log that this start wrote.
func explain(err error, logFile string, from int64) error {
	text, readErr := os.ReadFile(logFile)
	if readErr != nil || int64(len(text)) < from {
		return err
	}
	log := string(text[from:])
	if strings.Contains(log, "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("%w: %s (log: %s)", err, fatalLine(log), logFile)
}

// fatalLine is the first line that says FATAL, or the last one.
func fatalLine(log string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "FATAL") {
			return strings.TrimSpace(line)
		}
	}
	return lastLine(log)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// stop ends the server with stronger and stronger signals: SIGINT is Postgres's fast shutdown, SIGQUIT an
// immediate one that the next start recovers from.
func (s *server) stop() error {
	for _, step := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{
		{syscall.SIGINT, 30 * time.Second},
		{syscall.SIGQUIT, 10 * time.Second},
		{syscall.SIGKILL, 10 * time.Second},
	} {
		// Another process may have the pid of one that is gone.
		if s.ended() {
			return nil
		}
		if err := syscall.Kill(s.pid, step.signal); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		if s.endsWithin(step.patience) {
			return nil
		}
	}
	return fmt.Errorf("the Postgres process %d does not end", s.pid)
}

func (s *server) endsWithin(patience time.Duration) bool {
	// Not the caller's context, which may be cancelled already.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !s.ended() {
		if pause(ctx) != nil {
			return false
		}
	}
	return true
}
