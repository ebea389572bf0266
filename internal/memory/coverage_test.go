package memory_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	{regexp.MustCompile(`^Of (\d+) turns? (\d+) are in the brief(?: \(up to message \d+\))? and (\d+) word for word in the prompt; (\d+) are in ` +
		`neither until the next fold\.`), 2, 3, 4, 1},
	{regexp.MustCompile(`^All (\d+) turns are remembered: (\d+) in the brief(?: \(up to message \d+\))?, (\d+) word for word in the prompt\.`), 2, 3, 0, 1},
	{regexp.MustCompile(`^All ((\d+)) turns are word for word in the prompt\.`), 0, 2, 0, 1},
	{regexp.MustCompile(`^The last (\d+) of (\d+) turns? are word for word in the prompt; the (\d+) before are in no summary\.`), 0, 1, 3, 2},
}

// checkSentence checks that the sentence has one of the forms, with correct numbers.
func checkSentence(t *rapid.T, sentence string, inBrief, shown, dropped int, cleared int64) {
	remark := fmt.Sprintf(" up to message %d was left behind", cleared)
	require.Truef(t, strings.Contains(sentence, remark) == (cleared > 0), "cleared up to %d, but: %s", cleared, sentence)
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

func TestCoverageOfAnyChat(t *testing.T) {
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

// With the defaults and folds in time nothing is ever dropped, however long the turns are, for any limit
// of their number.
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
			p := c.prompt(t)
			require.Truef(t, p.Receipt.DroppedTurns <= 0, "dropped: %+v", p.Receipt)
			require.Truef(t, !p.Receipt.Truncated || p.Receipt.TailTurns+p.Receipt.BridgeTurns <= 1, "cut although a fold makes room: %+v", p.Receipt)
			c.exchange(t)
			c.settle()
			c.foldAll(t)
			if left := users(c.pending()); c.settings.MaxTurns > 0 && left > c.settings.MaxTurns {
				t.Fatalf("%d turns are left after the folds, at most %d may be", left, c.settings.MaxTurns)
			}
		}
	})
}

// The last K turns are shown word for word as long as the budgets of prompt and bridge together hold them: the brief
// gives way before they do. What they take of the bridge's share is missing for older turns, and for nothing else.
func TestLastTurnsAreWholeWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := anyLimits(t)
		limits.BridgeTokenBudget = max(1, limits.BridgeTokenBudget)
		sizes := rapid.SliceOfN(rapid.IntRange(2, rapid.IntRange(2, 6000).Draw(t, "longest")), 1, 12).Draw(t, "sizes")
		chat := memory.Chat{Settings: anySettings(t), Buffer: rowsOf(sized(sizes...)), PendingTurns: len(sizes), TotalTurns: len(sizes)}
		chat.Brief = memory.Brief{Summary: "They met. They talked. It went on.", Tokens: 10, Version: 1}
		if chat.Strategy == memory.StrategySimple {
			chat.Strategy = memory.StrategySummary
		}
		r, l := prompt.Build(chat, prompt.Question{Content: "q"}, limits).Receipt, limits.For(chat.Settings)
		both, last, older := l.PromptTokenBudget+l.BridgeTokenBudget, sizes[max(0, len(sizes)-limits.KRawTurns):], 0
		for _, size := range sizes[len(sizes)-min(len(sizes), r.TailTurns+r.BridgeTurns):] {
			older += size
		}
		for _, size := range last {
			older -= size
		}
		whole := sum(last)+10 <= both
		require.Truef(t, (!whole || !r.Truncated && r.TailTurns+r.BridgeTurns >= len(last)) && (sum(last)+4 > both || r.TailTurns+r.BridgeTurns >= len(last)),
			"%v with a brief in %d and %d, %d last turns: %+v", sizes, l.PromptTokenBudget, l.BridgeTokenBudget, len(last), r)
		require.Truef(t, older <= l.BridgeTokenBudget && (r.Truncated || r.BriefTokens+r.TailTokens+r.BridgeTokens <= both),
			"%v: older turns take %d of %d, all of it is %+v", sizes, older, l.BridgeTokenBudget, r)
	})
}

// With turns of 1300 + 1300 tokens, real ones, no message is clipped, and each prompt begins with the memory of the one
// before it, from one fold to the next.
func TestLongTurnsStayWholeAndInPlace(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	for _, settings := range []memory.Settings{{}, {Strategy: memory.StrategyHybrid}} {
		current, before, grown := memory.Brief{}, "", 0
		var rows []memory.Message
		for n := range 12 {
			p := prompt.Build(memory.Chat{Settings: settings, Brief: current, Buffer: rows[current.CoveredSeq:]}, prompt.Question{Content: "q"}, limits)
			shown := p.Receipt.TailTurns + p.Receipt.BridgeTurns
			require.Truef(t, !p.Receipt.Truncated && p.Receipt.DroppedTurns <= 0 && shown >= min(n, 1), "turn %d: %+v", n+1, p.Receipt)
			assert.Truef(t, before == "" || strings.HasPrefix(p.Input, before), "turn %d: what the model saw before is no beginning of what it sees", n+1)
			if before != "" {
				grown++
			}
			before = cached(p)
			rows = append(rows, exchange(int64(len(rows)+1), textOf(1300), textOf(1300))...)
			turns := memory.Turns(rows[current.CoveredSeq:])
			for memory.Due(current.Tokens, pending(turns), len(turns), limits.For(settings)) {
				plan, ok := brief.PlanFold(current, turns, limits.For(settings))
				require.True(t, ok, "due, and nothing to fold")
				current = memory.Brief{Summary: strings.Repeat("They talked. ", 120), Tokens: 360, Version: current.Version + 1, CoveredSeq: plan.SeqTo}
				turns, before = turns[plan.Turns:], ""
			}
		}
		assert.Truef(t, grown >= 2, "%+v: only %d prompts followed one another", settings, grown)
	}
}

func sum(sizes []int) (total int) {
	for _, size := range sizes {
		total += size
	}
	return total
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
		plan, ok := brief.PlanFold(memory.Brief{},
			[]memory.Turn{{Messages: []memory.Message{m}}, {Messages: []memory.Message{row(2, memory.RoleUser, "tail")}}}, limits)
		require.True(t, ok, "nothing to fold")
		got := ""
		for _, piece := range plan.Pieces {
			for _, e := range piece.Turns[0] {
				got += e.Text
			}
		}
		require.Truef(t, got == strings.ToValidUTF8(content, "\uFFFD"), "%q became %q", content, got)
	})
}

// However little a row is said to weigh, no model call of a fold reads more than it may.
func TestPiecesKeepToTheirLimitForAnyCounts(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	rows := append(exchange(1, textOf(60_000), textOf(3000)), exchange(3, strings.Repeat("語彙", 9000), "Yes.")...)
	for i := range rows {
		rows[i].Tokens = len(rows[i].Content) / 32
	}
	turns := append(memory.Turns(rows), memory.Turns(exchange(5, "And now?", "Now this."))...)
	limits.KRawTurns = 1
	plan, _ := brief.PlanFold(memory.Brief{}, turns, limits)
	assert.Truef(t, len(plan.Pieces) >= 8, "only %d pieces", len(plan.Pieces))
	for _, piece := range plan.Pieces {
		n := text.Tokens(brief.FoldInput(textOf(limits.SummaryTokenCap), piece))
		assert.Truef(t, n <= limits.FoldInputTokens, "a model call reads %d tokens of at most %d", n, limits.FoldInputTokens)
	}
}
