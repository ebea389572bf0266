package supabase_test

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var silent = slog.New(slog.DiscardHandler)

func connect(t *testing.T, dsn string) *pgx.Conn { return testkit.Connect(t, dsn) }

// historyRow is a row of the history of migrations.
type historyRow struct {
	Version    string
	Name       string
	Statements []string
}

func readHistory(t *testing.T, dsn string) []historyRow {
	rows, err := connect(t, dsn).Query(t.Context(),
		"select version, name, statements from supabase_migrations.schema_migrations order by version")
	require.NoError(t, err)
	history, err := pgx.CollectRows(rows, pgx.RowToStructByPos[historyRow])
	require.NoError(t, err)
	return history
}

// localMigrations returns the file names in the migrations folder, without extension.
func localMigrations(t *testing.T) []string {
	paths, err := fs.Glob(supabase.Migrations, "migrations/*.sql")
	require.Truef(t, err == nil && len(paths) != 0, "no migrations are embedded: %v", err)
	var names []string
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(path, "migrations/"), ".sql"))
	}
	slices.Sort(names)
	return names
}

func TestMigrateAppliesAllOnce(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	conn := connect(t, database.DSN)
	pending, err := supabase.Pending(t.Context(), conn)
	diff := cmp.Diff(localMigrations(t), pending)
	assert.Truef(t, err == nil && diff == "", "pending before: %v %s", err, diff)
	applied, err := supabase.Migrate(t.Context(), database.DSN, silent)
	diff = cmp.Diff(localMigrations(t), applied)
	require.Truef(t, err == nil && diff == "", "applied: %v %s", err, diff)
	pending, err = supabase.Pending(t.Context(), conn)
	assert.Truef(t, err == nil && len(pending) == 0, "pending after: %v, %v", pending, err)
	applied, err = supabase.Migrate(t.Context(), database.DSN, silent)
	assert.Truef(t, err == nil && len(applied) == 0, "the second time: %v, %v", applied, err)
	// For a table that was analyzed while it was empty Postgres plans as if it stayed so, until it analyzes the table again.
	if analyzed := testkit.Ask[[]string](t, conn, `select coalesce(array_agg(oid::regclass::text), '{}') from pg_class
		where relkind = 'r' and relnamespace = 'public'::regnamespace and reltuples = 0`); len(analyzed) > 0 {
		t.Errorf("analyzed: %v", analyzed)
	}
}

func TestMigrateAtOnceAppliesEachOnce(t *testing.T) {
	t.Parallel()
	for name, through := range map[string]func(database testkit.Database) string{
		"directly": func(database testkit.Database) string { return database.DSN },
		"a transaction pooler": func(database testkit.Database) string {
			return testkit.NewTransactionPooler(t, database) + "&pool_max_conns=4"
		},
	} {
		dsn := through(testkit.NewEmptyDatabase(t))
		applied := make([][]string, 4)
		var wait sync.WaitGroup
		for i := range applied {
			wait.Go(func() {
				var err error
				if applied[i], err = supabase.Migrate(t.Context(), dsn, silent); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wait.Wait()
		all := slices.Concat(applied...)
		slices.Sort(all)
		assert.Equalf(t, "", cmp.Diff(localMigrations(t), all), "%s: applied by all together", name)
	}
}

// files returns a file system of migrations.
func files(named map[string]string) fstest.MapFS {
	made := fstest.MapFS{}
	for name, text := range named {
		made["migrations/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return made
}

func TestMigrateNamesTheLineThatFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"with a position": {"create table b ();\n\n-- ü\nselect 1,\n  'ü', nothing;\nselect 3;",
			`migration 20260102000000_wrong, line 5: ERROR: column "nothing"`},
		"without a position": {"select 1;\ncreate table a ();", `migration 20260102000000_wrong: ERROR: relation "a" already exists`},
		"in the first line":  {"slect 1;", "migration 20260102000000_wrong, line 1: ERROR: syntax error"},
		"in the last":        {"select 1;\nselect (", "migration 20260102000000_wrong, line 2: ERROR: syntax error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := testkit.NewEmptyDatabase(t)
			applied, err := supabase.MigrateFrom(t.Context(), database.DSN, files(map[string]string{
				"20260101000000_first.sql": "create table a ();",
				"20260102000000_wrong.sql": c.text,
				"20260103000000_third.sql": "create table c ();",
			}), silent)
			assert.Truef(t, err != nil && strings.HasPrefix(err.Error(), c.want), "got %v, want %s", err, c.want)
			assert.Equal(t, "", cmp.Diff([]string{"20260101000000_first"}, applied), "applied")
			history := readHistory(t, database.DSN)
			assert.Truef(t, len(history) == 1 && history[0].Name == "first", "history: %v", history)
			tables := testkit.Ask[int](t, connect(t, database.DSN), "select count(*) from pg_tables where schemaname = 'public'")
			assert.Equalf(t, 1, tables, "%d tables of a failed file's are left", tables-1)
		})
	}
}

// One of ours that is missing between others of ours is applied.
func TestMigrateAppliesWhatAnEarlierOneMissed(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	ours := map[string]string{"20260101000000_a.sql": "select 1", "20260103000000_c.sql": "select 1"}
	if _, err := supabase.MigrateFrom(t.Context(), database.DSN, files(ours), silent); err != nil {
		t.Fatal(err)
	}
	ours["20260102000000_b.sql"] = "select 1"
	applied, err := supabase.MigrateFrom(t.Context(), database.DSN, files(ours), silent)
	diff := cmp.Diff([]string{"20260102000000_b"}, applied)
	assert.Truef(t, err == nil && diff == "", "applied: %v %s", err, diff)
}

func TestMigrateRefusesNumbersThatAreTaken(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	if _, err := supabase.MigrateFrom(t.Context(), database.DSN, files(map[string]string{"20260101000000_theirs.sql": "select 1"}), silent); err != nil {
		t.Fatal(err)
	}
	ours := files(map[string]string{"20260101000000_ours.sql": "select 1"})
	applied, err := supabase.MigrateFrom(t.Context(), database.DSN, ours, silent)
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "20260101000000_theirs; give that another number") && len(applied) == 0,
		"the app has the number: %v, %v", applied, err)
	two := files(map[string]string{"20260101000000_a.sql": "", "20260101000000_b.sql": ""})
	_, err = supabase.MigrateFrom(t.Context(), database.DSN, two, silent)
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "two migrations have the number 20260101000000"),
		"two of one number: %v", err)
}

// Old CLIs wrote no names into the history.
func TestMigrateKnowsItsOwnWithoutAName(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	ours := files(map[string]string{"20260101000000_a.sql": "create table a ()"})
	_, err := supabase.MigrateFrom(t.Context(), database.DSN, ours, silent)
	require.NoError(t, err)
	testkit.Exec(t, connect(t, database.DSN), "update supabase_migrations.schema_migrations set name = null")
	applied, err := supabase.MigrateFrom(t.Context(), database.DSN, ours, silent)
	assert.Truef(t, err == nil && len(applied) == 0, "applied again: %v, %v", applied, err)
}

// A setting that one migration leaves on the session does not affect the next.
func TestMigrateResetsSettingsBetweenFiles(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	_, err := supabase.MigrateFrom(t.Context(), database.DSN, files(map[string]string{
		"20260101000000_sets.sql":  "select pg_catalog.set_config('search_path', '', false);",
		"20260102000000_needs.sql": "create table in_public ();",
		"ignored.sql":              "no migration at all",
	}), silent)
	assert.NoError(t, err)
}

func TestMigrateSaysWhatIsWrongWithTheDSN(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://%zz", "postgres://nobody@127.0.0.1:1/nothing?connect_timeout=1"} {
		_, err := supabase.Migrate(t.Context(), dsn, silent)
		assert.Errorf(t, err, "%s: no error", dsn)
	}
}

func (p cliProject) migrations() string { return filepath.Join(p.dir, "supabase", "migrations") }

// add writes a migration of the app's.
func (p cliProject) add(t *testing.T, name, text string) {
	write(t, filepath.Join(p.migrations(), name), []byte(text))
}

// copyOurs copies our migrations into the project.
func (p cliProject) copyOurs(t *testing.T) {
	written, err := supabase.CopyMigrations(p.migrations())
	require.Truef(t, err == nil && len(written) == len(localMigrations(t)), "wrote %v: %v", written, err)
}

// agrees checks that the project and the database have the same migrations, so many.
func (p cliProject) agrees(t *testing.T, database testkit.Database, want int) {
	t.Helper()
	var list struct {
		Migrations []struct{ Local, Remote string }
	}
	out := p.run(t, "migration", "list", remote(database), "--output-format=json")
	err := json.Unmarshal(out, &list)
	require.Truef(t, err == nil, "%v in %s", err, out)
	for _, m := range list.Migrations {
		assert.Truef(t, m.Local == m.Remote, "local %q is remote %q", m.Local, m.Remote)
	}
	assert.Truef(t, len(list.Migrations) == want, "it lists %d migrations, not %d", len(list.Migrations), want)
}

const (
	earlier = "20250101000000_app_things.sql"
	later   = "20270101000000_app_later.sql"
	latest  = "20280101000000_app_latest.sql"
)

// An app with migrations of its own copies ours and pushes them. Our own migrate finds nothing to do, and the app goes on.
func TestCopiedMigrationsArePushedByTheCLI(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, next string }{
		"after an earlier migration of the app": {earlier, later},
		"after a later migration of the app":    {later, latest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := testkit.NewEmptyDatabase(t)
			project := newCLIProject(t, map[string][]byte{c.first: []byte("create table app_things (id int); alter table app_things enable row level security;")})
			project.run(t, "db", "push", remote(database), "--yes")
			project.copyOurs(t)
			project.run(t, "db", "push", remote(database), "--yes", "--include-all")
			applied, err := supabase.Migrate(t.Context(), database.DSN, silent)
			assert.Truef(t, err == nil && len(applied) == 0, "migrate applies %v: %v", applied, err)
			project.add(t, c.next, "alter table app_things add column more int;")
			project.run(t, "db", "push", remote(database), "--yes")
			project.agrees(t, database, len(localMigrations(t))+2)
			project.run(t, "db", "advisors", remote(database), "--level=warn", "--fail-on=warn")
		})
	}
}

// Our migrate comes first, between earlier and later migrations of the app. Once ours are copied, the app pushes on.
func TestCLIGoesOnAfterOurMigrate(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	project := newCLIProject(t, map[string][]byte{
		earlier: []byte("create table app_things (id int); alter table app_things enable row level security;"),
		later:   []byte("alter table app_things add column later int;"),
	})
	project.run(t, "db", "push", remote(database), "--yes")
	applied, err := supabase.Migrate(t.Context(), database.DSN, silent)
	diff := cmp.Diff(localMigrations(t), applied)
	require.Truef(t, err == nil && diff == "", "applied: %v %s", err, diff)
	project.add(t, latest, "alter table app_things add column latest int;")
	out := project.fail(t, "db", "push", remote(database), "--yes")
	assert.Containsf(t, out, "Remote migration versions not found", "it goes on without our files: %s", out)
	project.copyOurs(t)
	project.run(t, "db", "push", remote(database), "--yes")
	project.agrees(t, database, len(localMigrations(t))+3)
	project.run(t, "db", "advisors", remote(database), "--level=warn", "--fail-on=warn")
}

func TestCopyWritesWhatIsMissing(t *testing.T) {
	t.Parallel()
	project := newCLIProject(t, map[string][]byte{earlier: []byte("select 1"), "README.md": []byte("x")})
	project.copyOurs(t)
	for name, text := range ourMigrations(t) {
		if there, err := os.ReadFile(filepath.Join(project.migrations(), name)); err != nil || string(there) != string(text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	again, err := supabase.CopyMigrations(project.migrations())
	assert.Truef(t, err == nil && len(again) == 0, "the second time: %v, %v", again, err)
	lost := localMigrations(t)[3] + ".sql"
	require.NoError(t, os.Remove(filepath.Join(project.migrations(), lost)))
	again, err = supabase.CopyMigrations(project.migrations())
	diff := cmp.Diff([]string{lost}, again)
	assert.Truef(t, err == nil && diff == "", "one was lost: %v %s", err, diff)
}

func TestCopyRefusesAndWritesNothing(t *testing.T) {
	t.Parallel()
	last := localMigrations(t)[len(localMigrations(t))-1]
	for name, file := range map[string]string{"of other contents": last + ".sql", "of another name": last[:14] + "_theirs.sql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := newCLIProject(t, map[string][]byte{file: []byte("select 'mine'")})
			written, err := supabase.CopyMigrations(project.migrations())
			assert.Truef(t, err != nil && strings.Contains(err.Error(), file+" is not our "+last+".sql, which has the same number") && len(written) == 0,
				"wrote %v: %v", written, err)
			there, _ := os.ReadDir(project.migrations())
			assert.Truef(t, len(there) == 1, "%d files", len(there))
		})
	}
}

func TestCopyNeedsAProject(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "supabase", "migrations")
	written, err := supabase.CopyMigrations(folder)
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "there is no Supabase project here") && len(written) == 0,
		"wrote %v: %v", written, err)
	if _, err := os.Stat(filepath.Dir(folder)); err == nil {
		t.Error("the folder was made")
	}
}
