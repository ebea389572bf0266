package app

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

var discard = slog.New(slog.DiscardHandler)

// openUp lets the server's own user pass through a folder of the test.
func openUp(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && dir != "/"; dir = dir[:strings.LastIndex(dir, "/")] {
		if err := os.Chmod(dir, fs.FileMode(0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// The whole way of a message and its fold with nothing but a transaction pooler: no prepared
// statements, no LISTEN, and every transaction on another connection.
func TestEverythingThroughTransactionPooler(t *testing.T) {
	t.Parallel()
	db := testkit.NewDatabase(t)
	pooled := testkit.NewTransactionPooler(t, db) + "&pgbouncer=true"
	r := newStoppedRig(t, db, nil, smallMemory)
	r.env["DATABASE_URL"] = pooled
	r.user = testkit.NewUser(t, db)
	r.token = testkit.Token(t, r.user)
	r.node = r.start(Role{API: true, Workers: true}, nil)
	if !r.app.pollOnly {
		t.Fatal("the workers wait for notifications that a transaction pooler does not pass on")
	}
	chatID := r.say("", "My cello teacher is called Ilse and I live in Graz.").chatID
	for n := range 14 {
		r.say(chatID, fmt.Sprintf("On day %d I practised the etude number %d for an hour, and my bow arm felt heavy all the time.", n, 100+n))
	}
	within(t, "the chat is folded", func() bool { return ask[int64](r, "select version from conversation_briefs") >= 1 })
	within(t, "all folds are done", func() bool {
		return ask[bool](r, `select not exists (select from river.river_job where state <> 'completed' and kind = 'fold_brief')`)
	})
	if got := r.say(chatID, "What is my cello teacher called?"); !strings.Contains(got.text, "Ilse") {
		t.Errorf("forgotten: %q", got.text)
	}
	r.checkCoverage(uuid.MustParse(chatID))
	r.checkFoldedOnce()
}
