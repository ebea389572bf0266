package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// PoolerEnv names the transaction pooler in front of the cluster of PostgresEnv, as host:port. The tests' databases are
// reached through it. Unset, there is none.
const PoolerEnv = "THROUGHLINE_TEST_POOLER"

// PoolSize is the number of connections of a pooler to one database, for any number of clients.
const PoolSize = 10

const (
	// poolerTries: another program may take a free port between our choice and the start.
	poolerTries = 3
	// poolerPatience bounds the start of a pooler.
	poolerPatience = 10 * time.Second
	// poolMark is the parameter of a DSN that marks a pooler on another port than Supabase's.
	poolMark = "pgbouncer"
)

var errNoPgBouncer = errors.New("pgbouncer is not installed (scripts/setup test installs it)")

// Pooler is a running PgBouncer in transaction mode, as Supabase's pooler is on port 6543: a client has a
// connection to Postgres for as long as a transaction lasts, and a named statement is lost with it.
type Pooler struct {
	address string // host:port
	dir     string
	cmd     *exec.Cmd
	gone    <-chan struct{} // closed when the process is gone
}

// NewTransactionPooler starts a pooler in front of a test's database and returns the DSN of postgres through it,
// with the mark. It ends with the test, and skips the test where PgBouncer is not installed.
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

// StartPooler starts a pooler in front of the server that a DSN names, for all of its databases. Stop it.
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

// poolerSettings returns the settings that depend on PgBouncer's version. From 1.21 on it can keep named statements
// for its clients; ours must not.
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

// tryPooler returns nil without an error when the pooler did not start.
func tryPooler(ctx context.Context, program string, server *url.URL, settings string) (*Pooler, error) {
	port, err := localpg.FreePort(0)
	if err != nil {
		return nil, err
	}
	dir, runAs, err := poolerHome()
	if err != nil {
		return nil, err
	}
	p := &Pooler{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir}
	if err := writeConfig(dir, port, server, settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	raiseFileLimit()
	p.cmd = exec.Command(program, filepath.Join(dir, "pgbouncer.ini"))
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: runAs}
	if p.gone, err = localpg.StartChild(p.cmd, syscall.SIGTERM); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if !p.answers(ctx) {
		return nil, p.Stop()
	}
	return p, nil
}

// Stop ends the pooler at once, also while clients are connected.
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

// Served returns the number of transactions that the pooler has passed on to each database.
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

// parseDSN reads a connection string as the product does: the mark is not for Postgres, and through a pooler
// statements have no names.
func parseDSN(dsn string) (*pgxpool.Config, error) {
	plain, marked := strings.CutSuffix(dsn, "&"+poolMark+"=true")
	config, err := pgxpool.ParseConfig(plain)
	if err == nil && marked {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return config, err
}

// raiseFileLimit lets what we start have as many connections as this machine allows.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // it may be enough as it is
	}
}

// poolerHome makes a folder for the configuration and returns the user to run as, because PgBouncer refuses to be root.
func poolerHome() (string, *syscall.Credential, error) {
	runAs, err := localpg.UnprivilegedUser()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "throughline-pooler-")
	if err != nil || runAs == nil {
		return dir, nil, err
	}
	if err := os.Chown(dir, int(runAs.Uid), int(runAs.Gid)); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, runAs, nil
}

// writeConfig writes the configuration. server_login_retry is the seconds until it retries a server that refused it.
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
