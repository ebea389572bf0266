package localpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// systemHome holds what the user of a server started by root could not reach where it belongs.
const systemHome = "/var/lib/throughline"

// setup is what a server runs with.
type setup struct {
	binDir  string
	data    string
	logFile string
	// runAs is the user of a server that root starts; nil runs it as ourselves.
	runAs *syscall.Credential
}

// newSetup chooses the user, the data folder and the binaries, and makes the data folder's parent.
func newSetup(dir, binDir string) (setup, error) {
	s := setup{logFile: filepath.Join(dir, "postgres.log")}
	var err error
	if s.runAs, err = UnprivilegedUser(); err != nil {
		return s, err
	}
	if s.data, err = place(dir, s.runAs); err != nil {
		return s, err
	}
	if binDir != "" {
		s.binDir, err = filepath.Abs(binDir)
		return s, err
	}
	major := s.dataMajor()
	if s.binDir, err = FindBinaries(major); err != nil && major != 0 {
		err = fmt.Errorf("the data in %s was made by Postgres %d: %w", s.data, major, err)
	}
	return s, err
}

// UnprivilegedUser returns a user for a program that refuses to run as root: nil, the current one, unless that is root.
func UnprivilegedUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		var who syscall.Credential
		_, err = fmt.Sscan(found.Uid+" "+found.Gid, &who.Uid, &who.Gid)
		return &who, err
	}
	return nil, errors.New("Postgres does not run as root, and this system has neither a user postgres nor a user nobody to run it as")
}

// place returns the data folder: dir's own, or where the server's user cannot enter dir, one below systemHome with a
// link to it in dir. A link that was not made for dir, as in a copied folder, leads to another's data and is removed;
// and without its link, what a deleted folder of the same name left below systemHome is removed.
func place(dir string, runAs *syscall.Credential) (string, error) {
	data, elsewhere := filepath.Join(dir, "data"), linkedData(dir)
	home := filepath.Dir(elsewhere)
	linked, err := os.Readlink(data)
	if runAs == nil || open(dir) {
		if err == nil {
			return data, os.Remove(data)
		}
		return data, nil
	}
	if linked == elsewhere {
		return elsewhere, makeOpenDir(home)
	}
	if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the server's user cannot enter the folders above %s: let it pass (chmod a+x), or delete the data", data)
	}
	return elsewhere, errors.Join(os.RemoveAll(home), makeOpenDir(home), os.Symlink(elsewhere, data))
}

func linkedData(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(systemHome, hex.EncodeToString(sum[:6]), "data")
}

// open reports whether every user may enter a folder and those above it.
func open(dir string) bool {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
	}
	return true
}

// makeOpenDir makes a folder in systemHome that every user may enter, for any umask.
func makeOpenDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the server's user has to pass through it
		return err
	}
	return errors.Join(os.Chmod(systemHome, 0o755), os.Chmod(dir, 0o755)) //nolint:gosec // likewise
}

// dataMajor returns the major version that made the data, 0 for none: another one cannot read it.
func (s setup) dataMajor() int {
	text, err := os.ReadFile(filepath.Join(s.data, "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return major
}

// command prepares one of the cluster's programs: as its user, in a fixed environment, so that neither the locale nor a
// PG variable of the caller has an effect.
func (s setup) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.binDir, program), args...) //nolint:gosec // the folder is the operator's choice
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.runAs}
	return cmd
}

// makeData makes an empty data folder of the server's user.
func (s setup) makeData(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil && s.runAs != nil {
		err = os.Chown(dir, int(s.runAs.Uid), int(s.runAs.Gid))
	}
	return err
}

// initialize makes the data folder unless there is one. It is made under another name first, so that
// an interrupted initdb leaves nothing that looks like a cluster. sync=false skips flushing it to disk.
func (s setup) initialize(ctx context.Context, sync bool) error {
	if s.dataMajor() != 0 {
		return nil
	}
	unfinished := s.data + ".new"
	if err := errors.Join(os.RemoveAll(unfinished), s.makeData(unfinished)); err != nil {
		return err
	}
	locale := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		locale = "en_US.UTF-8"
	}
	args := []string{
		"-D", unfinished, "-U", Superuser, "--auth=trust", "--encoding=UTF8",
		// Sorted by bytes, which no upgrade of the system's locale data can change; letters are Unicode's.
		"--lc-collate=C", "--lc-ctype=" + locale, "--lc-messages=C",
	}
	if !sync {
		args = append(args, "--no-sync")
	}
	out, err := s.command(ctx, "initdb", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s could not make the cluster: %w: %s", filepath.Join(s.binDir, "initdb"), err, lastLine(string(out)))
	}
	return os.Rename(unfinished, s.data)
}

// FindBinaries returns the folder of a Postgres of a major version on this machine; 0 is any from 15 on. It asks
// scripts/findpg, as the set-up does, in the source tree around the working directory. The error is one sentence that
// says what to install.
func FindBinaries(major int) (string, error) {
	root, err := sourceTree()
	if err != nil {
		return "", err
	}
	ask := exec.Command(filepath.Join(root, "scripts", "findpg"), strconv.Itoa(major)) //nolint:gosec,noctx // our own, and it is quick
	out, err := ask.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", errors.New(lastLine(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("looking for Postgres: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// sourceTree is the folder with go.mod at or above the working directory.
func sourceTree() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("a private Postgres needs the source tree around the working directory: no folder above has a go.mod")
		}
	}
}
