package testkit

import (
	"context"
	"errors"
	"fmt"

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
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/supabase"
)

// PoolerEnv names the transaction pooler in front of the cluster of PostgresEnv, as host:port. The tests' databases are
// reached through it. Unset, there is none.
const PoolerEnv = "THROUGHLINE_TEST_POOLER"

// PoolSize is the number of connections of a pooler to one database, for any number of clients.
const PoolSize = 10

// poolMark ends a DSN and marks a pooler on another port than Supabase's.
const poolMark = "&pgbouncer=true"

// Pooler is a running PgBouncer in transaction mode, as Supabase's pooler is on port 6543: a client has a
// connection to Postgres for as long as a transaction lasts, and a named statement is lost with it.
type Pooler struct {
	Address string // host:port, for PoolerEnv
	cmd     *exec.Cmd
	gone    <-chan struct{} // closed when the process is gone
	log     Log             // what it printed
}

// NewTransactionPooler starts a pooler in front of a test's database, until the test ends, and returns the DSN through it.
func NewTransactionPooler(t testing.TB, database Database) string {
	pooler, err := StartPooler(t.Context(), database.AdminDSN)
	check(t, err)
	t.Cleanup(pooler.Stop)
	return ThroughPooler(pooler.Address, database.Direct())
}

// StartPooler starts a pooler in front of the server that a DSN names, for all of its databases. Stop it.
func StartPooler(ctx context.Context, serverDSN string) (p *Pooler, err error) {
	defer kit.Catch(&err)
	runAs := kit.Must(localpg.UnprivilegedUser()) // PgBouncer refuses to be root
	address := kit.Must(freeAddress())
	dir := kit.Must(os.MkdirTemp("", "throughline-pooler-"))
	defer func() { _ = os.RemoveAll(dir) }() // it is read only at the start
	config := kit.Must(writePoolerConfig(dir, parse(serverDSN), address))
	var limit syscall.Rlimit // it gets as many connections as this machine allows
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // it may be enough as it is
	}
	// Debian puts it where an ordinary user's PATH does not lead.
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	p = &Pooler{Address: address, cmd: exec.Command(program, config)}
	p.cmd.Dir, p.cmd.Stderr = "/", &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: runAs}
	if p.gone, err = localpg.StartChild(p.cmd, syscall.SIGTERM); err != nil {
		return nil, fmt.Errorf("scripts/setup test installs PgBouncer: %w", err)
	}
	if err := p.awaitStart(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// awaitStart waits until the pooler answers. From version 1.21 on it can keep named statements, and ours must not.
func (p *Pooler) awaitStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if _, err := p.command(ctx, "show version"); err == nil {
			_, _ = p.command(ctx, "set max_prepared_statements = 0") // an earlier version does not know it
			return nil
		}
		select {
		case <-p.gone:
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond): // it sends no signal when it is ready
			continue
		}
		return fmt.Errorf("pgbouncer did not start: %s", p.log.String())
	}
}

// Stop ends the pooler at once, also while clients are connected.
func (p *Pooler) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails when it is over
	<-p.gone
}

// Served returns the number of transactions that the pooler has passed on.
func (p *Pooler) Served(ctx context.Context) (all int, err error) {
	defer kit.Catch(&err)
	for _, row := range kit.Must(p.command(ctx, "show stats_totals")) {
		if string(row[0]) != "pgbouncer" { // not our commands
			all += kit.Must(strconv.Atoi(string(row[1])))
		}
	}
	return all, nil
}

func (p *Pooler) command(ctx context.Context, command string) (rows [][][]byte, err error) {
	defer kit.Catch(&err)
	conn := kit.Must(pgconn.Connect(ctx, "postgres://postgres@"+p.Address+"/pgbouncer?sslmode=disable"))
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return kit.Must(conn.Exec(ctx, command).ReadAll())[0].Rows, nil
}

// ThroughPooler is a server's DSN with the pooler's address in its place, marked for the product; as it is without one.
func ThroughPooler(address, dsn string) string {
	target := parse(dsn)
	if address == "" {
		return dsn
	}
	target.Host, target.RawQuery = address, "sslmode=disable"+poolMark
	return target.String()
}

// parseDSN reads a connection string as the product does: the mark is not for Postgres, and through a pooler
// statements have no names.
func parseDSN(dsn string) (*pgxpool.Config, error) {
	plain, marked := strings.CutSuffix(dsn, poolMark)
	config, err := pgxpool.ParseConfig(plain)
	if err == nil && marked {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return config, err
}

// poolerUsers may connect, as themselves.
const poolerUsers = `"postgres" ""
"` + supabase.ServerRole + `" ""
`

// writePoolerConfig writes files that any user may read. A server that refused the pooler is tried again in a second.
func writePoolerConfig(dir string, server *url.URL, address string) (string, error) {
	host, port, _ := strings.Cut(address, ":")
	config, users := filepath.Join(dir, "pooler.ini"), filepath.Join(dir, "users")
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
admin_users = postgres
pool_mode = transaction
default_pool_size = %d
max_client_conn = 4000
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
`, server.Hostname(), server.Port(), host, port, users, PoolSize)
	return config, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(users, []byte(poolerUsers), 0o644), os.WriteFile(config, []byte(text), 0o644))
}
