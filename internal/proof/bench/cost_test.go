package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCostIsComparedByPairsOfBlocks(t *testing.T) {
	t.Parallel()
	of := func(milliseconds ...int) (all []spent) {
		for _, ms := range milliseconds {
			all = append(all, spent{server: time.Duration(ms) * time.Millisecond})
		}
		return all
	}
	// The machine was busy in the second round: of both builds alike.
	ours, theirs := &build{name: "new", blocks: of(2, 8, 3)}, &build{name: "old", blocks: of(4, 16, 6)}
	want := row{What: "server's CPU per turn", Unit: "ms", Value: 3, Target: atMost(4)}
	if diff := cmp.Diff(want, costRows(ours)[0]); diff != "" {
		t.Error(diff)
	}
	want.Against, want.Baseline, want.Ratio = "old", 6, .5
	if diff := cmp.Diff(want, costRows(ours, theirs)[0]); diff != "" {
		t.Error(diff)
	}
}

func TestCostOfAFolderWithoutTheProgram(t *testing.T) {
	t.Parallel()
	if _, err := startBuild(t.Context(), t.TempDir(), "http://127.0.0.1:1", 1); err == nil || !strings.Contains(err.Error(), "build") {
		t.Errorf("got %v", err)
	}
}
