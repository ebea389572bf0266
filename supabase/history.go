package supabase

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
end $$`

func readVersions(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.Query(ctx, "select version from supabase_migrations.schema_migrations order by version")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// isUndefinedTable reports whether err means that the database was never migrated.
func isUndefinedTable(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "42P01"
}
