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

	"github.com/arcoscribe/throughline/internal/localpg"
	"github.com/arcoscribe/throughline/supabase"
)

// referenceMajor is the version of Postgres that the targets were set on.
const referenceMajor = 15

// Postgres is a private cluster with the project's schema. Nothing of its durability is traded for speed. Destroy it.
type Postgres struct {
	*localpg.Cluster
	options localpg.Options
}

// StartPostgres makes a migrated, empty project in a temporary folder. settings go to the server as they are.
func StartPostgres(ctx context.Context, settings map[string]string) (*Postgres, error) {
	binDir, err := localpg.FindMajor(".", referenceMajor)
	if err != nil {
		if binDir, err = localpg.FindBinaries("."); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "throughline-stack-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server's user has to pass through it
		return nil, err
	}
	p := &Postgres{options: localpg.Options{Dir: dir, BinDir: binDir, Settings: settings}}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p.options.Port = p.Port()
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
