package localpg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// freePortTries: between choosing a free port and listening on it, somebody else may.
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
	// gone is closed when the process is, for a child.
	gone chan struct{}
	// alive asks whether an adopted process still runs.
	alive func() bool
}

// launch starts the server and returns when it answers.
func launch(ctx context.Context, p place, options Options) (*server, int, error) {
	if options.Port != 0 {
		if !portFree(options.Port) {
			return nil, 0, portTaken(options.Port)
		}
		s, err := startOn(ctx, p, options.Port, options.Settings)
		if errors.Is(err, errPortTaken) {
			err = portTaken(options.Port)
		}
		return s, options.Port, err
	}
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, 0, err
		}
		s, err := startOn(ctx, p, port, options.Settings)
		if err == nil || !errors.Is(err, errPortTaken) || try == freePortTries {
			return s, port, err
		}
	}
}

func portTaken(port int) error {
	return fmt.Errorf("port %d on 127.0.0.1 is taken by another program: stop it, or set DATABASE_URL to use a Postgres that is running", port)
}

func portFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

func startOn(ctx context.Context, p place, port int, settings map[string]string) (*server, error) {
	log, err := openLog(p.logFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	from, err := log.Seek(0, 2)
	if err != nil {
		return nil, err
	}
	// Not the caller's context: the server outlives the start.
	cmd := p.command(context.WithoutCancel(ctx), "postgres", serverArgs(p.data, port, settings)...)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd.SysProcAttr)
	s, err := spawn(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting Postgres: %w", err)
	}
	if err := s.awaitReady(ctx, port); err != nil {
		_ = s.stop()
		return nil, explain(err, p.logFile, from)
	}
	return s, nil
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

// spawn starts the child and waits for it in a thread of its own: on Linux the child is told of its
// parent's end when the thread that started it ends, so that thread has to live as long as it does.
func spawn(cmd *exec.Cmd) (*server, error) {
	s := &server{gone: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(s.gone)
		stayOnThread()
		err := cmd.Start()
		if err == nil {
			s.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // its reasons are in its log
		}
	}()
	return s, <-started
}

// awaitReady returns when the server answers a query, when it exits, or when ctx ends.
func (s *server) awaitReady(ctx context.Context, port int) error {
	for {
		if conn, err := pgx.Connect(ctx, dsn(port, Superuser, "postgres")); err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.gone:
			return errors.New("Postgres did not start")
		default:
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("Postgres was not ready in time: %w", err)
		}
	}
}

// explain adds what the server itself said last, from the offset where this start's log begins.
func explain(err error, logFile string, from int64) error {
	text, readErr := os.ReadFile(logFile)
	if readErr != nil || int64(len(text)) < from {
		return err
	}
	said := string(text[from:])
	if strings.Contains(said, "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("%w: %s (log: %s)", err, fatalLine(said), logFile)
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

// stop ends the server by ever stronger means: SIGINT is Postgres's fast shutdown, SIGQUIT an
// immediate one that the next start recovers from.
func (s *server) stop() error {
	for _, step := range []struct {
		signal  syscall.Signal
		patient time.Duration
	}{
		{syscall.SIGINT, 30 * time.Second},
		{syscall.SIGQUIT, 10 * time.Second},
		{syscall.SIGKILL, 10 * time.Second},
	} {
		// The number of a process that is gone may be another's by now.
		if s.ended() {
			return nil
		}
		if err := syscall.Kill(s.pid, step.signal); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		if s.endsWithin(step.patient) {
			return nil
		}
	}
	return fmt.Errorf("the Postgres process %d does not end", s.pid)
}

// crash tells the postmaster to end all of its processes at once; stop waits for it.
func (s *server) crash() error {
	if s.ended() {
		return nil
	}
	if err := syscall.Kill(s.pid, syscall.SIGQUIT); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// ended tells whether the process is gone.
func (s *server) ended() bool {
	if s.gone == nil {
		return !s.alive()
	}
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

func (s *server) endsWithin(patient time.Duration) bool {
	// The caller's context may be cancelled already; a shutdown has its own time.
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if s.gone != nil {
		select {
		case <-s.gone:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for s.alive() {
		if pause(ctx) != nil {
			return false
		}
	}
	return true
}
