package kit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/supabase"
)

// Postgres is a private cluster in a temporary folder, with a migrated, empty project in its database postgres.
// It is as durable as in production. Destroy it.
type Postgres struct {
	*localpg.Cluster
	options localpg.Options
}

// StartPostgres starts a cluster with settings, on the version that the targets were set on where that is installed. It is
// migrated by a build of the program, or without one as this module has it.
func StartPostgres(ctx context.Context, settings map[string]string, program ...string) (p *Postgres, err error) {
	defer Catch(&err)
	binaries, err := localpg.FindBinaries(15)
	if err != nil {
		binaries = Must(localpg.FindBinaries(0))
	}
	p = &Postgres{options: localpg.Options{Settings: settings, BinDir: binaries, Dir: newFolder()}}
	if p.Cluster, err = localpg.Start(ctx, p.options); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.options.Dir))
	}
	p.options.Port = p.Port()
	if err = localpg.Bootstrap(ctx, p.AdminDSN(), supabase.BootstrapSQL); err == nil {
		err = p.migrate(ctx, program)
	}
	if err != nil {
		return nil, errors.Join(err, p.Destroy())
	}
	return p, nil
}

func newFolder() string {
	dir := Must(os.MkdirTemp("", "throughline-proof-"))
	Check(os.Chmod(dir, 0o755)) //nolint:gosec // the server's user has to pass through it
	return dir
}

// migrate also lets the server's role log in, as operators do.
func (p *Postgres) migrate(ctx context.Context, program []string) error {
	var err error
	if len(program) == 0 {
		_, err = supabase.Migrate(ctx, p.DSN(), slog.New(slog.DiscardHandler))
	} else {
		command := exec.CommandContext(ctx, program[0], "migrate") //nolint:gosec // the build under test
		command.Env = []string{"DATABASE_URL=" + p.DSN()}
		err = Run(command)
	}
	if err != nil {
		return err
	}
	return localpg.Bootstrap(ctx, p.AdminDSN(), "alter role "+supabase.ServerRole+" login")
}

// Start starts the cluster again after a Crash or a Stop, on the port it had.
func (p *Postgres) Start(ctx context.Context) (err error) {
	p.Cluster, err = localpg.Start(ctx, p.options)
	return err
}

// Standby starts a standby of the cluster: as another cluster, or as dead, which was a primary before and was killed.
func (p *Postgres) Standby(ctx context.Context, dead *Postgres) (standby *Postgres, err error) {
	defer Catch(&err)
	ctx, cancel := context.WithTimeout(ctx, startWithin/4)
	defer cancel()
	primary := Must(pgx.Connect(ctx, p.AdminDSN()))
	// Without it pg_rewind may find the timeline of before the promotion, and leave the dead one as it is.
	Check(errors.Join(Exec(ctx, primary, "checkpoint"), primary.Close(ctx)))
	if standby = dead; standby == nil {
		standby = &Postgres{options: p.options}
		standby.options.Port, standby.options.Dir = 0, newFolder()
	}
	Check(localpg.Follow(ctx, standby.options, p.AdminDSN()))
	Check(standby.Start(ctx))
	standby.options.Port = standby.Port()
	return standby, nil
}

// DSN is the address that workers connect to, ServerDSN that of servers.
func (p *Postgres) DSN() string { return p.Cluster.DSN("postgres", "postgres") }

// ServerDSN is DSN as the role of servers.
func (p *Postgres) ServerDSN() string { return p.Cluster.DSN(supabase.ServerRole, "postgres") }

// AdminDSN is the address of the cluster's superuser.
func (p *Postgres) AdminDSN() string { return p.Cluster.DSN(localpg.Superuser, "postgres") }

// Dir is the folder that holds the cluster, or a link to it.
func (p *Postgres) Dir() string { return p.options.Dir }

// Querier is a connection, a pool or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Execer is a connection, a pool or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Exec executes statements one by one.
func Exec(ctx context.Context, database Execer, statements ...string) error {
	for _, statement := range statements {
		if _, err := database.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.300s: %w", statement, err)
		}
	}
	return nil
}

// Describe returns lines about what something was measured on: the machine, and Postgres with its durability.
func Describe(ctx context.Context, database Querier) ([]string, error) {
	var version, settings string
	err := database.QueryRow(ctx, `select current_setting('server_version'), string_agg(name || ' ' || setting || coalesce(unit, ''), ', ' order by name)
		from pg_settings where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers')`).Scan(&version, &settings)
	if err != nil {
		return nil, err
	}
	version, _, _ = strings.Cut(version, " ") // without the distribution's own
	return []string{
		fmt.Sprintf("%d cores, %s, %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH),
		fmt.Sprintf("Postgres %s: %s", version, settings),
	}, nil
}
