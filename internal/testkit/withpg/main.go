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
	"syscall"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// options select what runs beside the command.
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

// run returns the command's exit code, and an error of our own.
func run(o options, command []string) (code int, err error) {
	// A signal ends the command, and the end of the command ends us: the cluster is always removed.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx := context.Background()
	cluster, err := testkit.StartCluster(ctx, o.major)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Destroy()) }()
	admin := cluster.DSN(localpg.Superuser, "postgres")
	env := append(os.Environ(), testkit.PostgresEnv+"="+admin, testkit.PoolerEnv+"=")
	if o.pgtap {
		variables, err := preparePgTAP(ctx, cluster)
		if err != nil {
			return 1, err
		}
		env = append(env, variables...)
	}
	if !o.pooler {
		return execute(command, env, signals)
	}
	pooler, err := testkit.StartPooler(ctx, admin)
	if err != nil {
		return 1, err
	}
	code, err = execute(command, append(env, testkit.PoolerEnv+"="+pooler.Address()), signals)
	return code, errors.Join(err, reportPooler(ctx, pooler), pooler.Stop())
}

// reportPooler prints the number of transactions through the pooler. It is an error if there were none.
func reportPooler(ctx context.Context, pooler *testkit.Pooler) error {
	served, err := pooler.Served(ctx)
	if err != nil {
		return fmt.Errorf("asking the pooler what it did: %w", err)
	}
	all := 0
	for _, transactions := range served {
		all += transactions
	}
	if all == 0 {
		return errors.New("no transaction went through the pooler")
	}
	fmt.Fprintf(os.Stderr, "withpg: %d transactions on %d databases went through PgBouncer\n", all, len(served))
	return nil
}

// preparePgTAP makes the database for pgTAP and returns the variables that name it to libpq's programs.
func preparePgTAP(ctx context.Context, cluster *localpg.Cluster) ([]string, error) {
	database, err := testkit.CreateMigrated(ctx, cluster.DSN(localpg.Superuser, "postgres"))
	if err != nil {
		return nil, err
	}
	if err := testkit.InstallPgTAP(ctx, database); err != nil {
		return nil, err
	}
	address, err := url.Parse(database.DSN)
	if err != nil {
		return nil, err
	}
	return []string{
		"PGHOST=" + address.Hostname(), "PGPORT=" + address.Port(),
		"PGUSER=" + address.User.Username(), "PGDATABASE=" + database.Name,
	}, nil
}

// execute runs the command and forwards our signals to it.
func execute(command, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, env
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case caught := <-signals:
			_ = cmd.Process.Signal(caught) // fails when the command is over, which done reports
		case err := <-done:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return max(exit.ExitCode(), 1), nil
			}
			return 0, err
		}
	}
}
