package memory_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"pgregory.net/rapid"
)

func anyLimits(t *rapid.T) memory.Limits {
	positive := func(name string, top int) int { return rapid.IntRange(1, top).Draw(t, name) }
	return memory.Limits{
		KRawTurns: positive("k", 6), MinTailTurns: positive("min tail", 6), SummaryTokenCap: positive("cap", 800),
		PromptTokenBudget: positive("prompt", 4000), BridgeTokenBudget: rapid.IntRange(0, 8000).Draw(t, "bridge"),
		ChunkThreshold: positive("threshold", 9000), FoldInputTokens: positive("fold", 9000), MaxHistoryTokens: positive("history", 9000),
	}
}

// The forms of the coverage sentence, with the numbers that it has to name.
var sentences = []struct {
	form *regexp.Regexp
	// brief, shown and dropped are the submatches with these numbers; 0 where the form means that there are none.
	brief, shown, dropped int
	total                 int
}{
	{regexp.MustCompile(`^Of (\d+) turns? (\d+) are in the brief(?: \(up to message \d+\))? and (\d+) word for word in the prompt; (\d+) are in neither until the next fold\.`), 2, 3, 4, 1},
	{regexp.MustCompile(`^All (\d+) turns are remembered: (\d+) in the brief(?: \(up to message \d+\))?, (\d+) word for word in the prompt\.`), 2, 3, 0, 1},
	{regexp.MustCompile(`^All ((\d+)) turns are word for word in the prompt\.`), 0, 2, 0, 1},
	{regexp.MustCompile(`^The last (\d+) of (\d+) turns? are word for word in the prompt; the (\d+) before are in no summary\.`), 0, 1, 3, 2},
}

// checkSentence checks that the sentence has one of the forms, with correct numbers.
func checkSentence(t *rapid.T, sentence string, inBrief, shown, dropped int, cleared int64) {
	t.Helper()
	if remark := fmt.Sprintf(" up to message %d was left behind", cleared); strings.Contains(sentence, remark) != (cleared > 0) {
		t.Fatalf("cleared up to %d, but: %s", cleared, sentence)
	}
	switch total := inBrief + shown + dropped; {
	case total == 0 && strings.HasPrefix(sentence, "There is nothing to remember yet."):
		return
	case total == 1 && strings.HasPrefix(sentence, "The one turn so far is word for word in the prompt.") && shown == 1,
		total == 1 && strings.HasPrefix(sentence, "The one turn so far is remembered: 1 in the brief") && inBrief == 1:
		return
	}
	for _, s := range sentences {
		found := s.form.FindStringSubmatch(sentence)
		if found == nil {
			continue
		}
		number := func(place int) int {
			n, _ := strconv.Atoi(found[place]) // place 0 is the whole sentence and no number
			return n
		}
		if number(s.brief) == inBrief && number(s.shown) == shown && number(s.dropped) == dropped && number(s.total) == inBrief+shown+dropped {
			return
		}
	}
	t.Fatalf("%d in the brief, %d shown, %d dropped, but: %s", inBrief, shown, dropped, sentence)
}

func TestCoverageWhateverHappens(t *testing.T) {
	t.Parallel()
	for _, defaults := range []bool{true, false} {
		t.Run(fmt.Sprintf("defaults %v", defaults), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				limits := memory.DefaultLimits()
				if !defaults {
					limits = anyLimits(t)
				}
				c := newSim(limits, rapid.IntRange(8, 12_000).Draw(t, "turn size"))
				c.settings = anySettings(t)
				c.reach = rapid.SampledFrom([]int{1000, 1000, 20, 5}).Draw(t, "reach")
				c.lone = c.reach == 1000 // a turn without a user's message that is not read is none that anybody counts
				if c.lone && rapid.Bool().Draw(t, "greeting") {
					c.say(memory.RoleAssistant, 3, "<greeting>")
				}
				for range rapid.IntRange(1, 40).Draw(t, "steps") {
					c.step(t)
				}
			})
		})
	}
}

// With the defaults and folds in time nothing is ever dropped, however long the turns are, whatever their
// number is limited to.
func TestNothingIsDroppedWithDefaultsAndTimelyFolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := memory.DefaultLimits()
		c := newSim(limits, rapid.IntRange(8, 5*limits.BridgeTokenBudget).Draw(t, "turn size"))
		c.settings = anySettings(t)
		if c.settings.Strategy == memory.StrategySimple {
			c.settings.Strategy = memory.StrategyHybrid // what leaves a simple chat's prompt is in no brief
		}
		for range rapid.IntRange(1, 60).Draw(t, "turns") {
			if p := c.prompt(t); p.Receipt.DroppedTurns > 0 {
				t.Fatalf("dropped: %+v", p.Receipt)
			}
			c.exchange(t)
			c.settle()
			c.foldAll(t)
			if left := users(c.pending()); c.settings.MaxTurns > 0 && left > c.settings.MaxTurns {
				t.Fatalf("%d turns are left after the folds, at most %d may be", left, c.settings.MaxTurns)
			}
		}
	})
}

// A rebuild reads every covered row once, from an empty summary, and no other row.
func TestRebuildReadsWhatIsCovered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newSim(anyLimits(t), rapid.IntRange(8, 3000).Draw(t, "turn size"))
		for range rapid.IntRange(1, 20).Draw(t, "turns") {
			c.exchange(t)
			c.settle()
		}
		covered := rapid.Int64Range(0, int64(len(c.rows))).Draw(t, "covered")
		plan := brief.PlanRebuild(memory.Brief{CoveredSeq: covered}, memory.Turns(c.rows), c.limits)
		read := map[int64]string{}
		for _, piece := range plan.Pieces {
			for _, turn := range piece.Turns {
				for _, e := range turn {
					read[e.Message.Seq] += e.Text
				}
			}
		}
		for _, m := range c.rows {
			if want := m.Content; m.Seq > covered && read[m.Seq] != "" || m.Seq <= covered && read[m.Seq] != want {
				t.Fatalf("row %d of %d covered: read %q of %q", m.Seq, covered, read[m.Seq], want)
			}
		}
	})
}

// Real text, cut into real pieces: each fits its room and together they are the whole message.
func TestLongMessagesAreSplitWithoutLoss(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		content := strings.Join(rapid.SliceOfN(rapid.StringN(1, 400, -1), 1, 12).Draw(t, "text"), "\n\n") + "."
		m := row(1, memory.RoleUser, content)
		limits := memory.DefaultLimits()
		limits.FoldInputTokens = rapid.IntRange(1, 600).Draw(t, "fold")
		limits.KRawTurns = 1
		plan, ok := brief.PlanFold(memory.Brief{}, []memory.Turn{{Messages: []memory.Message{m}}, {Messages: []memory.Message{row(2, memory.RoleUser, "tail")}}}, limits)
		if !ok {
			t.Fatal("nothing to fold")
		}
		got := ""
		for _, piece := range plan.Pieces {
			for _, e := range piece.Turns[0] {
				got += e.Text
			}
		}
		if got != strings.ToValidUTF8(content, "\uFFFD") {
			t.Fatalf("%q became %q", content, got)
		}
	})
}

func TestWholePieceKeepsEveryTurn(t *testing.T) {
	t.Parallel()
	piece := brief.WholePiece(memory.Turns(append(exchange(1, "one", "two"), exchange(3, "three", "")...)))
	if len(piece.Turns) != 2 || len(piece.Turns[0]) != 2 || len(piece.Turns[1]) != 1 || piece.Tokens != 3 {
		t.Errorf("the piece is %+v", piece)
	}
}
