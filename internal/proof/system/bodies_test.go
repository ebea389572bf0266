package system

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clients are the files that may ask a server by HTTP, and the test that sends them a body without an end.
var clients = map[string]string{
	"internal/llm/client.go":      "internal/llm TestEndlessBodies",
	"internal/auth/keys.go":       "internal/auth, the key set over the bound",
	"supabase/client.go":          "supabase, the answer over the bound",
	"internal/client/client.go":   "its own server, bounded where it reads",
	"cmd/throughline/commands.go": "its own server, 4 KiB of a health check",
}

// Whoever reads a body to its end bounds it, and each client of HTTP is known here.
func TestEveryBodyIsBounded(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	asks := regexp.MustCompile(`http\.Client\{|http\.DefaultClient|http\.(Get|Post|PostForm|Head)\(`)
	reads := regexp.MustCompile(`io\.ReadAll\((.*)`)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root+"/")
		if entry != nil && entry.IsDir() && regexp.MustCompile(`^(internal/(dev|proof|testkit)|clients|deploy|tools|\..*|node_modules)$`).MatchString(name) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for line := range strings.SplitSeq(string(source), "\n") {
			if asks.MatchString(line) {
				assert.NotEmpty(t, clients[name], "%s asks by HTTP: %s", name, line)
			}
			if read := reads.FindStringSubmatch(line); read != nil && !strings.Contains(line, "the client bounds it") {
				assert.Regexp(t, `LimitReader|MaxBytesReader`, read[1], name)
			}
		}
		return err
	}))
}
