package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longest is how many bytes a line of source may have: other tools count these.
const longest = 160

// source matches what people write: programs in files with such an ending, and scripts and Makefiles, which have none.
var source = regexp.MustCompile(`\.(go|sql|tsx?|css|m?js|sh|ya?ml)$|(^|/)(scripts|\.ci)/[^.]+$|^(Makefile|Dockerfile)$`)

// generated matches what programs write.
var generated = regexp.MustCompile(`^internal/postgres/dbsqlc/|(^|/)package-lock\.json$`)

func TestLinesCanBeRead(t *testing.T) {
	t.Parallel()
	listed, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	require.NoError(t, err)
	checked := 0
	for name := range strings.SplitSeq(string(listed), "\x00") {
		if !source.MatchString(name) || generated.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // it is deleted, and git is not told yet
		}
		require.NoError(t, err)
		checked++
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			bytes := len(strings.TrimSuffix(line, "\n"))
			assert.Truef(t, bytes <= longest, "%s:%d has %d bytes, want at most %d", name, number, bytes, longest)
		}
	}
	assert.Truef(t, checked >= 500, "%d files were checked, which cannot be all", checked)
}
