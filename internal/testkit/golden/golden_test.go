package golden

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// failing notes that a test would fail.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("testdata", 0o700))
	require.NoError(t, os.WriteFile("testdata/a.golden", []byte("as it was\n"), 0o600))
	for got, want := range map[string]bool{"as it was\n": false, "as it was": true, "": true} {
		f := &failing{TB: t}
		if Check(f, "a.golden", got); f.failed != want {
			t.Errorf("%q: failed is %v", got, f.failed)
		}
	}
}
