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

// migrationName is what the Supabase CLI recognizes as a migration; it ignores other files.
var migrationName = regexp.MustCompile(`^([0-9]{14})_(.+)\.sql$`)

// migration is one file of supabase/migrations.
type migration struct {
	version string // 14 digits: the time it was created, UTC
	name    string
	sql     string
}

// String returns the file's name without its extension.
func (m migration) String() string { return m.version + "_" + m.name }

// StatementError reports which statement of which migration failed.
type StatementError struct {
	Migration string // such as 20261122000101_chats
	Statement int    // counted from 1
	Line      int    // in the file, counted from 1
	Err       error  // usually a *pgconn.PgError
}

func (e *StatementError) Error() string {
	return fmt.Sprintf("migration %s, statement %d, line %d: %v", e.Migration, e.Statement, e.Line, e.Err)
}

func (e *StatementError) Unwrap() error { return e.Err }

// Migrate applies the embedded migrations that the database does not have yet and returns their names,
// oldest first. Each runs in its own transaction, together with its row in the Supabase CLI's history, so
// either tool can continue where the other stopped. If one fails, the earlier ones stay applied and are
// returned with the error. Migrate may run repeatedly and concurrently, also through a transaction pooler.
// It returns an error if the history has a migration that is not embedded, or has a later one than an
// embedded one that it lacks.
func Migrate(ctx context.Context, dsn string, logger *slog.Logger) ([]string, error) {
	return migrateFrom(ctx, dsn, embedded, logger)
}

// Pending returns the names of the embedded migrations that the database does not have, oldest first, with
// one query. It ignores migrations that are not embedded: a newer version may have applied them.
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
	for _, m := range without(local, remote) {
		pending = append(pending, m.String())
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

// connect opens the connection that migrations run on. The simple protocol uses no prepared statements,
// so a pooler may run each transaction on another backend.
func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	// Parameters for our own pool; Postgres would refuse the connection because of them.
	maps.DeleteFunc(config.RuntimeParams, func(key, _ string) bool {
		return key == "pgbouncer" || strings.HasPrefix(key, "pool_")
	})
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to migrate: %w", err)
	}
	return conn, nil
}

// applyNext applies the oldest missing migration and returns its name, or "" if none is missing. It looks
// for it while it holds the lock, because another process may have applied migrations in the meantime.
func applyNext(ctx context.Context, conn *pgx.Conn, local []migration) (applied string, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, prepareHistorySQL); err != nil {
			return fmt.Errorf("preparing the history of migrations: %w", err)
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
	return applied, err
}

// apply runs one migration and records it in the history.
func apply(ctx context.Context, tx pgx.Tx, m migration) error {
	// An earlier migration, or a pooler's earlier client, may have left settings on the connection.
	if _, err := tx.Exec(ctx, "reset all"); err != nil {
		return fmt.Errorf("migration %s: %w", m, err)
	}
	statements := splitStatements(m.sql)
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.text
		// Not tx.Exec, which would look for parameters in the text.
		if _, err := tx.Conn().PgConn().Exec(ctx, s.text).ReadAll(); err != nil {
			position := 0
			if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
				position = int(refused.Position)
			}
			return &StatementError{Migration: m.String(), Statement: i + 1, Line: s.lineAt(position), Err: err}
		}
	}
	_, err := tx.Exec(ctx, `insert into supabase_migrations.schema_migrations (version, name, statements)
		values ($1, $2, $3::text[])`, m.version, m.name, texts)
	if err != nil {
		return fmt.Errorf("migration %s: writing the history: %w", m, err)
	}
	return nil
}

// findMissing returns the local migrations that the history lacks, or an error if they are not all later
// than those it has. Both arguments are sorted.
func findMissing(local []migration, remote []string) ([]migration, error) {
	for _, version := range remote {
		if !slices.ContainsFunc(local, func(m migration) bool { return m.version == version }) {
			return nil, fmt.Errorf("the database has migration %s, which this program does not: "+
				"it was migrated by a newer version, or belongs to another project", version)
		}
	}
	missing := without(local, remote)
	if len(missing) > 0 && len(remote) > 0 && missing[0].version < remote[len(remote)-1] {
		return nil, fmt.Errorf("migration %s is missing in the database, which already has the later %s: "+
			"give the file a later number", missing[0], remote[len(remote)-1])
	}
	return missing, nil
}

// without returns the local migrations that the history lacks.
func without(local []migration, remote []string) []migration {
	return slices.DeleteFunc(slices.Clone(local), func(m migration) bool { return slices.Contains(remote, m.version) })
}

// readMigrations reads the migrations of a file system, oldest first.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
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
		all = append(all, migration{version: match[1], name: match[2], sql: string(text)})
	}
	return all, nil
}
