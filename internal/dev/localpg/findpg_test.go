package localpg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakePostgres makes programs that only know their version, and for a version of pgvector its control file.
func fakePostgres(t *testing.T, version, vector string) (binDir string) {
	home := folder(t)
	files := map[string]string{}
	for _, name := range []string{"postgres", "initdb"} {
		files["bin/"+name] = fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version)
	}
	if vector != "" {
		files["share/postgresql/extension/vector.control"] = "comment = 'vector data type'\ndefault_version = '" + vector + "'\n"
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	return filepath.Join(home, "bin")
}

//nolint:paralleltest // the environment belongs to the process
func TestEnvironmentDecidesOrSaysWhyNot(t *testing.T) {
	good := fakePostgres(t, "16.3 (Debian 16.3-0+deb13u1)", "")
	for _, c := range []struct {
		dir   string
		major int
		wrong string
	}{
		{good, 0, ""},
		{good, 16, ""},
		{fakePostgres(t, "18beta1", ""), 18, ""},
		{t.TempDir(), 0, "no working postgres"},
		{fakePostgres(t, "14.9", ""), 0, "15 or later"},
		{good, 17, "needs Postgres 17"},
	} {
		t.Setenv("THROUGHLINE_PG_BIN", c.dir)
		got, err := FindBinaries(c.major)
		assert.Truef(t, c.wrong != "" || (err == nil && got == c.dir), "got %q, %v", got, err)
		assert.Truef(t, c.wrong == "" || (err != nil && strings.Contains(err.Error(), c.wrong) && strings.Contains(err.Error(), "THROUGHLINE_PG_BIN")),
			"got %v, want %q", err, c.wrong)
	}
}

// The one in the PATH wins, unless another has a pgvector that is new enough.
//
//nolint:paralleltest // the environment belongs to the process
func TestOneWithPgvectorIsPreferred(t *testing.T) {
	path := os.Getenv("PATH")
	usual, err := FindBinaries(0)
	require.NoError(t, err)
	for vector, first := range map[string]bool{"": false, "0.6.2": false, "0.7.0": true, "0.10.1": true} {
		fake := fakePostgres(t, "99.1", vector)
		links := t.TempDir()
		require.NoError(t, os.Symlink(filepath.Join(fake, "postgres"), filepath.Join(links, "postgres")))
		t.Setenv("PATH", links+":"+path)
		want := usual
		if first {
			want = fake
		}
		if got, err := FindBinaries(0); err != nil || got != want {
			t.Errorf("pgvector %q: got %q, %v; want %q", vector, got, err, want)
		}
		if got, err := FindBinaries(99); err != nil || got != fake {
			t.Errorf("pgvector %q: got %q, %v as Postgres 99; want %q", vector, got, err, fake)
		}
	}
}

func TestMissingBinariesAreOneClearSentence(t *testing.T) {
	t.Parallel()
	_, err := FindBinaries(98)
	require.Truef(t, err != nil && !strings.Contains(err.Error(), "\n"), "got %v", err)
	for _, word := range []string{"no Postgres 98", "apt-get install postgresql", "scripts/setup"} {
		assert.Containsf(t, err.Error(), word, "%q lacks %q", err, word)
	}
}
