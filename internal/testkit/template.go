package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/supabase"
)

// template is a database that the tests' databases are copies of. Making one takes seconds and copying it milliseconds:
// it is made once per cluster, under a lock. Its name ends with a hash of the source: an edited migration makes another.
type template struct {
	prefix string
	fill   func(context.Context, Database) error
}

var (
	// fresh looks like a fresh Supabase project.
	fresh = template{"fresh_", bootstrap}
	// migrated has all migrations applied.
	migrated = template{"migrated_", migrate}
)

func bootstrap(ctx context.Context, database Database) error {
	return localpg.Bootstrap(ctx, database.AdminDSN, supabase.BootstrapSQL)
}

func migrate(ctx context.Context, database Database) error {
	if err := bootstrap(ctx, database); err != nil {
		return err
	}
	if err := execute(ctx, database.AdminDSN, "grant all on database "+database.Name+" to postgres"); err != nil {
		return err
	}
	// A pooler would stay connected, and the template could not be renamed.
	_, err := supabase.Migrate(ctx, database.Direct(), slog.New(slog.DiscardHandler))
	return err
}

// templateLock is the key of the advisory lock that the makers of templates share.
const templateLock = 5432216

// known holds the names of the templates that this process has seen complete.
var known sync.Map

// ensure makes the template unless it exists, and returns its name. Until it is complete it has another name.
func (t template) ensure(ctx context.Context, admin string) (name string, err error) {
	source, err := sourceHash()
	if err != nil {
		return "", err
	}
	name = t.prefix + source
	if _, ok := known.Load(name); ok {
		return name, nil
	}
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // which releases the lock
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", templateLock); err != nil {
		return "", err
	}
	var exists bool
	err = conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&exists)
	if err == nil && !exists {
		err = t.make(ctx, admin, name)
	}
	if err != nil {
		return "", fmt.Errorf("making the template %s: %w", name, err)
	}
	known.Store(name, true)
	return name, nil
}

func (t template) make(ctx context.Context, admin, name string) error {
	unfinished := at(admin, "making_"+name)
	err := execute(ctx, admin, "drop database if exists "+unfinished.Name+" with (force)", "create database "+unfinished.Name)
	if err != nil {
		return err
	}
	if err := t.fill(ctx, unfinished); err != nil {
		return err
	}
	return execute(ctx, admin,
		"alter database "+unfinished.Name+" rename to "+name,
		"alter database "+name+" with is_template true allow_connections false")
}

// sourceHash is a short hash of what templates are made from: the bootstrap and the migrations.
var sourceHash = sync.OnceValues(func() (string, error) {
	sum := sha256.New()
	_, _ = io.WriteString(sum, supabase.BootstrapSQL)            // a hash takes everything
	paths, _ := fs.Glob(supabase.Migrations, "migrations/*.sql") // fails on a malformed pattern alone
	for _, path := range paths {
		migration, err := supabase.Migrations.ReadFile(path)
		if err != nil {
			return "", err
		}
		_, _ = io.WriteString(sum, path)
		_, _ = sum.Write(migration)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
})
