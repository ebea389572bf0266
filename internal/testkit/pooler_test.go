package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A pass through the pooler that went past it would prove nothing, and neither would one in session mode. These
// tests hold the databases that a pass hands out to it.

// passedOn tells whether somebody stands between a connection and its backend, which sees another port then.
func passedOn(t *testing.T, conn *pgx.Conn) bool {
	t.Helper()
	ours := conn.PgConn().Conn().LocalAddr().(*net.TCPAddr).Port
	return Ask[int](t, conn, "select inet_client_port()") != ours
}

func TestDatabasesAreReachedAsThePassSays(t *testing.T) {
	t.Parallel()
	pooled := os.Getenv(PoolerEnv) != ""
	for name, database := range map[string]Database{"migrated": NewDatabase(t), "empty": NewEmptyDatabase(t), "server": NewServer(t).Database} {
		if got := passedOn(t, Connect(t, database.DSN)); got != pooled || database.Pooled() != pooled {
			t.Errorf("%s: through a pooler %v, and says %v, want %v", name, got, database.Pooled(), pooled)
		}
		for _, dsn := range []string{database.Direct(), database.AdminDSN} {
			if passedOn(t, Connect(t, dsn)) {
				t.Errorf("%s: %s leads through a pooler", name, dsn)
			}
		}
	}
}

// poolers are a test's own, and the pass's where there is one.
func poolers(t *testing.T, database Database) map[string]string {
	t.Helper()
	found := map[string]string{"own": NewTransactionPooler(t, database)}
	if database.Pooled() {
		found["of the pass"] = database.DSN
	}
	return found
}

// Of two transactions of one client, the second is on another backend when somebody else took the first's.
func TestPoolerGivesConnectionsToTransactions(t *testing.T) {
	t.Parallel()
	database := NewDatabase(t)
	for name, dsn := range poolers(t, database) {
		client, other := Connect(t, dsn), Connect(t, dsn)
		first := Ask[int](t, client, "select pg_backend_pid()")
		held, err := other.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := Ask[int](t, held, "select pg_backend_pid()"); got != first {
			t.Errorf("%s: the other client got backend %d, not %d, which nobody uses", name, got, first)
		}
		if second := Ask[int](t, client, "select pg_backend_pid()"); second == first {
			t.Errorf("%s: both clients have backend %d", name, first)
		}
		if err := held.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// More clients than connections all get their turns. In session mode the rest would wait for ever.
func TestPoolerSharesConnections(t *testing.T) {
	t.Parallel()
	const clients = 3 * PoolSize
	database := NewDatabase(t)
	for name, dsn := range poolers(t, database) {
		backends := make(chan int, clients)
		conns := make([]*pgx.Conn, clients)
		for i := range conns {
			conns[i] = Connect(t, dsn)
		}
		var all sync.WaitGroup
		for _, conn := range conns {
			all.Go(func() { backends <- Ask[int](t, conn, "select pg_backend_pid()") })
		}
		all.Wait()
		close(backends)
		seen := map[int]bool{}
		for pid := range backends {
			seen[pid] = true
		}
		if len(seen) == 0 || len(seen) > PoolSize {
			t.Errorf("%s: %d clients were on %d backends, want at most %d", name, clients, len(seen), PoolSize)
		}
	}
}

// What breaks behind the real one breaks here: a named statement is on a backend that is another's by now.
func TestPoolerLosesNamedStatements(t *testing.T) {
	t.Parallel()
	database := NewDatabase(t)
	for name, dsn := range poolers(t, database) {
		client, other := Connect(t, dsn), Connect(t, dsn)
		if _, err := client.Prepare(t.Context(), "p", "select 1"); err != nil {
			t.Fatal(err)
		}
		held, err := other.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Exec(t.Context(), "execute p", pgx.QueryExecModeSimpleProtocol)
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "26000" { // invalid_sql_statement_name
			t.Errorf("%s: a statement that was prepared on another backend: %v", name, err)
		}
		if err := held.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// What is held for a session stays behind on the backend, for whoever comes next. A setting of the transaction
// does not.
func TestPoolerLeavesSessionsBehind(t *testing.T) {
	t.Parallel()
	database := NewDatabase(t)
	for name, dsn := range poolers(t, database) {
		client, other := Connect(t, dsn), Connect(t, dsn)
		Exec(t, client, "select set_config('throughline.left', 'behind', false), set_config('throughline.taken', 'along', true)")
		if got := Ask[string](t, other,
			"select concat_ws(', ', nullif(current_setting('throughline.left', true), ''), nullif(current_setting('throughline.taken', true), ''))"); got != "behind" {
			t.Errorf("%s: the next client finds %q", name, got)
		}
	}
}

func TestPoolerCountsWhatItServed(t *testing.T) {
	t.Parallel()
	used := NewDatabase(t)
	pooler, err := StartPooler(t.Context(), used.AdminDSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pooler.Stop)
	conn := Connect(t, throughPooler(pooler.Address, used.Direct()))
	for range 7 {
		Exec(t, conn, "select 1", pgx.QueryExecModeSimpleProtocol)
	}
	served, err := pooler.Served(context.Background())
	if err != nil || served != 7 {
		t.Errorf("served %d, %v", served, err)
	}
}

// A test run that is killed cannot stop its poolers; they end with it.
func TestPoolerEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with the one that started it")
	}
	if os.Getenv(poolerRole) != "" {
		holdPooler(t)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPoolerEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), poolerRole+"="+NewDatabase(t).AdminDSN)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, _ := strings.CutPrefix(strings.TrimSpace(line), "pooler ")
	dial := func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	if !dial() {
		t.Fatalf("there is no pooler at %q", line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	Eventually(t, "the pooler is gone", func() bool { return !dial() })
}

// poolerRole makes this test's binary a process that starts a pooler before the server it names.
const poolerRole = "TESTKIT_POOLER_ROLE"

func holdPooler(t *testing.T) {
	pooler, err := StartPooler(t.Context(), os.Getenv(poolerRole))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("pooler " + pooler.Address)
	select {} // until it is killed
}
