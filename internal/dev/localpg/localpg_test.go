package localpg

import (
	"context"
	"errors"
	"fmt"
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
	cluster, err := Start(context.Background(), Options{Dir: dir, Root: "../../..", Settings: fast})
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
			dir, err := FindBinaries("../../..", major)
			if err != nil {
				t.Skip(err)
			}
			test(t, dir)
		})
	}
}

// folder is one that the server's user can enter, unlike t.TempDir's under root.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func start(t *testing.T, options Options) *Cluster {
	t.Helper()
	if options.Settings == nil {
		options.Settings = fast
	}
	options.Root = "../../.."
	cluster, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var answer string
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
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
		if got := query(t, dsn, "select current_setting('fsync') || current_setting('TimeZone') || lower('ÄÉ')"); got != "offUTCäé" {
			t.Errorf("settings, time zone, letters: %q", got)
		}
		if err := Bootstrap(t.Context(), dsn, "create table kept (id int)"); err != nil {
			t.Fatal(err)
		}
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		if answers(first.Port()) {
			t.Error("the server answers after Stop")
		}
		// Without BinDir the version that made the data is found again, whatever else is installed.
		second := start(t, Options{Dir: dir})
		if got := query(t, second.DSN(Superuser, "postgres"), "select to_regclass('kept')::text"); got != "kept" {
			t.Errorf("the table is %q after a restart", got)
		}
	})
}

func TestStopWorksAfterItsContextWasCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cluster, err := Start(ctx, Options{Dir: folder(t), Root: "../../..", Settings: fast})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if !answers(cluster.Port()) {
		t.Error("the server went with the context of its start")
	}
	if err := errors.Join(cluster.Stop(), cluster.Stop()); err != nil || answers(cluster.Port()) {
		t.Errorf("after Stop: %v, answers: %v", err, answers(cluster.Port()))
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := folder(t)
	if cluster, err := Start(ctx, Options{Dir: dir, Root: "../../..", Settings: fast}); err == nil {
		_ = cluster.Stop()
		t.Fatal("started under a cancelled context")
	}
	start(t, Options{Dir: dir}) // and the folder is as good as new
}

func TestSecondOwnerJoinsAsGuest(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	owner := start(t, Options{Dir: dir})
	guest := start(t, Options{Dir: dir})
	if guest.Port() != owner.Port() {
		t.Fatalf("the guest uses port %d, the owner %d", guest.Port(), owner.Port())
	}
	if err := guest.Stop(); err != nil || !answers(owner.Port()) {
		t.Errorf("a guest's Stop: %v, server answers: %v", err, answers(owner.Port()))
	}
	if guest.Destroy() == nil {
		t.Error("a guest destroyed its host's data")
	}
}

func TestSimultaneousStartsShareOneServer(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	clusters := make(chan *Cluster, 3)
	for range cap(clusters) {
		go func() {
			cluster, err := Start(t.Context(), Options{Dir: dir, Root: "../../..", Settings: fast})
			if err != nil {
				t.Error(err)
			}
			clusters <- cluster
		}()
	}
	ports := map[int]bool{}
	var all []*Cluster
	for range cap(clusters) {
		if cluster := <-clusters; cluster != nil {
			ports[cluster.Port()] = true
			all = append(all, cluster)
		}
	}
	for _, cluster := range all {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}
	if len(ports) != 1 || len(all) != 3 {
		t.Errorf("%d clusters on ports %v", len(all), ports)
	}
}

func TestOrphanIsAdoptedAndStopped(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	owner := start(t, Options{Dir: dir})
	// What is left when an owner dies where the kernel does not tell its children: a server, no lock.
	release(owner.lock)
	heir := start(t, Options{Dir: dir})
	if heir.server == nil || heir.server.pid != owner.server.pid || heir.Port() != owner.Port() {
		t.Fatalf("the orphan was not adopted: %+v", heir.server)
	}
	if err := heir.Stop(); err != nil || answers(heir.Port()) {
		t.Errorf("Stop of the adopted: %v, answers: %v", err, answers(heir.Port()))
	}
}

func TestOnlyAbandonedClustersAreRemoved(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	owner := start(t, Options{Dir: dir})
	if err := RemoveAbandoned(t.Context(), dir); err != nil || !answers(owner.Port()) {
		t.Fatalf("a cluster with an owner: %v, answers: %v", err, answers(owner.Port()))
	}
	release(owner.lock) // as if the owner had been killed
	if err := RemoveAbandoned(t.Context(), dir); err != nil || answers(owner.Port()) {
		t.Errorf("without: %v, answers: %v", err, answers(owner.Port()))
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is still there")
	}
}

func TestKilledOwnerLeavesAFolderThatStartsAgain(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, binDir string) {
		dir := folder(t)
		owner := exec.Command(os.Args[0])
		owner.Env = append(os.Environ(), ownerEnv+"="+dir, binEnv+"="+binDir)
		owner.Stderr = os.Stderr
		out, err := owner.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := owner.Start(); err != nil {
			t.Fatal(err)
		}
		var port int
		if _, err := fmt.Fscan(out, &port); err != nil || !answers(port) {
			t.Fatalf("the owner's server: %v", err)
		}
		_ = owner.Process.Kill()
		_ = owner.Wait()
		next := start(t, Options{Dir: dir, BinDir: binDir})
		if got := query(t, next.DSN(Superuser, "postgres"), "select 'up'"); got != "up" {
			t.Error(got)
		}
	})
}

func TestKilledServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first := start(t, Options{Dir: dir})
	if err := syscall.Kill(first.server.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !first.server.endsWithin(time.Minute) {
		t.Fatal("the killed server still runs")
	}
	if err := first.Stop(); err != nil {
		t.Fatalf("Stop of a dead server: %v", err)
	}
	start(t, Options{Dir: dir})
}

func TestPidFileOfAnotherProgramIsNoObstacle(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first := start(t, Options{Dir: dir})
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	stranger := fmt.Sprintf("%d\n%s/data\n1\n1\n\n127.0.0.1\n1 1\nready\n", os.Getppid(), dir)
	if err := os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stranger), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: dir})
}

func TestTakenPortIsOneClearSentence(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).Port
	_, err = Start(t.Context(), Options{Dir: folder(t), Port: port, Root: "../../..", Settings: fast})
	if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("port %d on 127.0.0.1 is taken", port)) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestBadSettingSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{Dir: folder(t), Root: "../../..", Settings: map[string]string{"fsync": "off", "no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
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
		if err := errors.Join(<-done, <-done, Bootstrap(t.Context(), dsn, supabase.BootstrapSQL)); err != nil {
			t.Fatal(err)
		}
		asPostgres := cluster.DSN("postgres", "postgres")
		claims := `select set_config('request.jwt.claims', '{"sub":"00000000-0000-0000-0000-000000000007"}', false)`
		if got := query(t, asPostgres, "with c as materialized ("+claims+") select auth.uid()::text from c"); !strings.HasSuffix(got, "7") {
			t.Errorf("auth.uid() is %q", got)
		}
		if got := query(t, asPostgres, "select rolsuper::text from pg_roles where rolname = current_user"); got != "false" {
			t.Error("postgres is a superuser")
		}
		if err := Bootstrap(t.Context(), dsn, "create table half (id int); select 1/0"); err == nil {
			t.Error("a failing script is no error")
		}
		if got := query(t, dsn, "select coalesce(to_regclass('half')::text, 'none')"); got != "none" {
			t.Error("a failing script left something behind")
		}
	})
}
