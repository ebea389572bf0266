package supabase

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migrationName is what the CLI takes for a migration; it passes over other files.
var migrationName = regexp.MustCompile(`^([0-9]{14})_(.+)\.sql$`)

// migration is one file of supabase/migrations.
type migration struct {
	version    string // 14 digits, the moment it was made, UTC
	name       string
	statements []statement
}

// String is the file's name without its ending.
func (m migration) String() string { return m.version + "_" + m.name }

// StatementError says which statement of which migration failed.
type StatementError struct {
	Migration string // such as 20261120000101_chats
	Statement int    // from 1
	Line      int    // in the file, from 1
	Err       error  // usually a *pgconn.PgError
}

// Error names the file, the statement and the line before the cause.
func (e *StatementError) Error() string {
	return fmt.Sprintf("migration %s, statement %d, line %d: %v", e.Migration, e.Statement, e.Line, e.Err)
}

// Unwrap gives the cause.
func (e *StatementError) Unwrap() error { return e.Err }

// Migrate applies the embedded migrations that the database does not have yet and gives their names,
// oldest first. Each runs in a transaction of its own together with its row in the history that the
// Supabase CLI keeps, so a failure leaves the earlier ones applied (and named in the result), and
// either tool goes on where the other stopped. Safe to run twice and at once; dsn may lead through a
// transaction pooler. A history that knows migrations which we do not, or is past one of ours that it
// lacks, is an error.
func Migrate(ctx context.Context, dsn string, logger *slog.Logger) ([]string, error) {
	return migrateFrom(ctx, dsn, embedded, logger)
}

// Pending gives the names of the embedded migrations that the database does not have, oldest first,
// in one query. One that a newer program applied is none of its business.
func Pending(ctx context.Context, q querier) ([]string, error) {
	local, err := readMigrations(embedded)
	if err != nil {
		return nil, err
	}
	remote, err := readVersions(ctx, q)
	if err != nil && !isUndefinedTable(err) {
		return nil, fmt.Errorf("reading the history of migrations: %w", err)
	}
	var pending []string
	for _, m := range local {
		if !slices.Contains(remote, m.version) {
			pending = append(pending, m.String())
		}
	}
	return pending, nil
}

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func migrateFrom(ctx context.Context, dsn string, files fs.FS, logger *slog.Logger) ([]string, error) {
	local, err := readMigrations(files)
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := createHistory(ctx, conn); err != nil {
		return nil, fmt.Errorf("creating the history of migrations: %w", err)
	}
	var applied []string
	for {
		start := time.Now()
		done, err := applyNext(ctx, conn, local)
		if err != nil || done == "" {
			return applied, err
		}
		logger.InfoContext(ctx, "migration applied", "migration", done, "duration_ms", time.Since(start).Milliseconds())
		applied = append(applied, done)
	}
}

// connect opens the one connection that migrations run on. The simple protocol names no prepared
// statement, so it does not matter which backend a pooler gives each transaction.
func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	// Parameters for us and for the pool; Postgres would refuse the connection because of them.
	maps.DeleteFunc(config.RuntimeParams, func(key, _ string) bool {
		return key == "pgbouncer" || strings.HasPrefix(key, "pool_")
	})
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to migrate: %w", err)
	}
	return conn, nil
}

// applyNext applies the oldest migration that is missing and gives its name, "" when none is. What is
// missing is looked up under the lock, because another process may have been at it while we waited.
func applyNext(ctx context.Context, conn *pgx.Conn, local []migration) (applied string, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockHistory(ctx, tx); err != nil {
			return fmt.Errorf("waiting for other migrations: %w", err)
		}
		remote, err := readVersions(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the history of migrations: %w", err)
		}
		missing, err := findMissing(local, remote)
		if err != nil || len(missing) == 0 {
			return err
		}
		applied = missing[0].String()
		return apply(ctx, tx, missing[0])
	})
	if err != nil {
		return "", err
	}
	return applied, nil
}

// apply runs one migration and writes it into the history.
func apply(ctx context.Context, tx pgx.Tx, m migration) error {
	// An earlier file, or with a pooler an earlier client, may have left settings behind.
	if _, err := tx.Exec(ctx, "reset all"); err != nil {
		return fmt.Errorf("migration %s: %w", m, err)
	}
	for i, s := range m.statements {
		// Not tx.Exec: that reads the text for parameters, and a migration has none.
		if _, err := tx.Conn().PgConn().Exec(ctx, s.text).ReadAll(); err != nil {
			position := 0
			if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
				position = int(refused.Position)
			}
			return &StatementError{Migration: m.String(), Statement: i + 1, Line: s.lineAt(position), Err: err}
		}
	}
	if err := insertVersion(ctx, tx, m); err != nil {
		return fmt.Errorf("migration %s: writing the history: %w", m, err)
	}
	return nil
}

// findMissing gives the local migrations that come after all those in the history, or says how the
// two have gone different ways. Both are sorted.
func findMissing(local []migration, remote []string) ([]migration, error) {
	known := make(map[string]bool, len(local))
	for _, m := range local {
		known[m.version] = true
	}
	for _, version := range remote {
		if !known[version] {
			return nil, fmt.Errorf("the database has migration %s, which this program does not: "+
				"it was migrated by a newer version, or belongs to another project", version)
		}
	}
	var missing []migration
	for _, m := range local {
		if slices.Contains(remote, m.version) {
			continue
		}
		if len(remote) > 0 && m.version < remote[len(remote)-1] {
			return nil, fmt.Errorf("migration %s is missing in the database, which already has the later %s: "+
				"give the file a later number", m, remote[len(remote)-1])
		}
		missing = append(missing, m)
	}
	return missing, nil
}

// readMigrations reads the migrations of a file system, oldest first.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []migration
	for _, name := range names {
		match := migrationName.FindStringSubmatch(path.Base(name))
		if match == nil {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading a migration: %w", err)
		}
		if len(all) > 0 && all[len(all)-1].version == match[1] {
			return nil, fmt.Errorf("two migrations have the number %s", match[1])
		}
		all = append(all, migration{version: match[1], name: match[2], statements: splitStatements(string(text))})
	}
	return all, nil
}
