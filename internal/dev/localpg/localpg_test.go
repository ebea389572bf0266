package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/arcoscribe/throughline/supabase"
)

// ownerEnv makes this test binary an owner that starts a cluster in the folder it names and waits to
// be killed.
const ownerEnv = "LOCALPG_TEST_OWNER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerEnv); dir != "" {
		beOwner(dir)
	}
	goleak.VerifyTestMain(m)
}

func beOwner(dir string) {
	cluster, err := Start(context.Background(), Options{Dir: dir, Settings: fast})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cluster.Port())
	select {}
}

// fast trades durability, which no test of ours needs, for speed.
var fast = map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

// eachMajor runs a test on the Postgres versions the project promises, as far as they are installed.
func eachMajor(t *testing.T, test func(t *testing.T, binDir string)) {
	for _, major := range []int{15, 17} {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			dir, err := FindBinaries(major)
			if err != nil {
				t.Skip(err)
			}
			test(t, dir)
		})
	}
}

// folder is one that the server's user can enter, unlike t.TempDir's under root.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "localpg-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func start(t *testing.T, options Options) *Cluster {
	if options.Settings == nil {
		options.Settings = fast
	}
	cluster, err := Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, cluster.Stop())
	})
	return cluster
}

func query(t *testing.T, dsn, sql string) string {
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var answer string
	require.NoErrorf(t, conn.QueryRow(t.Context(), sql).Scan(&answer), "%s", sql)
	return answer
}

func answers(port int) bool {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func TestDataOutlivesStopAndStart(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, binDir string) {
		dir := filepath.Join(folder(t), "deep", "postgres")
		first := start(t, Options{Dir: dir, BinDir: binDir})
		dsn := first.DSN(Superuser, "postgres")
		assert.Equal(t, "offUTCäé", query(t, dsn, "select current_setting('fsync') || current_setting('TimeZone') || lower('ÄÉ')"),
			"settings, time zone, letters")
		require.NoError(t, Bootstrap(t.Context(), dsn, "create table kept (id int)"))
		require.NoError(t, first.Stop())
		assert.False(t, answers(first.Port()), "the server answers after Stop")
		// Without BinDir the version that made the data is found again, beside any other that is installed.
		second := start(t, Options{Dir: dir})
		got := query(t, second.DSN(Superuser, "postgres"), "select to_regclass('kept')::text")
		assert.Truef(t, got == "kept", "the table is %q after a restart", got)
	})
}

func TestContextBoundsTheStartAlone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := folder(t)
	cluster, err := Start(ctx, Options{Dir: dir, Settings: fast})
	require.NoError(t, err)
	cancel()
	assert.True(t, answers(cluster.Port()), "the server went with the context of its start")
	if err := errors.Join(cluster.Stop(), cluster.Stop()); err != nil || answers(cluster.Port()) {
		t.Errorf("after Stop: %v, answers: %v", err, answers(cluster.Port()))
	}
	if cluster, err := Start(ctx, Options{Dir: dir, Settings: fast}); err == nil {
		_ = cluster.Stop()
		t.Fatal("started under a cancelled context")
	}
	start(t, Options{Dir: dir}) // and the folder is as good as new
}

func TestOneOwner(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	owner := start(t, Options{Dir: dir})
	second, err := Start(t.Context(), Options{Dir: dir, Settings: fast})
	require.Truef(t, errors.Is(err, ErrInUse) && strings.Contains(err.Error(), dir), "a second owner: %v, %v", second, err)
	if err := RemoveAbandoned(t.Context(), dir); !errors.Is(err, ErrInUse) || !answers(owner.Port()) {
		t.Fatalf("removed while it has an owner: %v, answers: %v", err, answers(owner.Port()))
	}
	// The rest when an owner dies where the kernel does not tell its children: a server, no lock.
	release(owner.lock)
	heir := start(t, Options{Dir: dir})
	assert.True(t, owner.ended(time.Minute) && answers(heir.Port()),
		"the next owner did not replace the server that was left")
	release(heir.lock)
	if err := RemoveAbandoned(t.Context(), dir); err != nil || answers(heir.Port()) {
		t.Errorf("removed without an owner: %v, answers: %v", err, answers(heir.Port()))
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the folder is still there")
	}
}

func TestKilledOwnerLeavesAFolderThatStartsAgain(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+dir)
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	var port int
	if _, err := fmt.Fscan(out, &port); err != nil || !answers(port) {
		t.Fatalf("the owner's server: %v", err)
	}
	_ = owner.Process.Kill()
	_ = owner.Wait()
	next := start(t, Options{Dir: dir})
	assert.Equal(t, "up", query(t, next.DSN(Superuser, "postgres"), "select 'up'"))
}

// Neither the end of a server nor the pid file of one, which names another program by now, is in the way of the next.
func TestKilledServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first := start(t, Options{Dir: dir})
	require.NoError(t, first.process.Kill())
	<-first.gone
	require.NoError(t, first.Stop(), "Stop of a dead server")
	stranger := fmt.Sprintf("%d\n%s/data\n1\n1\n\n127.0.0.1\n1 1\nready\n", os.Getppid(), dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stranger), 0o600))
	start(t, Options{Dir: dir})
}

func TestAnotherPortWhereOneIsTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	taken := listener.Addr().(*net.TCPAddr).Port
	cluster := start(t, Options{Dir: folder(t), Port: taken})
	got := query(t, cluster.DSN(Superuser, "postgres"), "select current_setting('port')")
	assert.Truef(t, got != strconv.Itoa(taken) && got == strconv.Itoa(cluster.Port()),
		"the server is on port %s, and %d was taken", got, taken)
}

func TestBadSettingSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{Dir: folder(t), Settings: map[string]string{"fsync": "off", "no_such_setting": "1"}})
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "no_such_setting") && !strings.Contains(err.Error(), "\n"),
		"got %v", err)
}

// A folder that the server's user cannot enter, such as a clone in root's home, has its data elsewhere, for as long as
// it has the link to it.
func TestClosedFolderKeepsItsDataElsewhere(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a server started by root runs as another user")
	}
	closed := filepath.Join(folder(t), "home")
	dir := filepath.Join(closed, "clone", ".local", "postgres")
	require.NoError(t, os.Mkdir(closed, 0o700))
	var cluster *Cluster
	for _, want := range []string{"none", "kept", "none"} {
		cluster = start(t, Options{Dir: dir})
		dsn := cluster.DSN(Superuser, "postgres")
		assert.Equal(t, want, query(t, dsn, "select coalesce(to_regclass('kept')::text, 'none')"), "the table")
		assert.Equal(t, linkedData(dir), query(t, dsn, "show data_directory"), "the data is in")
		require.NoError(t, Bootstrap(t.Context(), dsn, "create table if not exists kept (id int)"))
		require.NoError(t, cluster.Stop())
		if want == "kept" {
			_ = os.RemoveAll(dir) // a new folder of the same name does not have the old one's data
		}
	}
	copied := folder(t)
	require.NoError(t, os.Symlink(linkedData(dir), filepath.Join(copied, "data")))
	got, err := place(copied, &syscall.Credential{})
	assert.Truef(t, err == nil && got == filepath.Join(copied, "data"),
		"the link of a copied folder is followed: %q, %v", got, err)
	require.NoError(t, cluster.Destroy())
	_, err = os.Stat(linkedData(dir))
	assert.ErrorIs(t, err, fs.ErrNotExist, "the data is still there")
}

func TestBootstrapRunsTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, binDir string) {
		cluster := start(t, Options{Dir: folder(t), BinDir: binDir})
		dsn := cluster.DSN(Superuser, "postgres")
		done := make(chan error, 2)
		for range cap(done) {
			go func() { done <- Bootstrap(t.Context(), dsn, supabase.BootstrapSQL) }()
		}
		require.NoError(t, errors.Join(<-done, <-done, Bootstrap(t.Context(), dsn, supabase.BootstrapSQL)))
		asPostgres := cluster.DSN("postgres", "postgres")
		claims := `select set_config('request.jwt.claims', '{"sub":"00000000-0000-0000-0000-000000000007"}', false)`
		got := query(t, asPostgres, "with c as materialized ("+claims+") select auth.uid()::text from c")
		assert.Truef(t, strings.HasSuffix(got, "7"), "auth.uid() is %q", got)
		assert.Equal(t, "false", query(t, asPostgres, "select rolsuper::text from pg_roles where rolname = current_user"),
			"postgres is a superuser")
		assert.Error(t, Bootstrap(t.Context(), dsn, "create table half (id int); select 1/0"),
			"a failing script is no error")
		assert.Equal(t, "none", query(t, dsn, "select coalesce(to_regclass('half')::text, 'none')"),
			"a failing script left something behind")
	})
}
