// Package supabase holds the Supabase CLI project: its migrations, embedded and applied as the CLI would, and
// a wrapper around supabase-go for what only the auth server can do.
//
// It does not read tables: queries go through pgx, under row level security.
package supabase

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Migrations holds the folder migrations.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// BootstrapSQL makes a plain Postgres look like a fresh Supabase project: roles, auth, realtime. Run it once
// per database, as a superuser that is not called postgres; running it again changes nothing. It is for the
// private cluster and for tests, never for a real project.
//
//go:embed bootstrap.sql
var BootstrapSQL string

// ServerRole is what servers connect as. By itself it sees no row of a user.
const ServerRole = "throughline_server"

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

// UnusableError says in one sentence why the database cannot be migrated: a name that is taken, or something that every
// Supabase project has is missing. Nothing was applied.
type UnusableError struct{ Reason string }

func (e *UnusableError) Error() string { return e.Reason }

// unusable is an SQLSTATE of our own, which the first migration raises. The message is the sentence.
const unusable = "TL001"

// Migrate applies the embedded migrations that the database does not have yet and returns their names,
// oldest first. Each runs in its own transaction, together with its row in the Supabase CLI's history, so
// either tool can continue where the other stopped. If one fails, the earlier ones stay applied and are
// returned with the error. Migrate may run repeatedly and concurrently, also through a transaction pooler.
// Other rows of the history are those of the app, and none of its business.
func Migrate(ctx context.Context, dsn string, logger *slog.Logger) ([]string, error) {
	return migrateFrom(ctx, dsn, Migrations, logger)
}

// Pending returns the names of the embedded migrations that the database does not have, oldest first, with
// one query.
func Pending(ctx context.Context, q querier) ([]string, error) {
	local, err := readMigrations(Migrations, "migrations")
	if err != nil {
		return nil, err
	}
	history, err := readHistory(ctx, q)
	if err != nil && !isUndefinedTable(err) {
		return nil, fmt.Errorf("reading the history of migrations: %w", err)
	}
	var pending []string
	for _, m := range history.missing(local) {
		pending = append(pending, m.String())
	}
	return pending, nil
}

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func migrateFrom(ctx context.Context, dsn string, files fs.FS, logger *slog.Logger) ([]string, error) {
	local, err := readMigrations(files, "migrations")
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var applied []string
	start := time.Now()
	for {
		done, err := applyNext(ctx, conn, local)
		if err == nil && done != "" {
			applied = append(applied, done)
			continue
		}
		if len(applied) > 0 {
			logger.InfoContext(ctx, "migrations applied", "count", len(applied), "last", applied[len(applied)-1], "duration_ms", time.Since(start).Milliseconds())
		}
		return applied, err
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
			return explained(fmt.Errorf("preparing the history of migrations: %w", err))
		}
		history, err := readHistory(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the history of migrations: %w", err)
		}
		missing := history.missing(local)
		if len(missing) == 0 {
			return nil
		}
		if name, taken := history[missing[0].version]; taken {
			return fmt.Errorf("migration %s cannot be applied: the app has a migration of the same number, %s_%s; give that another number",
				missing[0], missing[0].version, name)
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
	// Not tx.Exec, which would look for parameters in the text.
	if _, err := tx.Conn().PgConn().Exec(ctx, m.sql).ReadAll(); err != nil {
		return explained(fmt.Errorf("migration %s%s: %w", m, lineOf(m.sql, err), err))
	}
	// The CLI writes a statement per element, reads versions alone, and makes a file again by joining the elements.
	_, err := tx.Exec(ctx, `insert into supabase_migrations.schema_migrations (version, name, statements)
		values ($1, $2, array[$3])`, m.version, m.name, m.sql)
	if err != nil {
		return fmt.Errorf("migration %s: writing the history: %w", m, err)
	}
	return nil
}

// lineOf says on which line of a text Postgres found an error; nothing where it does not say.
func lineOf(sql string, err error) string {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refused.Position == 0 {
		return ""
	}
	characters := []rune(sql)
	before := characters[:min(int(refused.Position)-1, len(characters))]
	return fmt.Sprintf(", line %d", 1+strings.Count(string(before), "\n"))
}

// explained returns the sentence of an error that has one, and any other error as it is.
func explained(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == unusable {
		return &UnusableError{refused.Message}
	}
	return err
}

// readMigrations reads the migrations of a folder, oldest first.
func readMigrations(files fs.FS, folder string) ([]migration, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.sql"))
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

// prepareHistorySQL makes other migrations of this database wait until the transaction ends (a session lock would
// stay on a pooler's connection) and completes the history, which is the Supabase CLI's, with the same columns and
// values. The last two columns are younger than the table, so a project started by an old CLI may lack them. "create
// schema if not exists" needs the right to create schemas even if the schema exists; a migration that applies nothing
// should not.
const prepareHistorySQL = `
select pg_advisory_xact_lock(hashtextextended('supabase_migrations', 0));
do $$ begin
	if 3 > (select count(*) from pg_attribute
			 where attrelid = to_regclass('supabase_migrations.schema_migrations')
			   and attname in ('version', 'statements', 'name') and not attisdropped) then
		create schema if not exists supabase_migrations;
		create table if not exists supabase_migrations.schema_migrations (version text not null primary key);
		alter table supabase_migrations.schema_migrations add column if not exists statements text[];
		alter table supabase_migrations.schema_migrations add column if not exists name text;
	end if;
exception
	when insufficient_privilege then
		raise exception using errcode = '` + unusable + `', message = 'Throughline cannot use this database, and nothing was applied: the role '
			|| current_user || ' may not make or change the schema supabase_migrations: connect as the role postgres of the project';
end $$`

// history is the names of the applied migrations by version, ours and the app's. A name may be empty: old CLIs wrote none.
type history map[string]string

func readHistory(ctx context.Context, q querier) (history, error) {
	rows, err := q.Query(ctx, "select version, coalesce(name, '') from supabase_migrations.schema_migrations")
	if err != nil {
		return nil, err
	}
	applied := history{}
	var version, name string
	_, err = pgx.ForEachRow(rows, []any{&version, &name}, func() error {
		applied[version] = name
		return nil
	})
	return applied, err
}

// missing returns those of our migrations that were not applied, oldest first. A migration of the app's with the number
// of one of ours does not count as ours.
func (h history) missing(ours []migration) []migration {
	return slices.DeleteFunc(slices.Clone(ours), func(m migration) bool {
		name, applied := h[m.version]
		return applied && (name == "" || name == m.name)
	})
}

// isUndefinedTable reports whether err means that the database was never migrated.
func isUndefinedTable(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "42P01"
}

// CopyMigrations writes those of the embedded migrations that a project of the Supabase CLI lacks into its folder of
// migrations, and returns their file names, oldest first. It changes no file: if one has the number of ours and is not
// ours, that is an error and nothing is written.
func CopyMigrations(folder string) (written []string, err error) {
	if err := findProject(folder); err != nil {
		return nil, err
	}
	missing, err := missingFiles(folder)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // source code, as the CLI makes it
		return nil, fmt.Errorf("copying migrations: %w", err)
	}
	for _, m := range missing {
		name := m.String() + ".sql"
		if err := os.WriteFile(filepath.Join(folder, name), []byte(m.sql), 0o644); err != nil { //nolint:gosec // as above
			return written, fmt.Errorf("copying migrations: %w", err)
		}
		written = append(written, name)
	}
	return written, nil
}

// findProject returns an error if neither the folder nor the project's config.toml beside it exists.
func findProject(folder string) error {
	config := filepath.Join(filepath.Dir(filepath.Clean(folder)), "config.toml")
	for _, path := range []string{folder, config} {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
	}
	return fmt.Errorf("there is no Supabase project here: neither %s nor %s exists; run this where `supabase init` was run, "+
		"or name the folder of migrations with --to", folder, config)
}

// missingFiles returns the embedded migrations that a folder lacks.
func missingFiles(folder string) ([]migration, error) {
	ours, err := readMigrations(Migrations, "migrations")
	if err != nil {
		return nil, err
	}
	theirs, err := readMigrations(os.DirFS(folder), ".")
	if err != nil {
		return nil, err
	}
	there := map[string]migration{}
	for _, m := range theirs {
		there[m.version] = m
	}
	var missing []migration
	for _, m := range ours {
		switch found, ok := there[m.version]; {
		case !ok:
			missing = append(missing, m)
		case found != m:
			return nil, fmt.Errorf("%s is not our %s.sql, which has the same number: give yours another number; "+
				"if it is ours from before an update, restore it", filepath.Join(folder, found.String()+".sql"), m)
		}
	}
	return missing, nil
}
