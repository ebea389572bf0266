package supabase

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The history of migrations is the Supabase CLI's, with the same columns and values. The last two columns are
// younger than the table, so a project started by an old CLI may lack them.
const createHistorySQL = `
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (version text not null primary key);
alter table supabase_migrations.schema_migrations add column if not exists statements text[];
alter table supabase_migrations.schema_migrations add column if not exists name text`

// lockHistory makes other migrations of this database wait until the transaction ends. A session lock would
// stay on a pooler's connection.
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
		_, err = tx.Exec(ctx, createHistorySQL)
		return err
	})
}

// historyIsComplete reports whether createHistorySQL has nothing to do. "create schema if not exists" needs
// the right to create schemas even if the schema exists; a migration that applies nothing should not.
func historyIsComplete(ctx context.Context, tx pgx.Tx) (bool, error) {
	var columns int
	err := tx.QueryRow(ctx, `select count(*) from pg_attribute
		where attrelid = to_regclass('supabase_migrations.schema_migrations')
		  and attname in ('version', 'statements', 'name') and not attisdropped`).Scan(&columns)
	return columns == 3, err
}

func readVersions(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.Query(ctx, "select version from supabase_migrations.schema_migrations order by version")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func insertVersion(ctx context.Context, tx pgx.Tx, m migration, statements []statement) error {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.text
	}
	_, err := tx.Exec(ctx, `insert into supabase_migrations.schema_migrations (version, name, statements)
		values ($1, $2, $3::text[])`, m.version, m.name, texts)
	return err
}

// isUndefinedTable reports whether err means that the database was never migrated.
func isUndefinedTable(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "42P01"
}
