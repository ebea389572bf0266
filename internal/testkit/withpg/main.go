// Command withpg runs a command with a throwaway Postgres cluster, which serves all test packages that the command runs:
//
//	withpg -pg 15 -- go test ./...
//	withpg -pg 17 -pooler -- go test ./...
//	withpg -pg 17 -pgtap -- pg_prove --ext .sql -r supabase/tests
//
// THROUGHLINE_TEST_POSTGRES names the cluster to the command. With -pooler THROUGHLINE_TEST_POOLER names a PgBouncer in
// transaction mode in front of it, and withpg fails when no transaction went through that. With -pgtap the PG* variables
// name a migrated database with pgTAP. withpg ends with the command's exit code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
)

type options struct {
	major  int // version of Postgres; 0 is any
	pgtap  bool
	pooler bool
}

func main() {
	var o options
	flag.IntVar(&o.major, "pg", 0, "major version of Postgres; 0 is any from 15 on")
	flag.BoolVar(&o.pgtap, "pgtap", false, "prepare a migrated database with pgTAP")
	flag.BoolVar(&o.pooler, "pooler", false, "lead the tests through PgBouncer in transaction mode")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: withpg [-pg major] [-pooler] [-pgtap] -- command [argument ...]")
		os.Exit(2)
	}
	code, err := run(o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpg:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run returns the command's exit code, and an error of our own. The end of the command ends us, and the cluster with us.
func run(o options, command []string) (code int, err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	defer kit.Catch(&err)
	cluster := kit.Must(testkit.StartCluster(ctx, o.major))
	defer func() { err = errors.Join(err, cluster.Destroy()) }()
	admin := cluster.DSN(localpg.Superuser, "postgres")
	env := append(os.Environ(), testkit.PostgresEnv+"="+admin, testkit.PoolerEnv+"=")
	if o.pgtap {
		env = append(env, preparePgTAP(ctx, admin)...)
	}
	if o.pooler {
		pooler := kit.Must(testkit.StartPooler(ctx, admin))
		defer pooler.Stop()
		env = append(env, testkit.PoolerEnv+"="+pooler.Address)
		defer func() {
			served, failed := pooler.Served(context.Background())
			if failed == nil && served == 0 {
				failed = errors.New("no transaction went through the pooler")
			}
			err = errors.Join(err, failed)
			fmt.Fprintf(os.Stderr, "withpg: %d transactions went through PgBouncer\n", served)
		}()
	}
	return execute(ctx, command, env)
}

// preparePgTAP makes the database for pgTAP and returns the variables that name it to libpq's programs.
//
// pgTAP is in its schema extensions. It is plain SQL, so the file of any server package works on every version of Postgres,
// also where it is not available as an extension. Test files therefore do not contain "create extension pgtap".
func preparePgTAP(ctx context.Context, admin string) []string {
	// The complete pgTAP, not an upgrade between versions.
	paths, err := filepath.Glob("/usr/share/postgresql/*/extension/pgtap--[0-9].[0-9].[0-9].sql")
	if err != nil || len(paths) == 0 {
		kit.Fail("pgTAP is not installed: no pgtap--*.sql under /usr/share/postgresql (scripts/setup test installs it)")
	}
	database := kit.Must(testkit.CreateMigrated(ctx, admin))
	text := kit.Must(os.ReadFile(paths[0]))
	kit.Check(localpg.Bootstrap(ctx, database.AdminDSN, "set search_path = extensions, public;\n"+string(text)))
	address := kit.Must(url.Parse(database.DSN))
	return []string{
		"PGHOST=" + address.Hostname(), "PGPORT=" + address.Port(),
		"PGUSER=" + address.User.Username(), "PGDATABASE=" + database.Name,
	}
}

// execute runs the command, and asks it to end when ctx is over.
func execute(ctx context.Context, command, env []string) (int, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, env
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
