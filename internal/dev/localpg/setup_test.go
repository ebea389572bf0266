package localpg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// closedFolder is like a clone in root's home: nobody else may enter.
func closedFolder(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only a server started by root runs as somebody else")
	}
	closed := filepath.Join(folder(t), "home")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	return closed
}

func TestClosedFolderKeepsItsDataElsewhere(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, binDir string) {
		dir := filepath.Join(closedFolder(t), "clone", ".local", "postgres")
		first := start(t, Options{Dir: dir, BinDir: binDir})
		if !strings.HasPrefix(first.data, systemHome) {
			t.Errorf("the data is in %s", first.data)
		}
		dsn := first.DSN(Superuser, "postgres")
		if err := Bootstrap(t.Context(), dsn, "create table kept (id int)"); err != nil {
			t.Fatal(err)
		}
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		again := start(t, Options{Dir: dir, BinDir: binDir})
		if got := query(t, again.DSN(Superuser, "postgres"), "select to_regclass('kept')::text"); got != "kept" {
			t.Errorf("the table is %q after a restart", got)
		}
		if err := again.Destroy(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Dir(again.data)); err == nil {
			t.Errorf("%s is still there", filepath.Dir(again.data))
		}
	})
}

func TestBinariesOutOfReachAreCopied(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, binDir string) {
		closed := closedFolder(t)
		moved, err := CopyInstallation(binDir, filepath.Join(closed, "native"))
		if err != nil {
			t.Fatal(err)
		}
		cluster := start(t, Options{Dir: filepath.Join(closed, "postgres"), BinDir: moved})
		if got := query(t, cluster.DSN(Superuser, "postgres"), "select setting from pg_config where name = 'SHAREDIR'"); !strings.HasPrefix(got, systemHome) {
			t.Errorf("the copy reads %s", got)
		}
		copied, err := copyBinaries(moved)
		if err != nil {
			t.Fatal(err)
		}
		if err := cluster.Destroy(); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(copied, systemHome+"/"), "/")
		_ = os.RemoveAll(filepath.Join(systemHome, name))
	})
}

func TestForgottenDataOfADeletedFolderIsNotFoundAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(closedFolder(t), "postgres")
	first := start(t, Options{Dir: dir})
	if err := Bootstrap(t.Context(), first.DSN(Superuser, "postgres"), "create table gone (id int)"); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	second := start(t, Options{Dir: dir})
	if got := query(t, second.DSN(Superuser, "postgres"), "select coalesce(to_regclass('gone')::text, 'none')"); got != "none" {
		t.Error("a new folder has the old one's data")
	}
	if err := second.Destroy(); err != nil {
		t.Fatal(err)
	}
}

func TestLinkOfACopiedFolderIsNotFollowed(t *testing.T) {
	t.Parallel()
	dir, other := folder(t), folder(t)
	link := filepath.Join(dir, "data")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	got, err := dataFolder(dir)
	if err != nil || got != link {
		t.Errorf("dataFolder: %q, %v", got, err)
	}
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link to another folder's data is still there")
	}
}
