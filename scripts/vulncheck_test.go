// Package scripts holds tests of the scripts beside it.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checked is a package that calls what the made-up entry is about.
const checked = "./streaming"

// vulncheck runs the script on one package, with more in its environment, and gives what it said and whether it let pass.
func vulncheck(t *testing.T, environment ...string) (said string, passed bool) {
	command := exec.CommandContext(t.Context(), "./vulncheck", checked)
	command.Env = append(os.Environ(), append([]string{"GOVULNDB="}, environment...)...)
	out, err := command.CombinedOutput()
	return string(out), err == nil
}

// database is one in Go's schema (https://go.dev/doc/security/vuln/database), with an entry about one function of a module.
func database(t *testing.T, symbol string) (address string) {
	const id, module = "GO-2026-99999", "github.com/google/uuid"
	dir := t.TempDir()
	for name, content := range map[string]string{
		"index/db.json":      `{"modified":"2026-11-01T00:00:00Z"}`,
		"index/modules.json": `[{"path":"` + module + `","vulns":[{"id":"` + id + `","modified":"2026-11-01T00:00:00Z"}]}]`,
		"index/vulns.json":   `[{"id":"` + id + `","modified":"2026-11-01T00:00:00Z"}]`,
		"ID/" + id + ".json": `{"schema_version":"1.3.1","id":"` + id + `","modified":"2026-11-01T00:00:00Z","published":"2026-11-01T00:00:00Z",
			"summary":"A made-up entry","details":"Made up for a test.","affected":[{"package":{"name":"` + module + `","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":"` + module + `","symbols":["` + symbol + `"]}]}}],
			"database_specific":{"url":"https://pkg.go.dev/vuln/` + id + `"}}`,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return "GOVULNDB=file://" + dir
}

func TestVulnerabilityFails(t *testing.T) {
	t.Parallel()
	said, passed := vulncheck(t, database(t, "UUID.String"))
	if passed || !strings.Contains(said, "GO-2026-99999") || !strings.Contains(said, "A made-up entry") && !strings.Contains(said, "Made up for a test") {
		t.Errorf("passed: %v\n%s", passed, said)
	}
}

func TestVulnerabilityThatIsNotCalledPasses(t *testing.T) {
	t.Parallel()
	said, passed := vulncheck(t, database(t, "ParseBytes"))
	assert.Truef(t, passed && strings.Contains(said, "No vulnerabilities found"), "passed: %v\n%s", passed, said)
}

// Without the network nothing is known, and that is said, on one line.
func TestUnreachableDatabaseIsTold(t *testing.T) {
	t.Parallel()
	said, passed := vulncheck(t, "HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1", "NO_PROXY=", "no_proxy=")
	assert.Truef(t, passed && strings.HasPrefix(said, "vulncheck: NOT CHECKED") && strings.Count(said, "\n") == 1,
		"passed: %v\n%s", passed, said)
}

// A database that was named and is not there is no reason to let pass.
func TestNamedDatabaseMustBeThere(t *testing.T) {
	t.Parallel()
	said, passed := vulncheck(t, "GOVULNDB=file://"+t.TempDir())
	assert.Truef(t, !passed && strings.Contains(said, "holds no database"), "passed: %v\n%s", passed, said)
	said, passed = vulncheck(t, "GOVULNDB=https://127.0.0.1:1")
	assert.Falsef(t, passed, "passed: %v\n%s", passed, said)
}
