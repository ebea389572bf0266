package memory_test

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
)

func TestDueNeedsSizeAndTurns(t *testing.T) {
	t.Parallel()
	l := memory.DefaultLimits()
	for _, c := range []struct {
		brief, pending, turns int
		want                  bool
	}{
		{500, 5500, 10, false}, {500, 5501, 10, true}, {0, 6000, 10, false}, {0, 6001, 4, true}, {0, 1_000_000, 0, false},
		// Three turns are due only when the prompt cannot show them all.
		{500, 8500, 3, false}, {500, 8501, 3, true}, {0, 9001, 2, true}, {0, 1_000_000, 1, false},
	} {
		if got := memory.Due(c.brief, c.pending, c.turns, l); got != c.want {
			t.Errorf("Due(%d, %d, %d) = %v", c.brief, c.pending, c.turns, got)
		}
	}
}
