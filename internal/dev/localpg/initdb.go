package localpg

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// initialize makes the data folder unless there is one. It is made under another name first, so that
// an interrupted initdb leaves nothing that looks like a cluster. sync=false skips flushing it to disk.
func (s setup) initialize(ctx context.Context, sync bool) error {
	if s.dataMajor() != 0 {
		return nil
	}
	unfinished := s.data + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if s.runAs != nil {
		if err := os.Chown(unfinished, int(s.runAs.Uid), int(s.runAs.Gid)); err != nil {
			return err
		}
	}
	if err := s.runInitdb(ctx, unfinished, sync); err != nil {
		return err
	}
	return os.Rename(unfinished, s.data)
}

func (s setup) runInitdb(ctx context.Context, dir string, sync bool) error {
	args := []string{
		"-D", dir, "-U", Superuser, "--auth=trust", "--encoding=UTF8",
		// Sorted by bytes, which no upgrade of the system's locale data can change; letters are Unicode's.
		"--lc-collate=C", "--lc-ctype=" + unicodeLocale(), "--lc-messages=C",
	}
	if !sync {
		args = append(args, "--no-sync")
	}
	out, err := s.command(ctx, "initdb", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s could not make the cluster: %w: %s", filepath.Join(s.binDir, "initdb"), err, lastLine(string(out)))
	}
	return nil
}

func unicodeLocale() string {
	if runtime.GOOS == "darwin" {
		return "en_US.UTF-8"
	}
	return "C.UTF-8"
}
