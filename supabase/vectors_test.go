package supabase_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

// wantReason migrates a database and wants that to stop with a sentence.
func wantReason(t *testing.T, database testkit.Database, want string) {
	t.Helper()
	const prefix = "Throughline cannot use this database, and nothing was applied: "
	reason := refused(t, database)
	assert.Truef(t, strings.Contains(reason, want) && strings.HasPrefix(reason, prefix), "%q, want %q", reason, want)
}

// serverWithout starts a server whose installation has no pgvector. It returns the folder of its extensions, and makes
// databases that look like fresh Supabase projects.
func serverWithout(t *testing.T) (extensions string, newDatabase func(name string) testkit.Database) {
	dir, err := os.MkdirTemp("", "throughline-no-vector-") // unlike t.TempDir's, one that the server's user can enter
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	original, err := localpg.FindBinaries(0)
	require.NoError(t, err)
	bin := copyInstallation(t, original, dir)
	cluster, err := localpg.Start(t.Context(), localpg.Options{
		Dir: filepath.Join(dir, "cluster"), BinDir: bin, Settings: map[string]string{"fsync": "off", "shared_buffers": "32MB"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, cluster.Destroy())
	})
	admin := connect(t, cluster.DSN(localpg.Superuser, "postgres"))
	extensions = filepath.Join(testkit.Ask[string](t, admin, "select setting from pg_config where name = 'SHAREDIR'"), "extension")
	require.Truef(t, strings.HasPrefix(extensions, dir) && os.Remove(filepath.Join(extensions, "vector.control")) == nil,
		"pgvector is not in %s", extensions)
	return extensions, func(name string) testkit.Database {
		database := testkit.Database{Name: name, DSN: cluster.DSN("postgres", name), AdminDSN: cluster.DSN(localpg.Superuser, name)}
		testkit.Exec(t, admin, "create database "+name)
		require.NoError(t, localpg.Bootstrap(t.Context(), database.AdminDSN, supabase.BootstrapSQL))
		return database
	}
}

// copyInstallation copies the Postgres around a folder of programs, for every user to run, and returns the copy's folder
// of programs. Debian keeps several versions side by side; everything else is in one piece.
func copyInstallation(t *testing.T, binDir, to string) string {
	prefix, parts := filepath.Dir(binDir), []string{"bin", "lib", "share"}
	if version := filepath.Base(prefix); strings.HasSuffix(prefix, "/lib/postgresql/"+version) {
		prefix, parts = filepath.Join(prefix, "../../.."), []string{"lib/postgresql/" + version, "share/postgresql/" + version}
	}
	for _, part := range parts {
		err := os.MkdirAll(filepath.Join(to, filepath.Dir(part)), 0o755)
		if err == nil {
			err = exec.Command("cp", "-a", filepath.Join(prefix, part), filepath.Join(to, part)).Run()
		}
		if err == nil {
			err = exec.Command("chmod", "-R", "a+rX", to).Run()
		}
		require.NoError(t, err)
	}
	return filepath.Join(to, strings.TrimPrefix(binDir, prefix))
}

func TestMigrateOnAServerWithoutPgvector(t *testing.T) {
	t.Parallel()
	extensions, newDatabase := serverWithout(t)
	fresh, older := newDatabase("fresh"), newDatabase("older")
	major := testkit.Ask[int](t, connect(t, fresh.DSN), "select current_setting('server_version_num')::int / 10000")
	wantReason(t, fresh, fmt.Sprintf("this server has no pgvector: install its package (on Debian: postgresql-%d-pgvector)", major))

	// Another extension of that name, or an old package: the type halfvec came with 0.7.
	write(t, filepath.Join(extensions, "vector--0.6.2.sql"), []byte("create type odd as (a int);\n"))
	write(t, filepath.Join(extensions, "vector.control"), []byte("default_version = '0.6.2'\nrelocatable = true\ntrusted = true\n"))
	for _, path := range []string{"vector--0.6.2.sql", "vector.control"} {
		require.NoError(t, os.Chmod(filepath.Join(extensions, path), 0o644))
	}
	wantReason(t, fresh, "pgvector 0.6.2 is too old: install 0.7 or later on the server")
	testkit.Exec(t, connect(t, older.AdminDSN), "create extension vector with schema extensions")
	wantReason(t, older, "pgvector 0.6.2 is too old: install 0.7 or later on the server")
}

// pgvector is not a trusted extension: only a superuser creates it, or a role that the server's owner lets do so, as
// on Supabase.
func TestMigrateAsARoleThatMayNotCreatePgvector(t *testing.T) {
	t.Parallel()
	database := testkit.NewEmptyDatabase(t)
	testkit.Exec(t, connect(t, database.AdminDSN), "drop extension vector")
	wantReason(t, database, `the role postgres may not create the extension vector: run "create extension vector with schema extensions" as a superuser`)
}

// embedding is a vector in the form that Postgres reads, filled with zeros.
func embedding(begin ...float32) string {
	vector, _ := json.Marshal(append(begin, make([]float32, 512-len(begin))...)) // numbers can be encoded
	return string(vector)
}

// Where it is already, it is used as it is.
func TestMigrateUsesPgvectorWhereItIs(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"public", "My Vectors"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			database := testkit.NewEmptyDatabase(t)
			admin, name := connect(t, database.AdminDSN), pgx.Identifier{schema}.Sanitize()
			testkit.Exec(t, admin, "create schema if not exists "+name+"; grant usage on schema "+name+" to postgres; alter extension vector set schema "+name)
			applied, err := supabase.Migrate(t.Context(), database.DSN, silent)
			diff := cmp.Diff(localMigrations(t), applied)
			require.Truef(t, err == nil && diff == "", "applied: %v %s", err, diff)
			wantVectors(t, admin, schema)
		})
	}
}

// A role that may create it does, as postgres of a Supabase project may.
func TestMigrateCreatesPgvector(t *testing.T) {
	t.Parallel()
	admin, at := newCluster(t)
	testkit.Exec(t, admin, "alter role postgres superuser")
	for database, setup := range map[string]string{"one": "drop extension vector", "two": "drop schema extensions cascade"} {
		conn := connect(t, at(database))
		testkit.Exec(t, conn, setup)
		applied, err := supabase.Migrate(t.Context(), at(database), silent)
		diff := cmp.Diff(localMigrations(t), applied)
		require.Truef(t, err == nil && diff == "", "%s: applied: %v %s", database, err, diff)
		wantVectors(t, conn, "extensions")
	}
}

// wantVectors wants the extension in a schema, and that the server's role compares vectors without a right to that schema.
func wantVectors(t *testing.T, conn *pgx.Conn, schema string) {
	got := testkit.Ask[string](t, conn, "select nspname from pg_extension e join pg_namespace n on n.oid = extnamespace where extname = 'vector'")
	assert.Equal(t, schema, got, "it is in")
	testkit.Exec(t, conn, "revoke usage on schema "+pgx.Identifier{schema}.Sanitize()+" from public, authenticated; set role throughline_app")
	a, b := embedding(0.5, 0.5, 0.5, 0.5), embedding(0.5, -0.5, 0.5, 0.5)
	const product = "select $1::throughline.embedding operator(throughline.<#>) $2::throughline.embedding"
	testkit.Want(t, conn, -0.5, product, a, b) // the negative one: vectors are of length 1
	testkit.Want(t, conn, 0.0, product, a, embedding())
}
