// Command withpg runs a command beside a throwaway Postgres cluster, which serves every test package
// that the command runs:
//
//	withpg -pg 15 -- go test ./...
//	withpg -pg 17 -pgtap -- pg_prove --ext .sql -r supabase/tests
//
// The command finds the cluster in THROUGHLINE_TEST_POSTGRES. With -pgtap it also finds a migrated
// database with pgTAP in the PG* variables. withpg ends with the command's exit code.
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

	"github.com/arcoscribe/throughline/internal/localpg"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func main() {
	major := flag.Int("pg", 0, "major version of Postgres; 0 is any from 15 on")
	pgtap := flag.Bool("pgtap", false, "prepare a migrated database with pgTAP")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: withpg [-pg major] [-pgtap] -- command [argument ...]")
		os.Exit(2)
	}
	code, err := run(*major, *pgtap, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpg:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run gives the command's exit code, and an error of our own.
func run(major int, pgtap bool, command []string) (code int, err error) {
	// A signal ends the command, and the command's end ends us, so that the cluster never stays.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx := context.Background()
	cluster, err := testkit.StartCluster(ctx, major)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Destroy()) }()
	env := append(os.Environ(), testkit.PostgresEnv+"="+cluster.DSN(localpg.Superuser, "postgres"))
	if pgtap {
		variables, err := prepare(ctx, cluster)
		if err != nil {
			return 1, err
		}
		env = append(env, variables...)
	}
	return execute(command, env, signals)
}

// prepare makes the database for pgTAP and gives the variables that lead libpq's programs to it.
func prepare(ctx context.Context, cluster *localpg.Cluster) ([]string, error) {
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

// execute runs the command and hands it the signals we get.
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
			_ = cmd.Process.Signal(caught) // fails when it is over, and then done says so
		case err := <-done:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return max(exit.ExitCode(), 1), nil
			}
			return 0, err
		}
	}
}
