package testkit

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// poolerTries: between choosing a free port and listening on it, somebody else may.
const poolerTries = 3

// NewTransactionPooler starts PgBouncer in transaction mode before the database, as Supabase's
// pooler is on port 6543, and gives the DSN of postgres through it. It has at most 10 connections
// to the database, ends with the test, and skips the test where PgBouncer is not installed.
func NewTransactionPooler(t testing.TB, database Database) string {
	t.Helper()
	program, err := findPgBouncer()
	if err != nil {
		t.Skip("testkit: pgbouncer is not installed (scripts/setup test installs it)")
	}
	target, err := url.Parse(database.DSN)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	for range poolerTries {
		port := freePort(t)
		dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", port, database.Name)
		if runPooler(t, program, port, target.Port(), dsn) {
			return dsn
		}
	}
	t.Fatal("testkit: pgbouncer did not start")
	return ""
}

// findPgBouncer also looks where Debian puts it, which is not in an ordinary user's PATH.
func findPgBouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/pgbouncer")
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// runPooler tells whether the pooler came up; the test's end stops it.
func runPooler(t testing.TB, program string, port int, targetPort, dsn string) bool {
	t.Helper()
	dir, runAs := poolerHome(t)
	writeConfig(t, dir, port, targetPort)
	cmd := exec.Command(program, filepath.Join(dir, "pgbouncer.ini"))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: runAs, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // ends at once, with whoever is connected
		<-gone
	})
	return poolerAnswers(t, dsn, gone)
}

func poolerAnswers(t testing.TB, dsn string, gone <-chan struct{}) bool {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
			return conn.Close(t.Context()) == nil
		}
		select {
		case <-gone:
			return false
		case <-deadline:
			return false
		case <-time.After(20 * time.Millisecond): // it sends no signal when it is ready
		}
	}
}

// poolerHome makes a folder for the configuration and says who runs: PgBouncer refuses to be root.
func poolerHome(t testing.TB) (string, *syscall.Credential) {
	t.Helper()
	dir, err := os.MkdirTemp("", "throughline-pooler-")
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Geteuid() != 0 {
		return dir, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	uid, _ := strconv.Atoi(nobody.Uid) // a number, on every system with a root
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	return dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func writeConfig(t testing.TB, dir string, port int, targetPort string) {
	t.Helper()
	config := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s/users.txt
pool_mode = transaction
default_pool_size = 10
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
logfile = %s/log
`, targetPort, port, dir, dir)
	users := `"postgres" ""` + "\n"
	for name, text := range map[string]string{"pgbouncer.ini": config, "users.txt": users} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatalf("testkit: %v", err)
		}
	}
}
