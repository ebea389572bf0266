package memory_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// Revisions name the version of the text that made them, so a changed text needs a new version. Add
// its hash here with the version that names it.
func TestInstructionsAreWhatTheirVersionNames(t *testing.T) {
	t.Parallel()
	reviewed := map[string]string{
		"1": "afc9c79704bd7ad7",
	}
	sum := sha256.Sum256(append(instructions(t, "summary.md"), instructions(t, "condense.md")...))
	got := hex.EncodeToString(sum[:8])
	assert.Truef(t, got == reviewed[brief.SummaryInstructionsVersion],
		"the instructions hash to %s, version %s names %s", got, brief.SummaryInstructionsVersion, reviewed[brief.SummaryInstructionsVersion])
}

func TestInstructionsNameTheCapOnce(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"built-in":             brief.SummaryInstructions(brief.SummaryTask{Cap: 321}),
		"blank file":           brief.SummaryInstructions(brief.SummaryTask{Base: " \n", Cap: 321}),
		"own, with the cap":    brief.SummaryInstructions(brief.SummaryTask{Base: "Summarize in at most %d tokens. Be kind.", Cap: 321}),
		"own, without the cap": brief.SummaryInstructions(brief.SummaryTask{Base: "Summarize 100 % of it.", Cap: 321}),
		"condense":             brief.CondenseInstructions(321),
	} {
		n := strings.Count(text, "at most 321 tokens")
		assert.Truef(t, n == 1 && !strings.Contains(text, "%d"), "%s names the cap %d times:\n%s", name, n, text)
	}
}

func TestTurnDates(t *testing.T) {
	t.Parallel()
	at := func(seq int64, day, zone string) memory.Message {
		m := row(seq, memory.RoleUser, "x")
		m.CreatedAt, _ = time.Parse(time.RFC3339, day)
		m.TimeZone = zone
		return m
	}
	for name, c := range map[string]struct {
		rows []memory.Message
		want string
	}{
		"grouped by day": {[]memory.Message{
			at(1, "2026-11-20T10:00:00Z", ""), at(2, "2026-11-20T23:59:00Z", ""), at(3, "", ""), at(4, "2026-11-21T00:00:00Z", ""), at(5, "2026-11-20T00:00:00Z", ""),
		}, "Turns 1 to 2: 2026-11-20, UTC\nTurn 4: 2026-11-21, UTC\nTurn 5: 2026-11-20, UTC"},
		"a zone holds until the next one": {[]memory.Message{
			at(1, "2026-11-20T23:30:00Z", ""), at(2, "2026-11-20T23:30:00Z", "Europe/Berlin"), at(3, "2026-11-20T23:30:00Z", ""), at(4, "2026-11-20T23:30:00Z",
				"America/New_York"),
		}, "Turn 1: 2026-11-20, UTC\nTurns 2 to 3: 2026-11-21, Europe/Berlin\nTurn 4: 2026-11-20, America/New_York"},
		"an unknown zone is UTC": {[]memory.Message{
			at(1, "2026-11-20T23:30:00Z", "Europe/Berlin"), at(2, "2026-11-20T23:30:00Z", "Europe/Atlantis"), at(3, "2026-11-20T23:30:00Z",
				"../../etc/passwd"), at(4, "2026-11-20T23:30:00Z", "Local"),
		}, "Turn 1: 2026-11-21, Europe/Berlin\nTurns 2 to 4: 2026-11-20, UTC"},
		"of user messages only": {[]memory.Message{
			at(1, "2026-11-20T23:30:00Z", ""), {Seq: 2, Role: memory.RoleAssistant, Content: "x", TimeZone: "Europe/Berlin"},
		}, "Turn 1: 2026-11-20, UTC"},
	} {
		instructions := brief.SummaryInstructions(brief.SummaryTask{Cap: 1, Piece: brief.WholePiece(memory.Turns(c.rows))})
		_, dates, _ := strings.Cut(instructions, "When the new turns were written:\n")
		assert.Equalf(t, c.want, dates, "%s: got\n", name)
	}
	assert.NotContains(t, brief.SummaryInstructions(brief.SummaryTask{Cap: 1}), "were written", "dates without turns")
}

// instructions returns a reviewed text as it is in the repository.
func instructions(t *testing.T, name string) []byte {
	written, err := os.ReadFile(filepath.Join("brief", "instructions", name))
	require.NoError(t, err)
	return written
}
