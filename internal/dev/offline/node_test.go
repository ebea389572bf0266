package offline

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const npmFolder = "testdata/npm"

// TestOfficialNodeClient runs client.test.mjs: OpenAI's own client for JavaScript against the server.
// It needs node and npm, and fails without them.
func TestOfficialNodeClient(t *testing.T) {
	t.Parallel()
	installClient(t)
	retried := FailFirst(1, Answer{Fault: Fault429, RetryAfter: "0.01"})
	var once sync.Mutex
	l := start(t, Options{Script: func(r *Request) Answer {
		once.Lock()
		defer once.Unlock()
		if strings.Contains(r.Text, "fail once") {
			return retried(r)
		}
		return Answer{}
	}})
	command := exec.CommandContext(t.Context(), "node", "--test", "client.test.mjs")
	command.Dir = npmFolder
	command.Env = append(os.Environ(), "OFFLINE_BASE_URL="+l.BaseURL())
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if refused := l.Refused(); len(refused) != 1 || refused[0].Code != "unknown_parameter" {
		t.Errorf("refused: %+v", refused)
	}
}

// installClient installs what the lock file says, unless that is there already: node_modules holds
// the hash of the lock file that it was made from.
func installClient(t *testing.T) {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(npmFolder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	stamp := filepath.Join(npmFolder, "node_modules", ".lock-hash")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return
	}
	command := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	command.Dir = npmFolder
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.WriteFile(stamp, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}
