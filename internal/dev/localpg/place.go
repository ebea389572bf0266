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

// systemHome keeps what a server started by root cannot reach where it was.
const systemHome = "/var/lib/throughline"

// place is where and as whom a server runs.
type place struct {
	binDir  string
	data    string
	logFile string
	// runAs is the user of a server that root starts; nil runs it as ourselves.
	runAs *syscall.Credential
}

// makeDir makes the cluster's folder and gives its absolute path without links, because that is how
// the server reports its own.
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

// settle decides on the user, the binaries and the data folder, and makes that folder's parent.
func settle(ctx context.Context, dir string, options Options) (place, error) {
	data, err := dataFolder(dir)
	p := place{data: data, logFile: filepath.Join(dir, "postgres.log")}
	if err != nil {
		return p, err
	}
	if p.binDir, err = p.binaries(options); err != nil {
		return p, err
	}
	if p.runAs, err = chooseUser(p.data); err != nil || p.runAs == nil {
		return p, err
	}
	return p, p.moveWithinReach(ctx, dir)
}

// dataFolder is dir's own, or what it links to if that was made for it. The link in a copied folder
// leads to the original's data, and one may lead nowhere; both go.
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

func (p place) binaries(options Options) (string, error) {
	if options.BinDir != "" {
		return filepath.Abs(options.BinDir)
	}
	major := p.dataMajor()
	dir, err := FindMajor(options.Root, major)
	if err != nil && major != 0 {
		err = fmt.Errorf("the data in %s was made by Postgres %d: %w", p.data, major, err)
	}
	return dir, err
}

// dataMajor is the version that made the data, 0 for none yet: another major version cannot read it.
func (p place) dataMajor() int {
	text, err := os.ReadFile(filepath.Join(p.data, "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return major
}

// moveWithinReach puts what the server's user cannot reach under systemHome.
func (p *place) moveWithinReach(ctx context.Context, dir string) error {
	if !p.reaches(ctx, "/") {
		moved, err := copyBinaries(p.binDir)
		if err != nil {
			return fmt.Errorf("copying Postgres to where its user can run it: %w", err)
		}
		p.binDir = moved
	}
	if p.data != filepath.Join(dir, "data") || p.reaches(ctx, dir) {
		return nil
	}
	if p.dataMajor() != 0 {
		return fmt.Errorf("user %s can no longer enter the folders above %s: let it pass (chmod a+x), or delete the data", nameOf(p.runAs.Uid), p.data)
	}
	return p.linkData(dir)
}

// reaches tells whether the server's user can run the server in the folder dir. The caller's
// context has no say: giving up is not the same as being out of reach.
func (p place) reaches(ctx context.Context, dir string) bool {
	try := p.command(context.WithoutCancel(ctx), "postgres", "--version")
	try.Dir = dir
	return try.Run() == nil
}

// linkData makes an empty home for the data under systemHome and links it into dir. What is left
// there of an earlier folder of the same name had its link deleted by its owner, so it goes.
func (p *place) linkData(dir string) error {
	target := linkedData(dir)
	home := filepath.Dir(target)
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	if err := makeOpenDir(home); err != nil {
		return err
	}
	if err := os.Symlink(target, p.data); err != nil {
		return err
	}
	p.data = target
	return nil
}

// makeOpenDir makes a folder under systemHome that everybody may pass, whatever the umask is.
func makeOpenDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the server's user has to pass through it
		return err
	}
	if err := os.Chmod(systemHome, 0o755); err != nil { //nolint:gosec // likewise
		return err
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // likewise
}

// copyBinaries copies the installation around binDir under systemHome, once per version of it, and
// gives the copy's bin folder.
func copyBinaries(binDir string) (string, error) {
	stamp, err := os.Stat(filepath.Join(binDir, "postgres"))
	if err != nil {
		return "", err
	}
	home := filepath.Join(systemHome, "postgres-"+shortHash(fmt.Sprint(binDir, stamp.ModTime().UnixNano(), stamp.Size())))
	if _, err := os.Stat(home); err == nil {
		return filepath.Join(home, "bin"), nil
	}
	if err := makeOpenDir(systemHome); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(systemHome, "copying-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	for _, part := range []string{"bin", "lib", "share"} {
		if err := os.CopyFS(filepath.Join(unfinished, part), os.DirFS(filepath.Join(binDir, "..", part))); err != nil {
			return "", err
		}
	}
	if err := openTree(unfinished); err != nil {
		return "", err
	}
	// Whoever was faster made the same copy.
	if err := os.Rename(unfinished, home); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return filepath.Join(home, "bin"), nil
}

// openTree lets everybody read a tree, and run what its owner can run.
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

// command prepares one of the cluster's programs: as its user, in an environment of our own, so that
// neither the locale nor a PG variable of the caller changes what it does.
func (p place) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.binDir, program), args...) //nolint:gosec // the folder is the operator's choice
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.runAs}
	return cmd
}
