package supabase_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

func (p cliProject) migrations() string { return filepath.Join(p.dir, "supabase", "migrations") }

// add writes a migration of the app's.
func (p cliProject) add(t *testing.T, name, text string) {
	t.Helper()
	write(t, filepath.Join(p.migrations(), name), []byte(text))
}

// copyOurs copies our migrations into the project.
func (p cliProject) copyOurs(t *testing.T) {
	t.Helper()
	written, err := supabase.CopyMigrations(p.migrations())
	if err != nil || len(written) != len(localMigrations(t)) {
		t.Fatalf("wrote %v: %v", written, err)
	}
}

// agrees checks that the project and the database have the same migrations, so many.
func (p cliProject) agrees(t *testing.T, database testkit.Database, want int) {
	t.Helper()
	var list struct {
		Migrations []struct{ Local, Remote string }
	}
	out := p.run(t, "migration", "list", remote(database), "--output-format=json")
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, m := range list.Migrations {
		if m.Local != m.Remote {
			t.Errorf("local %q is remote %q", m.Local, m.Remote)
		}
	}
	if len(list.Migrations) != want {
		t.Errorf("it lists %d migrations, not %d", len(list.Migrations), want)
	}
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
			if applied, err := supabase.Migrate(t.Context(), database.DSN, silent); err != nil || len(applied) > 0 {
				t.Errorf("migrate applies %v: %v", applied, err)
			}
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
	if diff := cmp.Diff(localMigrations(t), applied); err != nil || diff != "" {
		t.Fatalf("applied: %v %s", err, diff)
	}
	project.add(t, latest, "alter table app_things add column latest int;")
	if out := project.fail(t, "db", "push", remote(database), "--yes"); !strings.Contains(out, "Remote migration versions not found") {
		t.Errorf("it goes on without our files: %s", out)
	}
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
	if err != nil || len(again) > 0 {
		t.Errorf("the second time: %v, %v", again, err)
	}
	lost := localMigrations(t)[3] + ".sql"
	if err := os.Remove(filepath.Join(project.migrations(), lost)); err != nil {
		t.Fatal(err)
	}
	again, err = supabase.CopyMigrations(project.migrations())
	if diff := cmp.Diff([]string{lost}, again); err != nil || diff != "" {
		t.Errorf("one was lost: %v %s", err, diff)
	}
}

func TestCopyRefusesAndWritesNothing(t *testing.T) {
	t.Parallel()
	last := localMigrations(t)[len(localMigrations(t))-1]
	for name, file := range map[string]string{"of other contents": last + ".sql", "of another name": last[:14] + "_theirs.sql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := newCLIProject(t, map[string][]byte{file: []byte("select 'mine'")})
			written, err := supabase.CopyMigrations(project.migrations())
			if err == nil || !strings.Contains(err.Error(), file+" is not our "+last+".sql, which has the same number") || len(written) > 0 {
				t.Errorf("wrote %v: %v", written, err)
			}
			if there, _ := os.ReadDir(project.migrations()); len(there) != 1 {
				t.Errorf("%d files", len(there))
			}
		})
	}
}

func TestCopyNeedsAProject(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "supabase", "migrations")
	written, err := supabase.CopyMigrations(folder)
	if err == nil || !strings.Contains(err.Error(), "there is no Supabase project here") || len(written) > 0 {
		t.Errorf("wrote %v: %v", written, err)
	}
	if _, err := os.Stat(filepath.Dir(folder)); err == nil {
		t.Error("the folder was made")
	}
}
