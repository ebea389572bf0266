// Package stack runs the whole system as separate processes on this machine, as an operator would, and breaks it
// on purpose: a durable Postgres, servers and workers of a built program, each of which may be killed and started
// again. The model is not a part of it: whoever runs a stack says what it answers.
package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/supabase"
)

// referenceMajor is the version of Postgres that the targets were set on.
const referenceMajor = 15

// Postgres is a private cluster with the project's schema. Nothing of its durability is traded for speed. Destroy it.
type Postgres struct {
	*localpg.Cluster
	options localpg.Options
}

// StartCluster starts an empty cluster in a temporary folder, on the version that the targets were set on where it is
// installed. Nothing of its durability is traded for speed; settings go to the server as they are. Destroy it.
func StartCluster(ctx context.Context, settings map[string]string) (*localpg.Cluster, error) {
	cluster, _, err := startCluster(ctx, settings)
	return cluster, err
}

func startCluster(ctx context.Context, settings map[string]string) (*localpg.Cluster, localpg.Options, error) {
	options := localpg.Options{Settings: settings}
	var err error
	if options.BinDir, err = localpg.FindMajor(".", referenceMajor); err != nil {
		if options.BinDir, err = localpg.FindBinaries("."); err != nil {
			return nil, options, err
		}
	}
	if options.Dir, err = os.MkdirTemp("", "throughline-stack-"); err != nil {
		return nil, options, err
	}
	err = os.Chmod(options.Dir, 0o755) //nolint:gosec // the server's user has to pass through it
	if err != nil {
		return nil, options, errors.Join(err, os.RemoveAll(options.Dir))
	}
	cluster, err := localpg.Start(ctx, options)
	if err != nil {
		return nil, options, errors.Join(err, os.RemoveAll(options.Dir))
	}
	options.Port = cluster.Port()
	return cluster, options, nil
}

// StartPostgres makes a migrated, empty project on a cluster of its own.
func StartPostgres(ctx context.Context, settings map[string]string) (*Postgres, error) {
	cluster, options, err := startCluster(ctx, settings)
	if err != nil {
		return nil, err
	}
	p := &Postgres{Cluster: cluster, options: options}
	if err := p.migrate(ctx); err != nil {
		return nil, errors.Join(err, p.Destroy())
	}
	return p, nil
}

func (p *Postgres) migrate(ctx context.Context) error {
	if err := localpg.Bootstrap(ctx, p.AdminDSN(), supabase.BootstrapSQL); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	_, err := supabase.Migrate(ctx, p.DSN(), slog.New(slog.DiscardHandler))
	return err
}

// Start starts the cluster again after a Crash or a Stop, on the port it had.
func (p *Postgres) Start(ctx context.Context) (err error) {
	p.Cluster, err = localpg.Start(ctx, p.options)
	return err
}

// DSN is the address as a server connects.
func (p *Postgres) DSN() string { return p.Cluster.DSN("postgres", "postgres") }

// AdminDSN is the address of the cluster's superuser.
func (p *Postgres) AdminDSN() string { return p.Cluster.DSN(localpg.Superuser, "postgres") }

// Dir is the folder that holds the cluster, or a link to it.
func (p *Postgres) Dir() string { return p.options.Dir }
