// Package localpg runs a private Postgres cluster: its data in a folder of ours, one port on 127.0.0.1, no password, no
// root needed. `dev` and the tests use it; a server in production has a DATABASE_URL.
//
// One process owns a cluster at a time and holds a lock on its folder. A second process joins as a guest; only the owner
// stops the server. An owner that was killed leaves the lock free: the next one adopts a server that still runs, or
// starts it again.
//
// Postgres refuses to run as root. Started by root, the server runs as the user postgres (or
// nobody), and what that user cannot reach, such as a clone in root's home, is in
// /var/lib/throughline instead, with a link to it in the folder.
//
// Not here: any read of the source tree, migrations, passwords, remote access, Windows.
package localpg

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Superuser is the role that owns the cluster. It is not called postgres, because on Supabase the
// role postgres is no superuser.
const Superuser = "supabase_admin"

// pollEvery is the interval of polls for what sends no signal: another process's lock, a server that starts.
const pollEvery = 50 * time.Millisecond

// Options say where a cluster lives and how it runs.
type Options struct {
	// Dir is the cluster's folder, made when missing. Required.
	Dir string
	// Port on 127.0.0.1; 0 takes any free one.
	Port int
	// BinDir holds postgres and initdb. "" searches with FindBinaries, for the major version that
	// made the data if there is any.
	BinDir string
	// Root is the folder whose .local that search includes, as in FindBinaries.
	Root string
	// Settings go to the server as -c name=value, for example fsync=off in tests.
	Settings map[string]string
	// Logger logs starts, adoptions and stops. nil logs nothing.
	Logger *slog.Logger
}

// Cluster is a running server. Stop it.
type Cluster struct {
	dir    string
	data   string
	port   int
	server *server  // nil for a guest
	lock   *os.File // held by the owner; nil for a guest
	log    *slog.Logger

	stopOnce sync.Once
	stopErr  error
}

// Start returns a running cluster in options.Dir: a new one, or the one that already runs there. It
// returns when the server answers, or with one sentence about why it cannot. ctx bounds only the
// start; the server runs until Stop, or on Linux until the process that started it is gone.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := makeDir(options.Dir)
	if err != nil {
		return nil, err
	}
	for {
		lock, err := tryLock(filepath.Join(dir, "owner.lock"))
		if err != nil {
			return nil, err
		}
		if lock != nil {
			return startAsOwner(ctx, dir, options, lock)
		}
		if port, ok := findReady(ctx, filepath.Join(dir, "data")); ok {
			options.Logger.Info("joined a running cluster", "dir", dir, "port", port)
			return &Cluster{dir: dir, data: filepath.Join(dir, "data"), port: port, log: options.Logger}, nil
		}
		// Its owner is starting or stopping it.
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("waiting for the process that owns the Postgres cluster in %s: %w", dir, err)
		}
	}
}

// startAsOwner starts or adopts the cluster. It releases the lock on failure.
func startAsOwner(ctx context.Context, dir string, options Options, lock *os.File) (*Cluster, error) {
	c := &Cluster{dir: dir, lock: lock, log: options.Logger}
	if err := c.bringUp(ctx, options); err != nil {
		release(lock)
		return nil, err
	}
	return c, nil
}

func (c *Cluster) bringUp(ctx context.Context, options Options) error {
	s, err := newSetup(ctx, c.dir, options)
	if err != nil {
		return err
	}
	c.data = s.data
	adopted, port, err := adopt(ctx, s.data)
	if err != nil {
		return err
	}
	if adopted != nil {
		c.server, c.port = adopted, port
		c.log.Info("adopted a running cluster", "dir", c.dir, "port", port)
		return nil
	}
	if err := s.initialize(ctx, options.Settings["fsync"] != "off"); err != nil {
		return err
	}
	c.server, c.port, err = launch(ctx, s, options)
	if err == nil {
		c.log.Info("started a cluster", "dir", c.dir, "port", c.port, "bin", s.binDir)
	}
	return err
}

// Port is the port the server listens on. For an adopted cluster it may differ from Options.Port.
func (c *Cluster) Port() int { return c.port }

// DSN is the address of a database for a role. There is no password: every process on this
// machine is trusted.
func (c *Cluster) DSN(user, database string) string { return dsn(c.port, user, database) }

func dsn(port int, user, database string) string {
	address := url.URL{
		Scheme:   "postgres",
		User:     url.User(user),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return address.String()
}

// Stop shuts the server down, rolling open transactions back, and waits until it is gone. A guest's
// Stop leaves the server to its owner. Safe to call more than once.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		if c.server == nil {
			return
		}
		c.stopErr = c.server.stop()
		release(c.lock)
		c.log.Info("stopped the cluster", "dir", c.dir, "port", c.port)
	})
	return c.stopErr
}

// Crash ends the server as `pg_ctl stop -m immediate` does, without a clean shutdown: the next start recovers from the
// log. The folder is free for it when Crash returns.
func (c *Cluster) Crash() error {
	if c.server == nil {
		return fmt.Errorf("the cluster in %s belongs to another process", c.dir)
	}
	if !c.server.ended() {
		_ = syscall.Kill(c.server.pid, syscall.SIGQUIT) // Stop reports a server that does not end
	}
	return c.Stop()
}

// Destroy stops the server and deletes its data and its folder, for tests. A guest may not.
func (c *Cluster) Destroy() error {
	if c.server == nil {
		return fmt.Errorf("the cluster in %s belongs to another process", c.dir)
	}
	if err := c.Stop(); err != nil {
		return err
	}
	return removeFiles(c.dir, c.data)
}

// removeFiles deletes a cluster's folder, and the data's own where that is elsewhere.
func removeFiles(dir, data string) error {
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if home := filepath.Dir(data); home != dir {
		if err := os.RemoveAll(home); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// pause waits for pollEvery, or returns ctx's error.
func pause(ctx context.Context) error {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
