package memory_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

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

// Whatever the turns, folding a due chat makes it one that is not due.
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
			if !ok || plan.Turns == 0 {
				t.Fatalf("turns of %v are due and not folded", sizes[len(sizes)-len(turns):])
			}
			turns = turns[plan.Turns:]
			current.Tokens, current.CoveredSeq, current.Summary = limits.SummaryTokenCap, plan.SeqTo, "Everything."
		}
	}
	assert.True(t, due != 0, "no chat was due")
}
