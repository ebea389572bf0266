package system

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// The whole way of a message and its fold with nothing but a transaction pooler: no prepared
// statements, no LISTEN, and every transaction on another connection.
func TestEverythingThroughTransactionPooler(t *testing.T) {
	t.Parallel()
	db := testkit.NewDatabase(t)
	pooled := testkit.NewTransactionPooler(t, db)
	r := newRigOn(t, db, nil, smallMemory.and(env{"DATABASE_URL": pooled, "DATABASE_DIRECT_URL": pooled}))
	if !strings.Contains(r.logs.String(), `"poll_only":true`) {
		t.Fatal("the workers wait for notifications that a transaction pooler does not pass on")
	}
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	for n := range 14 {
		r.Say(chatID, fmt.Sprintf("On day %d I practised the etude number %d for an hour, and my bow arm felt heavy all the time.", n, 100+n))
	}
	testkit.Eventually(t, "the chat is folded", func() bool { return testkit.Ask[int64](t, r.pool, "select version from conversation_briefs") >= 1 })
	r.awaitFolds()
	if got := r.Say(chatID, "What is my cello teacher called?"); !strings.Contains(got.Text, "Ilse") {
		t.Errorf("forgotten: %q", got.Text)
	}
	r.checkCoverage(uuid.MustParse(chatID))
	r.checkFoldedOnce()
}
