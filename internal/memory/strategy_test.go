package memory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// textOf is a text of exactly so many tokens.
func textOf(tokens int) string {
	return strings.TrimSpace(strings.Repeat(" word", tokens))
}

// wordy are turns of so many tokens each, real ones, all in the question.
func wordy(tokens ...int) []memory.Turn {
	var rows []memory.Message
	for _, n := range tokens {
		rows = append(rows, row(int64(len(rows)+1), memory.RoleUser, textOf(n)))
	}
	return memory.Turns(rows)
}

// A simple chat shows the newest turns that fit, without a gap, and no more than it may; a turn too long by
// itself is clipped.
func TestSimpleShowsTheNewestThatFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(20, 600), 1, 30).Draw(t, "sizes")
		chat := memory.Chat{Settings: memory.Settings{Strategy: memory.StrategySimple, MaxTurns: rapid.IntRange(0, 12).Draw(t, "max turns")},
			Buffer: rowsOf(wordy(sizes...))}
		chat.PendingTurns, chat.TotalTurns = len(sizes), len(sizes)
		limits := memory.Limits{MaxHistoryTokens: rapid.IntRange(20, 3000).Draw(t, "history"), KRawTurns: 1, MinTailTurns: 9, PromptTokenBudget: 1}
		r := prompt.Build(chat, prompt.Question{Content: "q"}, limits).Receipt
		want, tokens := 0, 0
		for _, size := range slices.Backward(sizes) {
			if tokens += size; want > 0 && tokens > limits.MaxHistoryTokens || chat.MaxTurns > 0 && want == chat.MaxTurns {
				break
			}
			want++
		}
		require.Truef(t, r.TailTurns == want && r.BridgeTurns == 0 && r.DroppedTurns == len(sizes)-want && r.TailTokens <= limits.MaxHistoryTokens,
			"%v with %d tokens and %d turns, want %d turns: %+v", sizes, limits.MaxHistoryTokens, chat.MaxTurns, want, r)
		require.Truef(t, r.Truncated == (want == 1 && sizes[len(sizes)-1] > limits.MaxHistoryTokens),
			"%v with %d tokens: truncated %v", sizes, limits.MaxHistoryTokens, r.Truncated)
	})
}

// keeping is a hybrid chat with a brief of so many covered messages, of which some are kept.
func keeping(kept []memory.Message, budget int) prompt.Prompt {
	limits := memory.DefaultLimits()
	limits.PromptTokenBudget = budget
	return prompt.Build(memory.Chat{
		Settings: memory.Settings{Strategy: memory.StrategyHybrid}, Brief: memory.Brief{Summary: "They met.", Tokens: 3, Version: 1, CoveredSeq: 100},
		Buffer: exchange(101, "And now?", "Now this."), TotalTurns: 51, PendingTurns: 1, Kept: kept,
	}, prompt.Question{Content: "q"}, limits)
}

func keptSeqs(p prompt.Prompt) string {
	var seqs []string
	for line := range strings.Lines(p.Input) {
		if _, mark, found := strings.Cut(line, "kept#"); found {
			seqs = append(seqs, strings.Fields(mark)[0])
		}
	}
	return strings.Join(seqs, " ")
}

func keptRow(seq int64, tokens int, pinned bool, importance float32) memory.Message {
	m := row(seq, memory.RoleUser, fmt.Sprintf("kept#%d %s", seq, textOf(tokens)))
	m.Tokens, m.Pinned, m.Importance = tokens, pinned, importance
	return m
}

// Pinned messages come before important ones, these by importance, then the newer; they are shown in order.
func TestHybridKeepsWhatMattersMost(t *testing.T) {
	t.Parallel()
	kept := []memory.Message{
		keptRow(1, 40, true, 0), keptRow(2, 40, false, 0.8), keptRow(3, 40, false, 1), keptRow(4, 40, false, 0.8),
		keptRow(5, 40, true, 0.1), keptRow(6, 40, false, 0.79),
	}
	for budget, want := range map[int]string{29: "", 120: "5", 240: "1 5", 360: "1 3 5", 480: "1 3 4 5", 3000: "1 2 3 4 5"} {
		p := keeping(kept, budget)
		seqs := strings.Fields(want)
		got := keptSeqs(p)
		assert.Truef(t, got == want && p.Receipt.KeptMessages == len(seqs) && p.Receipt.LeftOutMessages == 5-len(seqs) && p.Receipt.KeptTokens == 40*len(seqs),
			"with %d tokens %q are kept, want %q: %+v", budget, got, want, p.Receipt)
	}
}

// Pinned messages that left the turns are shown in every strategy, important ones in hybrid chats alone. They take
// nothing of the turns' room, unless the window is too small for both.
func TestPinsCountInEveryStrategy(t *testing.T) {
	t.Parallel()
	kept := []memory.Message{keptRow(1, 40, true, 0), keptRow(2, 40, false, 1)}
	for strategy, want := range map[memory.StrategyName]string{memory.StrategySimple: "1", memory.StrategySummary: "1", memory.StrategyHybrid: "1 2"} {
		build := func(limits memory.Limits, kept []memory.Message) prompt.Prompt {
			return prompt.Build(memory.Chat{
				Settings: memory.Settings{Strategy: strategy}, Brief: memory.Brief{Summary: "They met.", Tokens: 3, Version: 1, CoveredSeq: 100},
				Buffer: exchange(101, textOf(1500), textOf(1500)), TotalTurns: 51, PendingTurns: 1, Kept: kept,
			}, prompt.Question{Content: "q"}, limits)
		}
		p, without := build(memory.DefaultLimits(), kept), build(memory.DefaultLimits(), nil).Receipt
		if r := p.Receipt; keptSeqs(p) != want || r.LeftOutMessages != 0 || r.TailTokens != without.TailTokens || r.Truncated {
			t.Errorf("%s: %q are kept: %+v", strategy, keptSeqs(p), r)
		}
		limits := memory.DefaultLimits().Within(4000)
		r := build(limits, kept[:1]).Receipt
		assert.Truef(t, r.KeptMessages == 1 && r.BriefTokens+r.KeptTokens+r.TailTokens+r.BridgeTokens <= memory.Divide(4000).History,
			"%s in a small window: %+v", strategy, r)
	}
}

// A hybrid chat's tail has less room, so a fold leaves less of it.
func TestHybridFoldsWhatItCouldNotShow(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	limits.BridgeTokenBudget = 1000
	turns := wordy(620, 620, 620, 620, 620, 620)
	for strategy, left := range map[memory.StrategyName]int{memory.StrategySummary: 3, memory.StrategyHybrid: 2} {
		plan, ok := brief.PlanFold(memory.Brief{}, turns, limits.For(memory.Settings{Strategy: strategy}))
		require.Truef(t, ok && len(turns)-plan.Turns == left, "%s: %d turns are left, want %d", strategy, len(turns)-plan.Turns, left)
		chat := memory.Chat{Settings: memory.Settings{Strategy: strategy},
			Brief: memory.Brief{Summary: "They talked.", Tokens: limits.SummaryTokenCap, Version: 1, CoveredSeq: plan.SeqTo}, Buffer: rowsOf(turns[plan.Turns:])}
		r := prompt.Build(chat, prompt.Question{}, limits).Receipt
		assert.Truef(t, r.DroppedTurns <= 0 && !r.Truncated, "%s: %+v", strategy, r)
	}
}

// A turn limit makes a fold due for turns of any size, and the fold leaves no more than the tail.
func TestTurnLimitMakesAFoldDue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ maxTurns, turns, left int }{{5, 5, 5}, {5, 6, 3}, {2, 3, 2}, {1, 2, 1}, {0, 50, 50}, {50, 51, 3}} {
		limits := memory.DefaultLimits().For(memory.Settings{MaxTurns: c.maxTurns})
		turns := wordy(slices.Repeat([]int{2}, c.turns)...)
		left := c.turns
		if memory.Due(0, 2*c.turns, c.turns, limits) {
			plan, ok := brief.PlanFold(memory.Brief{}, turns, limits)
			require.Truef(t, ok, "%+v: due, but there is nothing to fold", c)
			left -= plan.Turns
		}
		assert.Truef(t, left == c.left, "%+v: %d turns are left", c, left)
	}
}

func TestCoverageSaysWhatIsAmiss(t *testing.T) {
	t.Parallel()
	brief := memory.Brief{Version: 2, CoveredSeq: 4, ClearedSeq: 2}
	for want, c := range map[string]struct {
		chat    memory.Chat
		receipt prompt.Receipt
	}{
		"There is nothing to remember yet.":                   {},
		"The one turn so far is word for word in the prompt.": {memory.Chat{TotalTurns: 1, PendingTurns: 1}, prompt.Receipt{TailTurns: 1}},
		"All 3 turns are remembered: 2 in the brief, 1 word for word in the prompt. 1 pinned or important message is there from before, word for word as well.": {
			memory.Chat{TotalTurns: 3, PendingTurns: 1}, prompt.Receipt{TailTurns: 1, Sections: []prompt.Account{{Name: "kept", Items: 1}}}},
		"All 3 turns are remembered: 1 in the brief (up to message 4), 2 word for word in the prompt. What was said up to message 2 was left behind " +
			"when the context was cleared.": {
			memory.Chat{TotalTurns: 3, PendingTurns: 2, Brief: brief}, prompt.Receipt{TailTurns: 2, BriefVersion: 2}},
		"The stored brief cannot be read; the last 2 turns are word for word in the prompt.": {
			memory.Chat{TotalTurns: 9, PendingTurns: 2, Brief: memory.Brief{Unreadable: true}}, prompt.Receipt{TailTurns: 2, BriefUnreadable: true}},
		"Of 9 turns 4 are in the brief and 3 word for word in the prompt; 2 are in neither until the next fold. Something had to be shortened to fit.": {
			memory.Chat{TotalTurns: 9, PendingTurns: 5}, prompt.Receipt{TailTurns: 3, DroppedTurns: 2, Truncated: true}},
		"The last 3 of 9 turns are word for word in the prompt; the 6 before are in no summary.": {
			memory.Chat{Settings: memory.Settings{Strategy: memory.StrategySimple}, TotalTurns: 9, PendingTurns: 9}, prompt.Receipt{TailTurns: 3, DroppedTurns: 6}},
		"All 2 turns are remembered: 1 in the brief, 1 word for word in the prompt. 2 pinned or important messages are there from before, word for word as well.": {
			memory.Chat{TotalTurns: 2, PendingTurns: 1, Brief: memory.Brief{Version: 1, Summary: "x"}}, prompt.Receipt{TailTurns: 1,
				BriefVersion: 1, Sections: []prompt.Account{{Name: "kept", Items: 2}}}},
	} {
		assert.Equal(t, want, prompt.Coverage(c.chat, c.receipt))
	}
}

// A chat that a tool started shows its turns word for word as long as the history's part of the window holds them, and is
// folded from there on; a small window leaves less.
func TestAToolsThreadHasTheHistorysPartOfTheWindow(t *testing.T) {
	t.Parallel()
	for window, wholeTurns := range map[int]int{memory.DefaultWindow: 25, 40_000: 6} {
		limits := memory.DefaultLimits().Within(window)
		for _, strategy := range []memory.StrategyName{memory.StrategySummary, memory.StrategySimple} {
			settings := memory.Settings{Strategy: strategy, Tool: true}
			turns := wordy(slices.Repeat([]int{1400}, wholeTurns)...)
			r := prompt.Build(memory.Chat{Settings: settings, Buffer: rowsOf(turns), PendingTurns: wholeTurns, TotalTurns: wholeTurns},
				prompt.Question{Content: "q"}, limits).Receipt
			if r.DroppedTurns > 0 || r.Truncated || r.TailTurns+r.BridgeTurns != wholeTurns || r.TailTokens+r.BridgeTokens > memory.Divide(window).History {
				t.Errorf("%s in %d: %+v", strategy, window, r)
			}
			assert.Equalf(t, (window == 40_000 && strategy == memory.StrategySummary), memory.Due(0, 1400*10, 10, limits.For(settings)),
				"%s in %d: ten turns of 1400 tokens are due", strategy, window)
		}
	}
}

// sized are turns of so many tokens each, one exchange per turn.
func sized(sizes ...int) []memory.Turn {
	var rows []memory.Message
	for n, size := range sizes {
		two := exchange(int64(2*n+1), "Question.", "Answer.")
		two[0].Tokens, two[1].Tokens = size/2, size-size/2
		rows = append(rows, two...)
	}
	return memory.Turns(rows)
}

func pending(turns []memory.Turn) (tokens int) {
	for _, t := range turns {
		tokens += t.Tokens()
	}
	return tokens
}

// Turns too long for the prompt make a chat due by its counters. The fold takes what makes it due; otherwise the sweep
// would ask for one again and again that finds nothing to do.
func TestDueChatHasSomethingToFold(t *testing.T) {
	t.Parallel()
	plan, ok := brief.PlanFold(memory.Brief{}, sized(500, 500, 8500), memory.DefaultLimits())
	assert.Truef(t, ok && plan.Turns == 2, "%d turns are folded, %v", plan.Turns, ok)
	if plan, ok := brief.PlanFold(memory.Brief{}, sized(1000, 1000, 1000), memory.DefaultLimits()); ok {
		t.Errorf("of a chat that is not due %d turns are folded", plan.Turns)
	}
}

// For any turns, folding a due chat makes it one that is not due.
func TestFoldingEnds(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(7, 7))
	limits, due := memory.DefaultLimits(), 0
	for range 2000 {
		sizes := make([]int, 1+dice.IntN(8))
		for n := range sizes {
			sizes[n] = 2 + dice.IntN(2+dice.IntN(9000))
		}
		turns, current := sized(sizes...), memory.Brief{}
		for memory.Due(current.Tokens, pending(turns), len(turns), limits) {
			due++
			plan, ok := brief.PlanFold(current, turns, limits)
			require.Truef(t, ok && plan.Turns != 0, "turns of %v are due and not folded", sizes[len(sizes)-len(turns):])
			turns = turns[plan.Turns:]
			current.Tokens, current.CoveredSeq, current.Summary = limits.SummaryTokenCap, plan.SeqTo, "Everything."
		}
	}
	assert.True(t, due != 0, "no chat was due")
}

func TestDueNeedsSizeAndTurns(t *testing.T) {
	t.Parallel()
	l := memory.DefaultLimits()
	for _, c := range []struct {
		brief, pending, turns int
		want                  bool
	}{
		{500, 5500, 10, false}, {500, 5501, 10, true}, {0, 6000, 10, false}, {0, 1_000_000, 0, false},
		// Before the last three turns there has to be half a threshold,
		{0, 6001, 5, false}, {0, 6001, 6, true}, {500, 7500, 5, true},
		// unless one more turn could not be shown.
		{0, 7200, 4, false}, {0, 7201, 4, true}, {500, 6375, 3, false}, {500, 6376, 3, true}, {0, 6002, 2, true}, {0, 1_000_000, 1, false},
	} {
		assert.Equalf(t, c.want, memory.Due(c.brief, c.pending, c.turns, l), "Due(%d, %d, %d)", c.brief, c.pending, c.turns)
	}
	l.BridgeTokenBudget = 0 // then nothing is shown of what is before the last three
	assert.True(t, memory.Due(0, 6001, 4, l) && !memory.Due(0, 1_000_000, 3, l), "without a bridge it waits for more turns, or takes one of the last")
}
