package stack_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/arcoscribe/throughline/internal/proof/stack"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	own := stack.UsageOf(os.Getpid())
	if own.RSS < 1<<20 || own.CPU < 0 {
		t.Errorf("our own: %+v", own)
	}
	const nobody = 1 << 30 // above every limit of process numbers
	if got := stack.UsageOf(nobody); got != (stack.Usage{}) {
		t.Errorf("nobody's: %+v", got)
	}
	if got := new(stack.Postgres).Usage(); got != (stack.Usage{}) {
		t.Errorf("of a Postgres that was never started: %+v", got)
	}
}

func TestProcessesByNumber(t *testing.T) {
	t.Parallel()
	if got := stack.CPUOf("self", false); got < 0 {
		t.Errorf("%v of our own", got)
	}
	if got := stack.CPUOf("no process", true); got != 0 {
		t.Errorf("%v of no process", got)
	}
	if got := stack.ChildrenOf("no process"); len(got) != 0 {
		t.Errorf("no process has the children %v", got)
	}
}
