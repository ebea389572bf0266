// Package golden compares what code writes with files that people have reviewed. With -update a test writes the files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// Check compares a text with a file of testdata.
func Check(t testing.TB, name, got string) {
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equalf(t, "", cmp.Diff(string(want), got), "%s (-want +got; -update writes it):\n", file)
}
