// Package localpg runs a private Postgres cluster: its data in a folder of ours, one port on 127.0.0.1, no password, no
// root needed. `dev` and the tests use it; a server in production has a DATABASE_URL.
//
// One process owns a cluster, by a lock on its folder, and stops the server when it ends. The system frees the lock of
// an owner that was killed; the next one waits for the end of a server that still runs, and starts it again.
//
// Postgres refuses to run as root. Started by root, the server runs as the user postgres (or nobody). Where that user
// cannot enter the folder, as in root's home, the data is below /var/lib/throughline, with a link to it in the folder.
//
// Not here: migrations, passwords, remote access, Windows.
package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Superuser is the role that owns the cluster. It is not called postgres, because on Supabase the
// role postgres is no superuser.
const Superuser = "supabase_admin"

// ErrInUse is the error of a cluster whose folder belongs to another process.
var ErrInUse = errors.New("another process runs the Postgres cluster")

// Options say where a cluster lives and how it runs.
type Options struct {
	// Dir is the cluster's folder, made when missing. Required.
	Dir string
	// Port on 127.0.0.1; where that is taken, or for 0, any free one.
	Port int
	// BinDir holds postgres and initdb. "" searches with FindBinaries, for the major version that
	// made the data if there is any.
	BinDir string
	// Settings go to the server as -c name=value, for example fsync=off in tests.
	Settings map[string]string
	// Logger logs starts and stops. nil logs nothing.
	Logger *slog.Logger
}

// Cluster is a running server. Stop it.
type Cluster struct {
	dir     string
	port    int
	lock    *os.File
	process *os.Process
	gone    <-chan struct{} // closed when the process has ended
	log     *slog.Logger

	stop func() error // once
}

// Start starts the cluster in options.Dir, and makes it if there is none. It returns when the server answers, or with
// one sentence about why it cannot. ctx bounds only the start; the server runs until Stop, or on Linux until the process
// that started it is gone.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := makeDir(options.Dir)
	if err != nil {
		return nil, err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, lock: lock, log: options.Logger}
	c.stop = sync.OnceValue(func() error {
		err := c.end()
		release(lock)
		c.log.Info("stopped the cluster", "dir", dir, "port", c.port)
		return err
	})
	if err := c.bringUp(ctx, options); err != nil {
		release(lock)
		return nil, err
	}
	return c, nil
}

func (c *Cluster) bringUp(ctx context.Context, options Options) error {
	s, err := newSetup(c.dir, options.BinDir)
	if err != nil {
		return err
	}
	if err := endOrphan(ctx, s.data); err != nil {
		return err
	}
	if err := s.initialize(ctx, options.Settings["fsync"] != "off"); err != nil {
		return err
	}
	if err := c.launch(ctx, s, options); err != nil {
		return err
	}
	c.log.Info("started a cluster", "dir", c.dir, "port", c.port, "bin", s.binDir)
	return nil
}

// makeDir makes the cluster's folder and returns its absolute path without links, as the server reports its own.
func makeDir(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(absolute, 0o755); err != nil { //nolint:gosec // the server's user has to pass through it
		return "", fmt.Errorf("the Postgres cluster needs its folder: %w", err)
	}
	return filepath.EvalSymlinks(absolute)
}

// takeLock takes the lock of a folder's owner. The system releases it when the process ends.
func takeLock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "owner.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the Postgres cluster's folder is not ours to use: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w in %s", ErrInUse, dir)
	}
	return nil, fmt.Errorf("locking %s: %w", dir, err)
}

// release gives a lock back at once: closing alone would leave it to a child of another goroutine's that has inherited
// the file and not yet begun its own program.
func release(lock *os.File) {
	_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN) // closing does the same a little later
	_ = lock.Close()
}

// Port is the port the server listens on.
func (c *Cluster) Port() int { return c.port }

// DSN is the address of a database for a role. There is no password: every process on this
// machine is trusted.
func (c *Cluster) DSN(user, database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", user, c.port, database)
}

// Stop shuts the server down, rolling open transactions back, and waits until it is gone. Safe to call more than once.
func (c *Cluster) Stop() error { return c.stop() }

// Crash ends the server as `pg_ctl stop -m immediate` does, without a clean shutdown: the next start recovers from the
// log. The folder is free for it when Crash returns.
func (c *Cluster) Crash() error {
	_ = c.process.Signal(syscall.SIGQUIT) // Stop reports a server that does not end
	return c.Stop()
}

// Kill ends the server and all its backends at once, as a machine does that loses its power. The folder is free for Follow or the
// next start when it returns.
func (c *Cluster) Kill() error { return errors.Join(c.Signal(syscall.SIGKILL), c.Stop()) }

// Signal sends the server and all its backends a signal, such as SIGSTOP.
func (c *Cluster) Signal(signal syscall.Signal) error {
	pid := strconv.Itoa(c.process.Pid)
	children, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children")) // Linux alone has it
	for _, process := range append([]string{pid}, strings.Fields(string(children))...) {
		id, _ := strconv.Atoi(process) // the kernel wrote it
		_ = syscall.Kill(id, signal)
	}
	return err
}

// Follow makes the data of a cluster that does not run those of a standby of the primary at dsn, for the next Start: a copy, or
// where there are data of a primary that died, what pg_rewind makes of them.
func Follow(ctx context.Context, options Options, dsn string) error {
	dir, err := makeDir(options.Dir)
	if err != nil {
		return err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	defer release(lock)
	s, err := newSetup(dir, options.BinDir)
	if err != nil {
		return err
	}
	program, args := "pg_basebackup", []string{"-D", s.data, "-d", dsn, "-R", "--checkpoint=fast"}
	if s.dataMajor() != 0 {
		program, args = "pg_rewind", []string{"-D", s.data, "--source-server=" + dsn, "-R"}
		err = endOrphan(ctx, s.data)
	} else {
		err = s.makeData(s.data)
	}
	if err != nil {
		return err
	}
	if out, err := s.command(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// Destroy stops the server and deletes its data and its folder, for tests.
func (c *Cluster) Destroy() error {
	if err := c.Stop(); err != nil {
		return err
	}
	return removeFiles(c.dir)
}

// RemoveAbandoned deletes a cluster whose owner was killed, and ends its server if that still runs. It leaves one that
// has an owner alone. It cleans up after tests that were killed.
func RemoveAbandoned(ctx context.Context, dir string) error {
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	defer release(lock)
	if err := endOrphan(ctx, filepath.Join(dir, "data")); err != nil {
		return err
	}
	return removeFiles(dir)
}

// removeFiles deletes a cluster's folder, and its data where that is elsewhere.
func removeFiles(dir string) error {
	if linked, err := os.Readlink(filepath.Join(dir, "data")); err == nil && linked == linkedData(dir) {
		if err := os.RemoveAll(filepath.Dir(linked)); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// pause waits between two polls for what sends no signal, such as a server that starts, or returns ctx's error.
func pause(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bootstrapLock lets two processes bootstrap one database after each other instead of both at once.
const bootstrapLock = "select pg_advisory_xact_lock(5432215);\n"

// Bootstrap runs a script that may run again, all of it or nothing, in the database that dsn names
// as a superuser.
func Bootstrap(ctx context.Context, dsn, script string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting to bootstrap: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// Statements sent together are one transaction.
	if _, err := conn.PgConn().Exec(ctx, bootstrapLock+script).ReadAll(); err != nil {
		return fmt.Errorf("bootstrapping the database: %w", err)
	}
	return nil
}
