package supabase

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The history of migrations is the Supabase CLI's, column for column and value for value.
const (
	historySchema = `create schema if not exists supabase_migrations`
	historyTable  = `create table if not exists supabase_migrations.schema_migrations (version text not null primary key)`
	// Columns that came later: a project may have been started by an old CLI.
	historyStatements = `alter table supabase_migrations.schema_migrations add column if not exists statements text[]`
	historyName       = `alter table supabase_migrations.schema_migrations add column if not exists name text`

	selectVersions = `select version from supabase_migrations.schema_migrations order by version`
)

// lockHistory makes whoever else migrates this database wait until our transaction ends. An advisory
// lock of the session would be left behind on a pooler's connection.
func lockHistory(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('supabase_migrations', 0))")
	return err
}

func createHistory(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockHistory(ctx, tx); err != nil {
			return err
		}
		complete, err := historyIsComplete(ctx, tx)
		if err != nil || complete {
			return err
		}
		for _, ddl := range []string{historySchema, historyTable, historyStatements, historyName} {
			if _, err := tx.Exec(ctx, ddl); err != nil {
				return err
			}
		}
		return nil
	})
}

// historyIsComplete spares a server that only checks for migrations the right to create schemas.
func historyIsComplete(ctx context.Context, tx pgx.Tx) (bool, error) {
	var columns int
	err := tx.QueryRow(ctx, `select count(*) from pg_attribute
		where attrelid = to_regclass('supabase_migrations.schema_migrations')
		  and attname in ('version', 'statements', 'name') and not attisdropped`).Scan(&columns)
	return columns == 3, err
}

func readVersions(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.Query(ctx, selectVersions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func insertVersion(ctx context.Context, tx pgx.Tx, m migration) error {
	texts := make([]string, len(m.statements))
	for i, s := range m.statements {
		texts[i] = s.text
	}
	_, err := tx.Exec(ctx, `insert into supabase_migrations.schema_migrations (version, name, statements)
		values ($1, $2, $3::text[])`, m.version, m.name, texts)
	return err
}

// isUndefinedTable tells whether nobody ever migrated the database.
func isUndefinedTable(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "42P01"
}
