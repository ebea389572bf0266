package system

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// replicas starts two servers on one database: the rig's own and another.
type replicas func(script testkit.Script) (r *rig, other *node)

// notifiedAndPolling runs a test with replicas that notify each other, and with replicas that have only a transaction
// pooler and therefore poll.
func notifiedAndPolling(t *testing.T, test func(t *testing.T, start replicas)) {
	t.Helper()
	for name, pooled := range map[string]bool{"notified": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(script testkit.Script) (*rig, *node) {
				db := testkit.NewDatabase(t)
				change := env{}
				if pooled {
					change["DATABASE_URL"] = testkit.NewTransactionPooler(t, db)
					change["DATABASE_DIRECT_URL"] = change["DATABASE_URL"]
				}
				r := newRigOn(t, db, script, change)
				return r, r.replica()
			})
		})
	}
}
