package supabase

import (
	"context"
	"errors"
	"slices"

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
