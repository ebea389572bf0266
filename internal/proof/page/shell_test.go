package page

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryRoute opens each route in both themes, on a phone and on a desktop, signed in by the link that dev prints.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	newRig(t, nil, longTerm).inBrowser("routes.mjs", nil)
}

// TestPictures holds that the pictures of README.md and docs/page.md can be taken; SCREENSHOTS=folder keeps them.
func TestPictures(t *testing.T) {
	t.Parallel()
	newRig(t, (&stage{}).play, env{"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "1s", "CHAT_TITLES": "1s"}).inBrowser("pictures.mjs", nil)
}

// TestThePageTypeChecks holds that the page calls the API as its document says. Vite drops types without a look at them.
func TestThePageTypeChecks(t *testing.T) {
	t.Parallel()
	_, err := os.Stat("../../../clients/src/openapi.ts")
	require.Truef(t, err == nil, "%v: run scripts/setup test", err)
	check := exec.CommandContext(t.Context(), "node_modules/.bin/tsc", "--noEmit")
	check.Dir = scripts
	out, err := check.CombinedOutput()
	assert.Truef(t, err == nil, "%v\n%s", err, out)
}

// TestWithoutABrowser runs the tests of how a reply with parts is read, and of how memories are said to their user.
func TestWithoutABrowser(t *testing.T) {
	t.Parallel()
	requireBuild(t)
	for _, script := range []string{"parts.mjs", "you.mjs"} {
		check := exec.CommandContext(t.Context(), "node", "test/"+script)
		check.Dir = scripts
		out, err := check.CombinedOutput()
		assert.Truef(t, err == nil, "%s: %v\n%s", script, err, out)
	}
}
