package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/supabase"
)

// Making a template takes seconds and copying it milliseconds. A template is made once per cluster,
// under a lock, and carries a hash of what it was made from: an edited migration makes another one.

// templateLock is the key of the advisory lock that the makers of templates share.
const templateLock = 5432216

// known holds the templates that this process has seen complete.
var known sync.Map

// freshTemplate names the template that looks like a fresh Supabase project.
func freshTemplate(ctx context.Context, admin string) (string, error) {
	name := "fresh_" + shortHash([]byte(supabase.BootstrapSQL))
	return name, ensure(ctx, admin, name, "template1", func(made Database) error {
		return localpg.Bootstrap(ctx, made.AdminDSN, supabase.BootstrapSQL)
	})
}

// migratedTemplate names the template with all migrations applied.
func migratedTemplate(ctx context.Context, admin string) (string, error) {
	fresh, err := freshTemplate(ctx, admin)
	if err != nil {
		return "", err
	}
	source, err := migrationText()
	if err != nil {
		return "", err
	}
	name := "migrated_" + shortHash(append(source, supabase.BootstrapSQL...))
	return name, ensure(ctx, admin, name, fresh, func(made Database) error {
		if err := execute(ctx, admin, "grant all on database "+made.Name+" to postgres"); err != nil {
			return err
		}
		// A pooler would stay connected, and the template could not be renamed.
		_, err := supabase.Migrate(ctx, made.Direct(), slog.New(slog.DiscardHandler))
		return err
	})
}

// ensure makes the template unless it exists. Until it is complete it has another name.
func ensure(ctx context.Context, admin, name, from string, fill func(Database) error) error {
	if _, ok := known.Load(name); ok {
		return nil
	}
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // which releases the lock
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", templateLock); err != nil {
		return err
	}
	var exists bool
	err = conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&exists)
	if err == nil && !exists {
		err = build(ctx, admin, name, from, fill)
	}
	if err != nil {
		return fmt.Errorf("making the template %s: %w", name, err)
	}
	known.Store(name, true)
	return nil
}

func build(ctx context.Context, admin, name, from string, fill func(Database) error) error {
	unfinished := "making_" + name
	if err := execute(ctx, admin, "drop database if exists "+unfinished+" with (force)"); err != nil {
		return err
	}
	if err := execute(ctx, admin, "create database "+unfinished+" template "+from); err != nil {
		return err
	}
	made, err := at(admin, unfinished)
	if err != nil {
		return err
	}
	if err := fill(made); err != nil {
		return err
	}
	return execute(ctx, admin,
		"alter database "+unfinished+" rename to "+name,
		"alter database "+name+" with is_template true allow_connections false")
}

// migrationText returns all migrations in order, names included, as they are on disk.
func migrationText() ([]byte, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(root, "supabase", "migrations", "*.sql"))
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(append(all, filepath.Base(path)...), text...)
	}
	return all, nil
}

func shortHash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
