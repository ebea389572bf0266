package memory_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
)

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
	assert.True(t, memory.Due(0, 6001, 4, l) && !memory.Due(0, 1_000_000, 3, l),
		"without a bridge it waits for more turns, or takes one of the last")
}
