package system

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// Messages and folds work with only a transaction pooler: no prepared statements, no LISTEN, and every transaction on
// another connection.
func TestEverythingThroughTransactionPooler(t *testing.T) {
	t.Parallel()
	db := testkit.NewDatabase(t)
	pooled := testkit.NewTransactionPooler(t, db)
	r := newRigOn(t, db, nil, smallMemory.And(env{"DATABASE_URL": pooled, "DATABASE_DIRECT_URL": pooled}))
	testkit.Eventually(t, "the workers poll, because a transaction pooler passes no notifications on", func() bool {
		return strings.Contains(r.logs.String(), `"poll_only":true`)
	})
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	r.practise(chatID, 14)
	r.awaitFirstFold()
	r.awaitFolds()
	if got := r.Say(chatID, "What is my cello teacher called?"); !strings.Contains(got.Text, "Ilse") {
		t.Errorf("forgotten: %q", got.Text)
	}
	r.checkCoverage(uuid.MustParse(chatID))
	r.checkFoldedOnce()
}
