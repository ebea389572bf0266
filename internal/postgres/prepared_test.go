package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// What a statement of ours lacks are migrations; what a trigger or function of the app lacks is the app's own mistake.
func TestMissingMigrationsAreToldFromTheAppsMistakes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	testkit.Exec(t, testkit.Connect(t, b.db.AdminDSN), `
		create schema app;
		create table app.audited (id int);
		create function app.audit() returns trigger language plpgsql as $$ begin insert into app.gone values (1); return new; end $$;
		create trigger audit after insert on app.audited for each row execute function app.audit();
		create function app.asks() returns bigint language plpgsql as $$ begin return (select count(*) from app.gone); end $$;
		grant usage on schema app to public;
		grant insert on app.audited to public`)
	for statement, want := range map[string]fault.Code{
		"select from nothing.chats":                              fault.NotReady,
		"select from public.no_such_table":                       fault.NotReady,
		"select no_such_column from public.chats":                fault.NotReady,
		"select throughline.no_such_function()":                  fault.NotReady,
		"select to_tsvector('throughline.none', 'a')":            fault.NotReady,
		"select null::throughline.no_such_type":                  fault.NotReady,
		"select set_config('role', 'throughline_nobody', true)":  fault.NotReady,
		"select set_config('role', 'the_apps_own_role', true)":   fault.Internal,
		"select now() at time zone 'Nowhere'":                    fault.Internal,
		"insert into app.audited values (1)":                     fault.Internal,
		"select app.asks()":                                      fault.Internal,
		"insert into auth.users (id) values (gen_random_uuid())": fault.ForbiddenByPolicy,
	} {
		err := send(t.Context(), b.pool, func(batch *pgx.Batch) {
			if want != fault.NotReady {
				queueExec(batch, queries.ActAsUser, b.user.Claims)
			}
			batch.Queue(statement)
		})
		if fault.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", statement, err, want)
		}
	}
}
