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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// systemHome holds copies of what the user of a server started by root cannot reach.
const systemHome = "/var/lib/throughline"

// setup is what a server runs with.
type setup struct {
	binDir  string
	data    string
	logFile string
	// runAs is the user of a server that root starts; nil runs it as ourselves.
	runAs *syscall.Credential
}

// makeDir makes the cluster's folder and returns its absolute path without links, as the server reports its own.
func makeDir(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(absolute, 0o755); err != nil { //nolint:gosec // the server's user has to pass through it
		return "", fmt.Errorf("the Postgres cluster needs its folder: %w", err)
	}
	return filepath.EvalSymlinks(absolute)
}

// newSetup chooses the data folder, the binaries and the user, and makes the data folder's parent.
func newSetup(ctx context.Context, dir string, options Options) (setup, error) {
	data, err := dataFolder(dir)
	s := setup{data: data, logFile: filepath.Join(dir, "postgres.log")}
	if err != nil {
		return s, err
	}
	if s.binDir, err = s.binaries(options); err != nil {
		return s, err
	}
	if s.runAs, err = chooseUser(s.data); err != nil || s.runAs == nil {
		return s, err
	}
	return s, s.moveWithinReach(ctx, dir)
}

// dataFolder returns dir's own data folder, or the one it links to if that was made for it. The link in a copied folder
// leads to the original's data, and another may lead nowhere; such links are removed.
func dataFolder(dir string) (string, error) {
	data := filepath.Join(dir, "data")
	target, err := os.Readlink(data)
	if err != nil {
		return data, nil //nolint:nilerr // no link, or nothing there yet
	}
	if _, err := os.Stat(target); err == nil && target == linkedData(dir) {
		return target, nil
	}
	return data, os.Remove(data)
}

func linkedData(dir string) string { return filepath.Join(systemHome, shortHash(dir), "data") }

func (s setup) binaries(options Options) (string, error) {
	if options.BinDir != "" {
		return filepath.Abs(options.BinDir)
	}
	major := s.dataMajor()
	dir, err := FindBinaries(options.Root, major)
	if err != nil && major != 0 {
		err = fmt.Errorf("the data in %s was made by Postgres %d: %w", s.data, major, err)
	}
	return dir, err
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

// moveWithinReach moves what the server's user cannot reach to systemHome.
func (s *setup) moveWithinReach(ctx context.Context, dir string) error {
	if !s.reaches(ctx, "/") {
		moved, err := copyBinaries(s.binDir)
		if err != nil {
			return fmt.Errorf("copying Postgres to where its user can run it: %w", err)
		}
		s.binDir = moved
	}
	if s.data != filepath.Join(dir, "data") || s.reaches(ctx, dir) {
		return nil
	}
	if s.dataMajor() != 0 {
		return fmt.Errorf("user %s can no longer enter the folders above %s: let it pass (chmod a+x), or delete the data", nameOf(s.runAs.Uid), s.data)
	}
	return s.linkData(dir)
}

// reaches reports whether the server's user can run the server in the folder dir. The end of ctx does not count as out
// of reach.
func (s setup) reaches(ctx context.Context, dir string) bool {
	try := s.command(context.WithoutCancel(ctx), "postgres", "--version")
	try.Dir = dir
	return try.Run() == nil
}

// linkData makes an empty home for the data under systemHome and links it into dir. It deletes what an earlier folder
// of the same name left there: its owner deleted the link.
func (s *setup) linkData(dir string) error {
	target := linkedData(dir)
	home := filepath.Dir(target)
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	if err := makeOpenDir(home); err != nil {
		return err
	}
	if err := os.Symlink(target, s.data); err != nil {
		return err
	}
	s.data = target
	return nil
}

// makeOpenDir makes a folder under systemHome that every user may enter, whatever the umask is.
func makeOpenDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the server's user has to pass through it
		return err
	}
	if err := os.Chmod(systemHome, 0o755); err != nil { //nolint:gosec // likewise
		return err
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // likewise
}

// copyBinaries copies the installation around binDir to systemHome, once per version of it, and
// returns the copy's bin folder.
func copyBinaries(binDir string) (string, error) {
	stamp, err := os.Stat(filepath.Join(binDir, "postgres"))
	if err != nil {
		return "", err
	}
	prefix, _ := installation(binDir)
	version := fmt.Sprint(binDir, stamp.ModTime().UnixNano(), stamp.Size(), HasVector(binDir))
	home := filepath.Join(systemHome, "postgres-"+shortHash(version))
	bin := filepath.Join(home, strings.TrimPrefix(binDir, prefix))
	if _, err := os.Stat(home); err == nil {
		return bin, nil
	}
	if err := makeOpenDir(systemHome); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(systemHome, "copying-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	if _, err := CopyInstallation(binDir, unfinished); err != nil {
		return "", err
	}
	// Another process may have made the same copy meanwhile.
	if err := os.Rename(unfinished, home); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return bin, nil
}

// CopyInstallation copies the Postgres around binDir into a folder, for every user to run, and returns the copy's bin
// folder.
func CopyInstallation(binDir, to string) (string, error) {
	prefix, parts := installation(binDir)
	for _, part := range parts {
		if err := os.CopyFS(filepath.Join(to, part), os.DirFS(filepath.Join(prefix, part))); err != nil {
			return "", err
		}
	}
	return filepath.Join(to, strings.TrimPrefix(binDir, prefix)), openTree(to)
}

// installation returns what has to move together for the server in binDir to find its files: the folder that they are
// in, and their paths there. Debian keeps several versions side by side; everything else is in one piece.
func installation(binDir string) (prefix string, parts []string) {
	home, version := filepath.Dir(binDir), filepath.Base(filepath.Dir(binDir))
	if prefix, debian := strings.CutSuffix(home, filepath.Join("/lib", "postgresql", version)); debian {
		return prefix, []string{filepath.Join("lib", "postgresql", version), filepath.Join("share", "postgresql", version)}
	}
	return home, []string{"bin", "lib", "share"}
}

// openTree lets every user read a tree, and run what its owner can run.
func openTree(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		return os.Chmod(path, mode|0o444|(mode&0o100)>>3|(mode&0o100)>>6) //nolint:gosec // nobody else writes in this tree
	})
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
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
