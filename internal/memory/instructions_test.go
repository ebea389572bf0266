package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// Revisions name the version of the text that made them, so a changed text needs a new version. Add
// its hash here with the version that names it.
func TestInstructionsAreWhatTheirVersionNames(t *testing.T) {
	t.Parallel()
	reviewed := map[string]string{
		"1": "afc9c79704bd7ad7",
	}
	sum := sha256.Sum256([]byte(builtInSummaryInstructions + builtInCondenseInstructions))
	if got := hex.EncodeToString(sum[:8]); got != reviewed[SummaryInstructionsVersion] {
		t.Errorf("the instructions hash to %s, version %s names %s", got, SummaryInstructionsVersion, reviewed[SummaryInstructionsVersion])
	}
}

func TestInstructionsNameTheCapOnce(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"built-in":             SummaryInstructions(SummaryTask{Cap: 321}),
		"blank file":           SummaryInstructions(SummaryTask{Base: " \n", Cap: 321}),
		"own, with the cap":    SummaryInstructions(SummaryTask{Base: "Summarize in at most %d tokens. Be kind.", Cap: 321}),
		"own, without the cap": SummaryInstructions(SummaryTask{Base: "Summarize 100 % of it.", Cap: 321}),
		"condense":             CondenseInstructions(321),
	} {
		if n := strings.Count(text, "at most 321 tokens"); n != 1 || strings.Contains(text, "%d") {
			t.Errorf("%s names the cap %d times:\n%s", name, n, text)
		}
	}
}

func TestTurnDatesGroupDays(t *testing.T) {
	t.Parallel()
	at := func(seq int64, day string) Message {
		m := row(seq, RoleUser, "x")
		m.CreatedAt, _ = time.Parse(time.RFC3339, day)
		return m
	}
	piece := WholePiece(Turns([]Message{
		at(1, "2026-11-20T10:00:00Z"), at(2, "2026-11-20T23:59:00Z"), at(3, ""), at(4, "2026-11-21T00:00:00Z"), at(5, "2026-11-20T00:00:00Z"),
	}))
	want := "Turns 1 to 2: 2026-11-20, UTC\nTurn 4: 2026-11-21, UTC\nTurn 5: 2026-11-20, UTC"
	if got := turnDates(piece, nil); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := SummaryInstructions(SummaryTask{Cap: 1}); strings.Contains(got, "were written") {
		t.Error("dates without turns")
	}
}
