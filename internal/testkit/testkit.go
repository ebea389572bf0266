// Package testkit provides tests with the real things around the code: a Postgres database of their own with the
// project's schema, users, access tokens, a transaction pooler, a server that may crash, the offline
// model, and a client of the API that checks every stream it reads. Only _test.go files import it.
//
// A package that uses it says so once:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
// With plain go test, each test process starts a throwaway cluster when its first test needs a database.
// Under make test one cluster, started by the command withpg, serves all of them.
//
// Packages that testkit itself is made of (auth, kit, localpg, supabase) use it from an external test
// package, such as supabase_test.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// PostgresEnv names the cluster that tests use, as its superuser's DSN. Unset, they start their own.
const PostgresEnv = "THROUGHLINE_TEST_POSTGRES"

// startTimeout bounds the start of a cluster or a pooler, and the making and the dropping of a database.
const startTimeout = Patience

// folderPrefix begins the names of the clusters' folders in the system's folder for temporary files.
const folderPrefix = "throughline-pg-"

// underMain tells that Main runs, which stops what the tests start.
var underMain bool

// own starts this process's cluster, where none is named.
var own = sync.OnceValues(func() (string, error) {
	if !underMain {
		return "", errors.New("the package's TestMain does not call testkit.Main, which would stop the cluster")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cluster, err := StartCluster(ctx, 0)
	if err != nil {
		return "", err
	}
	AtEnd(func() {
		if err := cluster.Destroy(); err != nil {
			panic(fmt.Errorf("testkit: removing the cluster: %w", err))
		}
	})
	return cluster.DSN(localpg.Superuser, "postgres"), nil
})

// Main runs a package's tests, stops what they started, and fails them when a goroutine is left
// over. options name goroutines that a library is known to leave behind.
func Main(m *testing.M, options ...goleak.Option) {
	underMain = true
	code := m.Run()
	for _, do := range slices.Backward(atEnd.work) {
		do()
	}
	// After a failed test, leftover goroutines mean nothing.
	if code == 0 {
		if err := goleak.Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, "testkit: goroutines are left over after all tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

var atEnd struct {
	sync.Mutex

	work []func()
}

// AtEnd has something done when all tests of the package are over, the last given first.
func AtEnd(do func()) {
	atEnd.Lock()
	defer atEnd.Unlock()
	atEnd.work = append(atEnd.work, do)
}

// superuserDSN is the address of the cluster's superuser, after starting the cluster if need be.
func superuserDSN() (string, error) {
	if dsn := os.Getenv(PostgresEnv); dsn != "" {
		return dsn, nil
	}
	return own()
}

// StartCluster starts an empty cluster of a major version of Postgres (0: any), fast and not durable. Destroy it.
func StartCluster(ctx context.Context, major int) (cluster *localpg.Cluster, err error) {
	defer kit.Catch(&err)
	binDir := kit.Must(localpg.FindBinaries(major))
	removeAbandoned(ctx)
	dir := kit.Must(newFolder())
	cluster, err = localpg.Start(ctx, localpg.Options{Dir: dir, BinDir: binDir, Settings: map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0",
		"max_connections": "400", "shared_buffers": "256MB", "max_wal_size": "1GB", "autovacuum": "off", "jit": "off",
	}})
	if err != nil {
		_ = os.RemoveAll(dir)
	}
	return cluster, err
}

const (
	// inMemory is a file system in memory, where Linux has one.
	inMemory = "/dev/shm"
	// memoryWanted is what it needs to have free, in bytes: the databases of many tests at once, and their log.
	memoryWanted = 6 << 30
)

// newFolder makes a cluster's folder, which the server's user may enter: in memory if there is room, because a test's
// database is copied and dropped there in a fraction of the time.
func newFolder() (string, error) {
	parent := os.TempDir()
	var free syscall.Statfs_t
	if syscall.Statfs(inMemory, &free) == nil && free.Bavail*uint64(free.Bsize) > memoryWanted {
		parent = inMemory
	}
	dir, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// removeAbandoned deletes the clusters of test runs that were killed. It does not touch one younger than startTimeout:
// its owner may not have its lock yet.
func removeAbandoned(ctx context.Context) {
	for _, parent := range []string{os.TempDir(), inMemory} {
		dirs, _ := filepath.Glob(filepath.Join(parent, folderPrefix+"*")) // fails on a malformed pattern alone
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) >= startTimeout {
				_ = localpg.RemoveAbandoned(ctx, dir) // it may belong to another user
			}
		}
	}
}

// Patience is how long a test waits for what must happen. It is not a bound on speed.
const Patience = 4 * time.Minute

// Eventually polls until what sends no signal holds, and fails the test after Patience. what names it in the failure.
func Eventually(t testing.TB, what string, holds func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); !holds(); <-tick.C {
		require.Falsef(t, time.Now().After(deadline), "in vain: %s", what)
	}
}

// Receive waits for a value from a channel, and fails the test after Patience.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(Patience):
		t.Fatalf("in vain: %s", what)
		panic("unreachable")
	}
}

// check ends a test with an error of what it stands on.
func check(t testing.TB, err error) {
	require.NoError(t, err, "testkit")
}
