package supabase_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

// These tests run the real Supabase CLI, because either tool must be able to continue where the other stopped.

// cliProject is a copy of our CLI project, so that the CLI writes nothing into the source tree.
type cliProject struct {
	program string
	dir     string
	home    string
}

// newCLIProject makes a project with the given migrations, by file name.
func newCLIProject(t *testing.T, migrations map[string][]byte) cliProject {
	project := cliProject{program: findCLI(t), dir: t.TempDir(), home: t.TempDir()}
	folder := filepath.Join(project.dir, "supabase", "migrations")
	require.NoError(t, os.MkdirAll(folder, 0o750))
	config, err := os.ReadFile("config.toml")
	require.NoError(t, err)
	write(t, filepath.Join(project.dir, "supabase", "config.toml"), config)
	for name, text := range migrations {
		write(t, filepath.Join(folder, name), text)
	}
	return project
}

func write(t *testing.T, path string, text []byte) {
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// findCLI looks in this folder and its parents for the CLI that scripts/setup installs.
func findCLI(t *testing.T) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; ; dir = filepath.Dir(dir) {
		program := filepath.Join(dir, ".local", "npm", "node_modules", ".bin", "supabase")
		if _, err := os.Stat(program); err == nil {
			return program
		}
		require.True(t, dir != filepath.Dir(dir),
			"the Supabase CLI is not installed: scripts/setup test puts it into .local/npm")
	}
}

// run returns what the command printed, or fails the test.
func (p cliProject) run(t *testing.T, arguments ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := p.command(t, arguments)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("supabase %v: %v\n%s%s", arguments, err, stderr.Bytes(), out)
	}
	return out
}

// fail returns what the command printed, to both outputs, or fails the test if it succeeds.
func (p cliProject) fail(t *testing.T, arguments ...string) string {
	out, err := p.command(t, arguments).CombinedOutput()
	_, failed := errors.AsType[*exec.ExitError](err)
	require.Truef(t, failed, "supabase %v: %v\n%s", arguments, err, out)
	return string(out)
}

func (p cliProject) command(t *testing.T, arguments []string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), p.program, append(arguments, "--workdir="+p.dir)...)
	cmd.Env = append(os.Environ(), "HOME="+p.home, "SUPABASE_TELEMETRY_DISABLED=1", "DO_NOT_TRACK=1", "NO_COLOR=1")
	return cmd
}

// remote returns the flag for a database. It leads around a transaction pooler, which refuses the options
// that the CLI connects with.
func remote(database testkit.Database) string { return "--remote=" + database.Direct() }

// ourMigrations returns the embedded migrations, by file name.
func ourMigrations(t *testing.T) map[string][]byte {
	found := map[string][]byte{}
	for _, name := range localMigrations(t) {
		text, err := fs.ReadFile(supabase.Migrations, "migrations/"+name+".sql")
		require.NoError(t, err)
		found[name+".sql"] = text
	}
	return found
}

func TestCLIKnowsWhatWeApplied(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	project := newCLIProject(t, ourMigrations(t))
	_, err := supabase.Migrate(t.Context(), database.DSN, silent)
	require.NoError(t, err)
	project.agrees(t, database, len(localMigrations(t)))
	before := readHistory(t, database.DSN)
	project.run(t, "db", "push", remote(database), "--yes")
	assert.Equal(t, "", cmp.Diff(before, readHistory(t, database.DSN)), "its push changed the history")
}

func TestWeKnowWhatTheCLIApplied(t *testing.T) {
	t.Parallel()
	database, ours := testkit.NewEmptyDatabase(t), testkit.NewEmptyDatabase(t)
	project := newCLIProject(t, ourMigrations(t))
	project.run(t, "db", "push", remote(database), "--yes")
	applied, err := supabase.Migrate(t.Context(), database.DSN, silent)
	assert.Truef(t, err == nil && len(applied) == 0, "after its push we still apply %v (%v)", applied, err)
	if _, err := supabase.Migrate(t.Context(), ours.DSN, silent); err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, "", cmp.Diff(versions(t, database), versions(t, ours)), "history of the CLI (-) and ours (+)")
	assert.Equal(t, "", cmp.Diff(describeHistoryTable(t, database.DSN), describeHistoryTable(t, ours.DSN)),
		"history table of the CLI (-) and ours (+)")
}

// The CLI makes the files of a project from what we wrote into the history.
func TestCLIFetchesWhatWeApplied(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	_, err := supabase.Migrate(t.Context(), database.DSN, silent)
	require.NoError(t, err)
	project := newCLIProject(t, nil)
	project.run(t, "migration", "fetch", remote(database), "--yes")
	for name, text := range ourMigrations(t) {
		fetched := readText(t, filepath.Join(project.dir, "supabase", "migrations", name))
		assert.Equalf(t, "", cmp.Diff(strings.TrimSpace(string(text)), strings.TrimRight(fetched, ";\n")+";"), "%s", name)
	}
}

// One database is started by the CLI and finished by us, the other the other way round.
func TestEitherToolGoesOnWhereTheOtherStopped(t *testing.T) {
	t.Parallel()
	names := localMigrations(t)
	all, first := ourMigrations(t), map[string][]byte{}
	for _, name := range names[:len(names)/2] {
		first[name+".sql"] = all[name+".sql"]
	}
	begunByCLI, begunByUs := testkit.NewEmptyDatabase(t), testkit.NewEmptyDatabase(t)
	newCLIProject(t, first).run(t, "db", "push", remote(begunByCLI), "--yes")
	applied, err := supabase.Migrate(t.Context(), begunByCLI.DSN, silent)
	diff := cmp.Diff(names[len(names)/2:], applied)
	assert.Truef(t, err == nil && diff == "", "after half of it by the CLI: %v %s", err, diff)
	half := fstest.MapFS{}
	for name, text := range first {
		half["migrations/"+name] = &fstest.MapFile{Data: text}
	}
	if _, err := supabase.MigrateFrom(t.Context(), begunByUs.DSN, half, silent); err != nil {
		t.Fatal(err)
	}
	newCLIProject(t, all).run(t, "db", "push", remote(begunByUs), "--yes")
	assert.Equal(t, "", cmp.Diff(versions(t, begunByCLI), versions(t, begunByUs)), "the two histories differ")
}

// The advisors are what Supabase's dashboard warns about.
func TestCLIAdvisorsHaveNothingToSay(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	project := newCLIProject(t, nil)
	project.run(t, "db", "advisors", remote(database), "--level=warn", "--fail-on=warn")
}

// The advisors do report a table without row level security.
func TestCLIAdvisorsWouldSaySo(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	testkit.Exec(t, connect(t, database.DSN), "create table public.open_to_all (id int); grant select on public.open_to_all to anon")
	project := newCLIProject(t, nil)
	out := project.fail(t, "db", "advisors", remote(database), "--level=warn", "--fail-on=warn")
	assert.Containsf(t, out, "open_to_all", "a table without row level security passes: %s", out)
}

// versions returns the names in the history by their versions. The texts beside them are split into statements by the CLI alone.
func versions(t *testing.T, database testkit.Database) map[string]string {
	names := map[string]string{}
	for _, row := range readHistory(t, database.DSN) {
		names[row.Version] = row.Name
	}
	return names
}

// describeHistoryTable returns the columns of the history: type, not null, primary key.
func describeHistoryTable(t *testing.T, dsn string) []string {
	return testkit.Ask[[]string](t, connect(t, dsn), `
		select array_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull,
		                           exists (select from pg_index where indrelid = attrelid and indisprimary and attnum = any(indkey)))
		                 order by attnum)
		  from pg_attribute
		 where attrelid = 'supabase_migrations.schema_migrations'::regclass and attnum > 0`)
}
