package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolerEnv names the transaction pooler, as host:port, that stands before the cluster of PostgresEnv and
// that the tests' databases are reached through. Unset, there is none.
const PoolerEnv = "THROUGHLINE_TEST_POOLER"

// PoolSize is how many connections a pooler has to one database, for however many clients.
const PoolSize = 10

const (
	// poolerTries: between choosing a free port and listening on it, somebody else may.
	poolerTries = 3
	// poolerPatience bounds the start of a pooler.
	poolerPatience = 10 * time.Second
	// poolMark is how the product is told of a pooler on another port than Supabase's.
	poolMark = "pgbouncer"
)

// errNoPgBouncer: it is not on this machine.
var errNoPgBouncer = errors.New("pgbouncer is not installed (scripts/setup test installs it)")

// Pooler is a running PgBouncer in transaction mode, as Supabase's pooler is on port 6543: a client has a
// connection to Postgres for as long as a transaction lasts, and a named statement is lost with it.
type Pooler struct {
	address string // host:port
	dir     string
	cmd     *exec.Cmd
	gone    chan struct{} // closed at the process's end
}

// NewTransactionPooler starts a pooler before a test's database and gives the DSN of postgres through it,
// marked for the product. It ends with the test, and skips the test where PgBouncer is not installed.
func NewTransactionPooler(t testing.TB, database Database) string {
	t.Helper()
	pooler, err := StartPooler(t.Context(), database.AdminDSN)
	if errors.Is(err, errNoPgBouncer) {
		t.Skip("testkit:", err)
	}
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		if err := pooler.Stop(); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
	dsn, err := throughPooler(pooler.address, database.Direct())
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	return dsn
}

// StartPooler starts a pooler before the server that a DSN names, for all of its databases. Stop it.
func StartPooler(ctx context.Context, serverDSN string) (*Pooler, error) {
	server, err := url.Parse(serverDSN)
	if err != nil {
		return nil, err
	}
	program, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	settings, err := poolerSettings(ctx, program)
	if err != nil {
		return nil, err
	}
	for range poolerTries {
		pooler, err := tryPooler(ctx, program, server, settings)
		if err != nil || pooler != nil {
			return pooler, err
		}
	}
	return nil, errors.New("pgbouncer did not start")
}

// findPgBouncer also looks where Debian puts it, which is not in an ordinary user's PATH.
func findPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoPgBouncer
}

// poolerSettings are those that depend on PgBouncer's version. From 1.21 on it can keep named statements
// for its clients; ours must do without.
func poolerSettings(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking pgbouncer for its version: %w", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "PgBouncer %d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("pgbouncer's version in %.50q: %w", out, err)
	}
	if major > 1 || minor >= 21 {
		return "max_prepared_statements = 0\n", nil
	}
	return "", nil
}

// tryPooler gives no pooler when it did not come up.
func tryPooler(ctx context.Context, program string, server *url.URL, settings string) (*Pooler, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, runAs, err := poolerHome()
	if err != nil {
		return nil, err
	}
	p := &Pooler{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir, gone: make(chan struct{})}
	if err := writeConfig(dir, port, server, settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	raiseFileLimit()
	p.cmd = exec.Command(program, filepath.Join(dir, "pgbouncer.ini"))
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: runAs, Setpgid: true}
	endWithParent(p.cmd.SysProcAttr)
	if err := p.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if !p.answers(ctx) {
		return nil, p.Stop()
	}
	return p, nil
}

// start keeps a thread for the pooler, which ends with it, also when this process is killed.
func (p *Pooler) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended says nothing more than that it did
			close(p.gone)
		}
	}()
	return <-started
}

// Stop ends the pooler at once, with whoever is connected.
func (p *Pooler) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails when it is over
	<-p.gone
	return os.RemoveAll(p.dir)
}

// Address is where the pooler listens, for PoolerEnv.
func (p *Pooler) Address() string { return p.address }

func (p *Pooler) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	for {
		if _, err := p.Served(ctx); err == nil {
			return true
		}
		select {
		case <-p.gone:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond): // it sends no signal when it is ready
		}
	}
}

// Served asks the pooler how many transactions it has passed on to each database.
func (p *Pooler) Served(ctx context.Context) (map[string]int, error) {
	conn, err := pgconn.Connect(ctx, "postgres://postgres@"+p.address+"/pgbouncer?sslmode=disable")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	results, err := conn.Exec(ctx, "show stats_totals").ReadAll()
	if err != nil {
		return nil, err
	}
	served := map[string]int{}
	for _, row := range results[0].Rows {
		name := string(row[0])
		if name == "pgbouncer" { // this conversation
			continue
		}
		if served[name], err = strconv.Atoi(string(row[1])); err != nil {
			return nil, fmt.Errorf("pgbouncer's statistics: %w", err)
		}
	}
	return served, nil
}

// throughPooler is a server's DSN with the pooler's address in its place, marked for the product.
func throughPooler(address, dsn string) (string, error) {
	target, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	target.Host, target.RawQuery = address, "sslmode=disable&"+poolMark+"=true"
	return target.String(), nil
}

// parseDSN reads a connection string as the product does: the mark is not Postgres's, and through a pooler
// no statement has a name.
func parseDSN(dsn string) (*pgxpool.Config, error) {
	plain, marked := strings.CutSuffix(dsn, "&"+poolMark+"=true")
	config, err := pgxpool.ParseConfig(plain)
	if err == nil && marked {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return config, err
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }() // nobody ever connected
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// raiseFileLimit lets what we start have as many connections as this machine allows.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // it may be enough as it is
	}
}

// poolerHome makes a folder for the configuration and says who runs: PgBouncer refuses to be root.
func poolerHome() (string, *syscall.Credential, error) {
	dir, err := os.MkdirTemp("", "throughline-pooler-")
	if err != nil || os.Geteuid() != 0 {
		return dir, nil, err
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	uid, _ := strconv.Atoi(nobody.Uid) // a number, on every system with a root
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// writeConfig: server_login_retry is how long it believes that a server is away which refused it once.
func writeConfig(dir string, port int, server *url.URL, settings string) error {
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s/users.txt
stats_users = postgres
pool_mode = transaction
default_pool_size = %d
max_client_conn = 4000
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
logfile = %s/log
%s`, server.Hostname(), server.Port(), port, dir, PoolSize, dir, settings)
	users := `"postgres" ""` + "\n"
	for name, text := range map[string]string{"pgbouncer.ini": config, "users.txt": users} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
