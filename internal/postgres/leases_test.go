package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A reply lives as long as its own lease or its server's: also with another server, whose sweep this is, and until that server is
// forgotten. One that its server does not generate, because it could not be saved, lives as long as its own; one of a turn that failed
// ends at once.
func TestAReplyLivesAsLongAsItsServer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.startTwo()
	unsaved := firstTurn("Is anyone there?")
	unsaved.Server = one.Server
	b.start(unsaved)
	renew := func(server uuid.UUID, lease time.Duration, running ...uuid.UUID) {
		noError(t, b.turns.RenewLease(t.Context(), server, running, lease))
	}
	interrupted := func(want int, which string) {
		is(t, must(b.turns.InterruptAbandoned(t.Context()))(t), want, "interrupted: %s", which)
	}
	renew(one.Server, time.Minute, one.MessageID)
	interrupted(0, "replies with a lease of their own")
	b.exec("update messages set lease_until = now() where status = 'streaming'")
	interrupted(1, "the reply of a server without a lease")
	is(t, tuple(b.find(one, 0).Status, b.find(two, 0).Status), tuple(memory.StatusStreaming, memory.StatusInterrupted), "of both servers")
	renew(one.Server, time.Minute, one.MessageID)
	interrupted(1, "the reply that is not generated")
	is(t, tuple(b.find(one, 0).Status, b.find(unsaved, 0).Status), tuple(memory.StatusStreaming, memory.StatusInterrupted), "of one server")
	failed := turnIn(two.ChatID, "Hello?")
	b.start(failed)
	noError(t, b.turns.Abandon(t.Context(), []uuid.UUID{failed.MessageID, two.MessageID}))
	interrupted(1, "the reply of a turn that failed")
	// A server that stood still finds its replies ended when it goes on, and can still save one that nothing replaced.
	renew(one.Server, -time.Second, one.MessageID)
	is(t, must(b.turns.StartTurn(t.Context(), b.user, turnIn(one.ChatID, "Are you there?")))(t).Started, true, "the next message")
	renew(one.Server, time.Minute, one.MessageID)
	is(t, b.find(one, 0).Status, memory.StatusInterrupted, "the reply of the server that stood still")
	b.exec("update throughline.servers set lease_until = now() - interval '25 hours'")
	renew(two.Server, time.Minute)
	is(t, b.count("throughline.servers"), 1, "servers are known after a day")
}

// A lease that ran out while Postgres was down does not mean that the server died: it could not renew the
// lease, and gets some time to do so. One that runs out afterwards counts at once.
func TestLeasesAreNotLostToARestart(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	b := newBedOn(t, server.Database, memory.DefaultLimits(), 4)
	renewed, silent := b.startTwo()
	b.exec("update messages set lease_until = clock_timestamp() where status = 'streaming'")
	server.Stop()
	server.Start()
	b.pool.Reset() // its connections are broken
	is(t, must(b.turns.InterruptAbandoned(t.Context()))(t), 0, "interrupted")
	is(t, must(b.turns.StartTurn(t.Context(), b.user, turnIn(silent.ChatID, "Are you there?")))(t).Running, silent.MessageID, "the next message found")
	noError(t, b.turns.RenewLease(t.Context(), renewed.Server, []uuid.UUID{renewed.MessageID}, time.Minute))
	noError(t, b.turns.RenewLease(t.Context(), silent.Server, []uuid.UUID{silent.MessageID}, 0))
	is(t, must(b.turns.InterruptAbandoned(t.Context()))(t), 1, "interrupted")
	kept, lost := b.find(renewed, 0), b.find(silent, 0)
	assert.Truef(t, kept.Status == memory.StatusStreaming && lost.Status == memory.StatusInterrupted,
		"%s, %s", kept.Status, lost.Status)
}
