// Command withpg runs a command with a throwaway Postgres cluster, which serves all test packages that the command runs:
//
//	withpg -pg 15 -- go test ./...
//	withpg -pg 17 -pooler -- go test ./...
//	withpg -pg 15 -parting -- go test ./internal/httpapi
//	withpg -program -parting -- throughline serve
//	withpg -pg 17 -pgtap -- pg_prove --ext .sql -r supabase/tests
//
// THROUGHLINE_TEST_POSTGRES names the cluster to the command. With -pooler THROUGHLINE_TEST_POOLER names a PgBouncer in
// transaction mode in front of it, and withpg fails when no transaction went through that; with -parting a testkit.Gateway, which
// parts pipelines, and withpg fails when no statement did. With -pgtap the PG* variables name a migrated database with pgTAP. With
// -program the cluster is that of DATABASE_URL, and the command is a server, which connects there as throughline_server, through what
// is asked for, and with DATABASE_DIRECT_URL past it. withpg ends with the command's exit code.
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
	"strings"
	"syscall"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

type options struct {
	major   int // version of Postgres; 0 is any
	pgtap   bool
	pooler  bool
	parting bool
	program bool
}

func main() {
	var o options
	flag.IntVar(&o.major, "pg", 0, "major version of Postgres; 0 is any from 15 on")
	flag.BoolVar(&o.pgtap, "pgtap", false, "prepare a migrated database with pgTAP")
	flag.BoolVar(&o.pooler, "pooler", false, "lead the tests through PgBouncer in transaction mode")
	flag.BoolVar(&o.parting, "parting", false, "lead the tests through a pooler that parts pipelines")
	flag.BoolVar(&o.program, "program", false, "run a server on the cluster of DATABASE_URL")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: withpg [-pg major] [-pooler | -parting] [-pgtap | -program] -- command [argument ...]")
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
	admin := os.Getenv("DATABASE_URL")
	if !o.program {
		cluster := kit.Must(testkit.StartCluster(ctx, o.major))
		defer func() { err = errors.Join(err, cluster.Destroy()) }()
		admin = cluster.DSN(localpg.Superuser, "postgres")
	}
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
	if o.parting {
		gateway := kit.Must(testkit.StartGateway(ctx, admin))
		env = append(env, testkit.PoolerEnv+"="+gateway.Address())
		defer func() {
			served := gateway.Served.Load()
			if served == 0 {
				err = errors.Join(err, errors.New("no statement went through the gateway"))
			}
			err = errors.Join(err, gateway.Stop())
			fmt.Fprintf(os.Stderr, "withpg: %d statements went through a pooler that parts pipelines\n", served)
		}()
	}
	if o.program {
		kit.Check(localpg.Bootstrap(ctx, admin, "alter role "+supabase.ServerRole+" login"))
		_, address, _ := strings.Cut(env[len(env)-1], "=")
		env = append(env, "DATABASE_DIRECT_URL="+admin, "DATABASE_URL="+testkit.AsServer(testkit.ThroughPooler(address, admin)))
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
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 1, nil // a signal ended it
}
