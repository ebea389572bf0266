package kit_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	own := kit.UsageOf(os.Getpid())
	if own.RSS < 1<<20 || own.CPU < 0 {
		t.Errorf("our own: %+v", own)
	}
	const nobody = 1 << 30 // above every limit of process numbers
	if got := kit.UsageOf(nobody); got != (kit.Usage{}) {
		t.Errorf("nobody's: %+v", got)
	}
}

func TestUsageWithChildren(t *testing.T) {
	t.Parallel()
	const nobody = 1 << 30 // above every limit of process numbers
	if own, all := kit.UsageOf(os.Getpid()), kit.UsageWithChildren(os.Getpid()); all.RSS < own.RSS/2 {
		t.Errorf("with children %+v, without %+v", all, own)
	}
	if got := kit.UsageWithChildren(nobody); got != (kit.Usage{}) {
		t.Errorf("nobody and its children: %+v", got)
	}
}
