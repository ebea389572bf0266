package supabase_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

const checkNames = "20261119000000_check_names"

// refused migrates a database that cannot be migrated, and returns the sentence that says why.
func refused(t *testing.T, database testkit.Database) string {
	t.Helper()
	applied, err := supabase.Migrate(t.Context(), database.DSN, silent)
	unusable, ok := errors.AsType[*supabase.UnusableError](err)
	require.Truef(t, ok && len(applied) == 0, "applied %v: %v", applied, err)
	if made := testkit.Ask[[]string](t, connect(t, database.AdminDSN), `
		select coalesce(array_agg(nspname::text), '{}') from pg_namespace where nspname = 'throughline'`); len(made) > 0 {
		t.Errorf("left behind: %v", made)
	}
	return unusable.Reason
}

// Everything is looked at before anything is applied, and all that is in the way is named in one sentence.
func TestMigrateNamesWhatIsTakenOrMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ setup, want string }{
		"tables":           {"create table public.messages (); create table public.chats (id int)", "table public.chats, table public.messages already exist"},
		"a view":           {"create view public.chats as select 1", "view public.chats already exist"},
		"a type":           {"create type public.messages as enum ('a')", "type public.messages already exist"},
		"a composite type": {"create type public.chats as (a int)", "type public.chats already exist"},
		"an index": {"create table public.things (a int); create index chats_user_id_idx on public.things (a)",
			"index public.chats_user_id_idx already exist"},
		"a sequence":      {"create sequence public.chats_pkey", "sequence public.chats_pkey already exist"},
		"schema inspect":  {"create schema inspect", "schema inspect already exist"},
		"the app's River": {"create schema river; create table river.river_job ()", "schema river already exist"},
		"everything": {"create schema inspect; create schema river; create table public.chats ()",
			"schema inspect, schema river, table public.chats already exist"},
		"our policy": {"create policy throughline_chat_listeners on realtime.messages for select using (false)",
			"policy throughline_chat_listeners on realtime.messages already exist"},

		// A plain Postgres lacks what every Supabase project has.
		"the schema auth": {"drop schema auth cascade", "schema auth, table auth.users, function auth.uid() are missing: use the database of a Supabase project"},
		"its users":       {"drop table auth.users cascade", "table auth.users are missing"},
		"its functions":   {"drop function auth.uid() cascade", "function auth.uid() are missing"},
		"the right to make the history": {"revoke create on database %s from postgres, public",
			"the role postgres may not make or change the schema supabase_migrations: connect as the role postgres of the project"},
		"the right to create schemas": {"revoke create on database %s from postgres, public; create schema supabase_migrations authorization postgres; " +
			"create table supabase_migrations.schema_migrations (version text primary key, statements text[], name text); " +
			"alter table supabase_migrations.schema_migrations owner to postgres",
			"the role postgres may not create schemas in this database: connect as"},
		"the right to create tables":  {"revoke create on schema public from postgres, public", "may not create tables in the schema public"},
		"the right to refer to users": {"revoke references on auth.users from postgres", "may not refer to auth.users"},
		"the right to use auth":       {"revoke usage on schema auth from postgres, anon, authenticated, service_role", "may not use the schema auth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := testkit.NewEmptyDatabase(t)
			testkit.Exec(t, connect(t, database.AdminDSN), strings.ReplaceAll(c.setup, "%s", database.Name))
			reason := refused(t, database)
			assert.Truef(t, strings.Contains(reason, c.want) && !strings.Contains(reason, "\n"), "%q", reason)
		})
	}
}

// What an app has under other names is its own business.
func TestMigrateBesideTheAppsOwnNames(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	testkit.Exec(t, connect(t, database.DSN), `
		create schema private; create table private.chats (); create schema app; create table app.messages (); create table app.chats ();
		create table public.river_job (id int); create type public.river_job_state as enum ('available');
		create table public.chat (); create table public.messages_archive (id int);
		create function public.keep_chat() returns int language sql as 'select 1';
		create policy listeners on realtime.messages for select using (false)`)
	applied, err := supabase.Migrate(t.Context(), database.DSN, silent)
	diff := cmp.Diff(localMigrations(t), applied)
	assert.Truef(t, err == nil && diff == "", "applied: %v %s", err, diff)
}

// newCluster is a server of its own, for tests of what belongs to a whole cluster, such as roles. It has the databases one
// and two, which look like fresh Supabase projects, and plain, which does not.
func newCluster(t *testing.T) (admin *pgx.Conn, at func(database string) string) {
	server := testkit.NewServer(t)
	admin = connect(t, server.AdminDSN)
	for _, name := range []string{"one", "two", "plain"} {
		testkit.Exec(t, admin, "create database "+name)
		testkit.Exec(t, admin, "grant all on database "+name+" to postgres")
	}
	at = func(database string) string {
		return strings.Replace(server.Direct(), "/postgres?", "/"+database+"?", 1)
	}
	for _, name := range []string{"one", "two"} {
		require.NoError(t,
			localpg.Bootstrap(t.Context(), strings.Replace(server.AdminDSN, "/postgres?", "/"+name+"?", 1), supabase.BootstrapSQL))
	}
	return admin, at
}

func TestMigrateNamesWhatAClusterLacks(t *testing.T) {
	t.Parallel()
	admin, at := newCluster(t)
	testkit.Exec(t, admin, "alter role throughline_worker bypassrls; alter role throughline_app noinherit; alter role postgres nocreaterole")
	for database, want := range map[string]string{
		"plain": "schema auth, table auth.users, function auth.uid() are missing",
		"one":   "may not create roles",
	} {
		_, err := supabase.Migrate(t.Context(), at(database), silent)
		_, ok := errors.AsType[*supabase.UnusableError](err)
		assert.Truef(t, ok && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "role throughline_app, role throughline_worker already exist"),
			"%s: %v", database, err)
	}
	testkit.Exec(t, admin, "alter role throughline_worker nobypassrls; alter role throughline_app inherit; alter role postgres createrole")
	if testkit.Ask[bool](t, admin, "select current_setting('server_version_num')::int >= 160000") {
		testkit.Exec(t, admin, "revoke admin option for authenticated from postgres")
		_, err := supabase.Migrate(t.Context(), at("one"), silent)
		assert.Truef(t, err != nil && strings.Contains(err.Error(), "the role postgres may not grant anon and authenticated"),
			"without the admin option: %v", err)
		testkit.Exec(t, admin, "grant authenticated to postgres with admin option")
	}
	testkit.Exec(t, admin, "alter role authenticated rename to signed_in")
	_, err := supabase.Migrate(t.Context(), at("one"), silent)
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "role authenticated are missing"),
		"without a role: %v", err)
}

// Two databases of a cluster share the roles, and both migrations want to make and grant them.
func TestMigrateTwoDatabasesOfAClusterAtOnce(t *testing.T) {
	t.Parallel()
	admin, at := newCluster(t)
	testkit.Exec(t, admin, `revoke authenticated from throughline_app; revoke anon from throughline_worker;
		revoke throughline_app, throughline_worker from postgres`)
	var both sync.WaitGroup
	for _, database := range []string{"one", "two"} {
		both.Go(func() {
			_, err := supabase.Migrate(t.Context(), at(database), silent)
			assert.NoErrorf(t, err, "%s", database)
		})
	}
	both.Wait()
	if !testkit.Ask[bool](t, admin, `select pg_has_role('throughline_app', 'authenticated', 'usage') and pg_has_role('throughline_worker', 'anon', 'usage')
		and pg_has_role('postgres', 'throughline_app', 'member') and pg_has_role('postgres', 'throughline_worker', 'member')`) {
		t.Error("a grant is missing")
	}
}

// A database that was migrated before the first release has our tables under other numbers.
func TestMigrateOfAnUnreleasedState(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	if _, err := supabase.Migrate(t.Context(), database.DSN, silent); err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, connect(t, database.DSN), `
		delete from supabase_migrations.schema_migrations where name = 'check_names';
		update supabase_migrations.schema_migrations set version = '20261122' || right(version, 6) where version like '20261124%'`)
	applied, err := supabase.Migrate(t.Context(), database.DSN, silent)
	assert.Truef(t, err != nil && len(applied) == 0 && strings.Contains(err.Error(), "it was migrated by Throughline before its first release"),
		"%v, %v", applied, err)
}

// The lists of the check are what the migrations create in public. If this fails, correct the lists.
func TestCheckKnowsAllNamesInPublic(t *testing.T) {
	t.Parallel()
	conn := connect(t, testkit.NewDatabase(t).DSN)
	text, err := os.ReadFile(filepath.Join("migrations", checkNames+".sql"))
	require.NoError(t, err)
	for list, kinds := range map[string]string{"tables": "r p v m S f c", "indexes": "i I"} {
		made := testkit.Ask[[]string](t, conn, `select array_agg(relname::text order by relname collate "C") from pg_class
			where relnamespace = 'public'::regnamespace and relkind::text = any(string_to_array($1, ' '))`, kinds)
		array := regexp.MustCompile(`(?s)\b` + list + ` constant text\[\] := array\[(.*?)\]`).FindSubmatch(text)
		require.Truef(t, array != nil, "there is no list of %s", list)
		var listed []string
		for _, quoted := range regexp.MustCompile(`'(\w+)'`).FindAllSubmatch(array[1], -1) {
			listed = append(listed, string(quoted[1]))
		}
		slices.Sort(listed)
		assert.Equalf(t, "", cmp.Diff(made, listed), "%s that exist (-) and that %s lists (+):\n", list, checkNames)
	}
	if others := testkit.Ask[[]string](t, conn, `
		select coalesce(array_agg(name), '{}') from (
		  select proname::text from pg_proc where pronamespace = 'public'::regnamespace
		  union all select typname::text from pg_type where typnamespace = 'public'::regnamespace and typrelid = 0 and typelem = 0
		  union all select nspname::text from pg_namespace where nspname not in ('throughline', 'inspect', 'river', 'supabase_migrations', 'testkit')
		    and nspname !~ '^pg_' and nspname not in ('public', 'auth', 'extensions', 'graphql_public', 'information_schema', 'realtime')
		  union all select polname::text from pg_policy
		   where polrelid = 'realtime.messages'::regclass and polname <> 'throughline_chat_listeners') made (name)`); len(others) > 0 {
		t.Errorf("made where %s does not look: %v", checkNames, others)
	}
	assert.Equal(t, checkNames, localMigrations(t)[0], "the first migration")
}

// The Supabase CLI stops at the same sentence.
func TestCLINamesWhatIsTaken(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	testkit.Exec(t, connect(t, database.DSN), "create table public.chats ()")
	out := newCLIProject(t, ourMigrations(t)).fail(t, "db", "push", remote(database), "--yes")
	assert.Containsf(t, out,
		"Throughline cannot use this database, and nothing was applied: table public.chats already exist", "%v", out)
	history := readHistory(t, database.DSN)
	assert.Truef(t, len(history) == 0, "applied: %v", fmt.Sprint(history))
}

// Nothing is released, so a change of what a migration makes is made there: no later one changes or replaces it.
func TestMigrationsMakeEverythingOnce(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`(?im)^ *create (?:or replace )?(?:unique )?(function|table|view|(?:constraint )?trigger|index) ([\w.]+)`)
	changed := regexp.MustCompile(`(?im)^ *(?:drop|create or replace|alter table .*\badd column) .*|^ *add column .*`)
	functions, first := 0, map[string]string{}
	for file, text := range ourMigrations(t) {
		if strings.Contains(file, "_river_") {
			continue
		}
		for _, line := range changed.FindAllString(string(text), -1) {
			t.Errorf("%s: %s", file, line)
		}
		for _, found := range made.FindAllStringSubmatch(string(text), -1) {
			thing := strings.ToLower(found[1] + " " + found[2])
			other, twice := first[thing]
			assert.Falsef(t, twice, "%s is in %s and %s", thing, other, file)
			first[thing] = file
			if found[1] == "function" {
				functions++
			}
		}
	}
	assert.Truef(t, functions >= 50, "%d functions were found in the migrations", functions)
}

// What runs with its owner's rights passes by the policies, so the comment of each such function says why it has to.
func TestOwnersRightsHaveAReason(t *testing.T) {
	t.Parallel()
	function := regexp.MustCompile(`(?m)^((?:--.*\n)*)create function ([\w.]+)[^$]*security definer`)
	found := 0
	for file, text := range ourMigrations(t) {
		head, _, _ := strings.Cut(string(text), "\n\n") // the reason of a file's functions may stand there
		for _, match := range function.FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(match[1]+head, "SECURITY DEFINER") && !strings.Contains(match[1], "SECURITY\n-- DEFINER") {
				t.Errorf("%s: %s does not say why", file, match[2])
			}
		}
	}
	assert.Truef(t, found >= 10, "%d functions with their owner's rights were found", found)
}

// What an app's owner hands on about privacy names every table that there is.
func TestPrivacyPageNamesEveryTable(t *testing.T) {
	t.Parallel()
	named := strings.ReplaceAll(readText(t, "../docs/privacy.md"), "`…_", "`conversation_brief_")
	tables := 0
	for _, text := range ourMigrations(t) {
		for _, made := range regexp.MustCompile(`(?m)^create table public\.([a-z_]+)`).FindAllSubmatch(text, -1) {
			tables++
			assert.Containsf(t, named, "`"+string(made[1])+"`", "docs/privacy.md does not name the table %s", made[1])
		}
	}
	assert.Truef(t, tables >= 18, "%d tables were found in the migrations", tables)
}

func readText(t *testing.T, path string) string {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}
