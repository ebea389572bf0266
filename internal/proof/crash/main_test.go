package main

import (
	"bytes"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Nothing acknowledged is lost and nothing is done twice, for any kill. The long version is make crash ROUNDS=500. How
// long a recovery takes is no matter here: the machine may be busy.
func TestCrash(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := run(t.Context(), []string{"-source", "../../..", "-rounds", "20", "-quiet-every", "20", "-within", "10m"}, &out, t.Output())
	t.Logf("\n%s", &out)
	require.NoError(t, err)
	// A run in which nothing happened would prove nothing. Briefs are taken back too seldom to demand it of so few rounds:
	// TestWordsTakenBack demands it.
	for _, row := range []string{"processes killed", "crashes of Postgres", "messages acknowledged", "replies heard to their end",
		"replies heard to break off", "messages edited", "replies asked for again", "versions selected", "calls that a tool ran for",
		"folds", "extractions", "memories", "memories superseded"} {
		found := regexp.MustCompile(`(?m)^` + row + ` +(\d+)$`).FindSubmatch(out.Bytes())
		require.Truef(t, found != nil, "there is no row %q", row)
		if n, err := strconv.Atoi(string(found[1])); err != nil || n == 0 {
			t.Errorf("%s: %s", row, found[1])
		}
	}
}
