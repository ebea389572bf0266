package localpg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakePostgres is a folder with programs that only know their version.
func fakePostgres(t *testing.T, version string) string {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "bin")
	fakePrograms(t, dir, version)
	return dir
}

func fakePrograms(t *testing.T, dir, version string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// addVector gives a fake Postgres the control file of pgvector.
func addVector(t *testing.T, binDir, version string) {
	t.Helper()
	folder := filepath.Join(shareDir(binDir), "extension")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	control := "comment = 'vector data type'\ndefault_version = '" + version + "'\nrelocatable = true\n"
	if err := os.WriteFile(filepath.Join(folder, "vector.control"), []byte(control), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMajorOf(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"15.18 (Debian 15.18-0+deb12u1)": 15, "17.10": 17, "18beta1": 18} {
		if got, err := majorOf(fakePostgres(t, version)); err != nil || got != want {
			t.Errorf("majorOf(%q) = %d, %v", version, got, err)
		}
	}
	if _, err := majorOf(t.TempDir()); err == nil {
		t.Error("an empty folder has a version")
	}
}

func TestEnvironmentDecidesOrSaysWhyNot(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		major     int
		wrong     string
	}{
		{"good", fakePostgres(t, "16.3"), 0, ""},
		{"empty folder", t.TempDir(), 0, "no working postgres"},
		{"too old", fakePostgres(t, "14.9"), 0, "15 or later"},
		{"other major", fakePostgres(t, "16.3"), 17, "needs Postgres 17"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(binEnv, c.dir)
			got, err := FindBinaries("../../..", c.major)
			if c.wrong == "" && (err != nil || got != c.dir) {
				t.Errorf("got %q, %v", got, err)
			}
			if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), binEnv)) {
				t.Errorf("got %v, want %q", err, c.wrong)
			}
		})
	}
}

func TestPathComesFirst(t *testing.T) {
	dir, links := fakePostgres(t, "99.1"), t.TempDir()
	addVector(t, dir, "0.8.0")
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.Symlink(filepath.Join(dir, name), filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", links+":"+os.Getenv("PATH"))
	if got, err := FindBinaries(t.TempDir(), 0); err != nil || got != dir {
		t.Errorf("got %q, %v; want %q", got, err, dir)
	}
}

// The copies of scripts/pgvector are found, and preferred to a system's Postgres without pgvector.
func TestOneWithPgvectorIsPreferred(t *testing.T) {
	system, root := fakePostgres(t, "98.4"), t.TempDir()
	copied := filepath.Join(root, ".local", "pgsql", "lib", "postgresql", "98", "bin")
	t.Setenv("PATH", system+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name  string
		setup func()
		want  string
		has   bool
	}{
		{"one has none", func() {}, system, false},
		{"nor has the other", func() { fakePrograms(t, copied, "98.3") }, system, false},
		{"one too old", func() { addVector(t, copied, "0.6.2") }, system, false},
		{"the copy has it", func() { addVector(t, copied, "0.7.0") }, copied, true},
		{"the system's package came", func() { addVector(t, system, "0.10.1") }, system, true},
	} {
		c.setup()
		if got, err := FindBinaries(root, 98); err != nil || got != c.want || HasVector(got) != c.has {
			t.Errorf("%s: got %q, %v, with vector %v; want %q", c.name, got, err, HasVector(got), c.want)
		}
	}
	bare := fakePostgres(t, "98.4")
	t.Setenv(binEnv, bare)
	if got, err := FindBinaries(root, 98); err != nil || got != bare {
		t.Errorf("%s does not win: %q, %v", binEnv, got, err)
	}
}

func TestMissingBinariesAreOneClearSentence(t *testing.T) {
	t.Parallel()
	_, err := FindBinaries(t.TempDir(), 98)
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v", err)
	}
	for _, word := range []string{"no Postgres 98", "apt-get install postgresql", "scripts/setup"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q lacks %q", err, word)
		}
	}
}
