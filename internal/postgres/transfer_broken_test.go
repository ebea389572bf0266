package postgres

import (
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// A connection that breaks in the middle of a chat leaves nothing of it, and the error reports that the
// import can be repeated.
func TestImportOverABrokenConnectionLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	file := longFile(1500)
	broken := false
	_, err := p.transfer.Import(t.Context(), p.user, strings.NewReader(file), func(progress transfer.Progress) {
		if progress.Phase == transfer.PhaseWriting && progress.Messages == 900 && !broken {
			broken = true
			p.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'")
		}
	})
	if !broken || fault.CodeOf(err) != fault.NotReady {
		t.Errorf("the import ended with %v", err)
	}
	if got := ask[int](p.bed, "select (select count(*) from chats) + (select count(*) from messages)"); got != 0 {
		t.Errorf("%d rows are left", got)
	}
	if result := p.mustImport(p.user, file); result.Imported != 1 || result.Messages != 1500 {
		t.Errorf("again: %+v", result)
	}
	p.checkCounters()
}
