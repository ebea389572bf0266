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
	dir := t.TempDir()
	for _, name := range []string{"postgres", "initdb"} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
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
	dir := fakePostgres(t, "99.1")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if got, err := FindBinaries(t.TempDir(), 0); err != nil || got != dir {
		t.Errorf("got %q, %v; want %q", got, err, dir)
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
