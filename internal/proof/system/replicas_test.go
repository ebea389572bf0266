package system

import (
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// foreign is a reply in which characters, bytes and UTF-16 units are counted differently from its third
// letter on, and in which one sign that a person sees is many characters.
const foreign = "Grüße aus 世界 👩‍👩‍👧‍👦 naïve Fußnote 🎻 Ωmega עברית und é am Ende: 🇦🇹."

// opening is the beginning of a text, so many words of it.
func opening(text string, words int) string {
	return strings.Join(strings.SplitAfter(text, " ")[:words], "")
}

// replicas makes two servers on one database: the rig's own and another.
type replicas func(script testkit.Script) (r *rig, other *node)

// bothWays runs a test with replicas that notify each other, and with replicas that have nothing but a
// transaction pooler and look for themselves.
func bothWays(t *testing.T, test func(t *testing.T, start replicas)) {
	t.Helper()
	for name, pooled := range map[string]bool{"notified": false, "looking": true} {
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

// awaitNoDeltas waits until nothing is left of what was recorded while replies ran.
func (r *rig) awaitNoDeltas() {
	r.t.Helper()
	testkit.Eventually(r.t, "the spent deltas are gone", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from message_deltas") == 0
	})
}

// awaitRecorded waits until so much of a running reply is in Postgres: what readers have is there a moment later.
func (r *rig) awaitRecorded(messageID, text string) {
	r.t.Helper()
	testkit.Eventually(r.t, "what was said is recorded", func() bool {
		return testkit.Ask[string](r.t, r.pool, "select coalesce(string_agg(delta, '' order by start_char), '') from message_deltas where message_id = $1", messageID) == text
	})
}

// checkStored wants a reply stored whole.
func (r *rig) checkStored(messageID, text string) {
	r.t.Helper()
	if row := r.awaitEnded(messageID); row != (messageRow{role: "assistant", status: "complete", content: text}) {
		r.t.Errorf("stored %.200v, want %.100q", row, text)
	}
}

// restOfAll reads streams to their ends, all at once.
func restOfAll(t *testing.T, streams []*testkit.Stream) []testkit.Said {
	t.Helper()
	type result struct {
		n    int
		said testkit.Said
		err  error
	}
	results := make(chan result, len(streams))
	for n, s := range streams {
		go func() {
			said, err := s.TryRest()
			results <- result{n, said, err}
		}()
	}
	said := make([]testkit.Said, len(streams))
	for range streams {
		got := testkit.Receive(t, "a stream ends", results)
		if got.err != nil {
			t.Fatalf("stream %d: %v", got.n, got.err)
		}
		said[got.n] = got.said
	}
	return said
}
