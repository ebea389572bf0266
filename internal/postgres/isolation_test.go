package postgres

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A pooler that parts pipelines is good enough, because our batches say their transactions. One that parts transactions or forgets
// settings is noticed, for the owner's connection, too.
func TestIsolationIsLookedAt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stranger := b.user
	secret := b.newChat(2)
	for manner, kept := range map[testkit.Manner]bool{testkit.Parting: true, testkit.Scattering: false, testkit.Forgetting: false} {
		gateway := testkit.NewGateway(t, b.db, manner)
		for _, dsn := range []string{b.db.ServerDSN, b.db.DSN} {
			pool, _, err := Open(t.Context(), gateway.Through(dsn), 4)
			noError(t, err)
			got, err := Isolated(t.Context(), pool)
			is(t, tuple(got, err), tuple(kept, nil), "manner %d, %s", manner, dsn)
			pool.Close()
		}
		server, _, err := Open(t.Context(), gateway.Through(b.db.ServerDSN), 4)
		noError(t, err)
		store := NewTurns(server, b.limits, b.turns.enqueue)
		for _, user := range []auth.Principal{principalOf(t, uuid.New()), b.newUser()} {
			read, err := store.ReadChat(t.Context(), user, secret)
			assert.Emptyf(t, read.Chat.Buffer, "manner %d: another user's chat", manner)
			if require.Errorf(t, err, "manner %d: another user's chat", manner); kept {
				wantFault(t, err, fault.ChatNotFound, "manner %d: another user's chat", manner)
			}
		}
		own, err := store.ReadChat(t.Context(), stranger, secret)
		is(t, err == nil && len(own.Chat.Buffer) == 4, kept, "manner %d: the user's own: %v", manner, err)
		server.Close()
	}
}

// A batch that fails in the middle leaves nothing behind what parts pipelines.
func TestPartedPipelinesLeaveNoHalfBatch(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	gateway := testkit.NewGateway(t, b.db, testkit.Parting)
	pool, _, err := Open(t.Context(), gateway.Through(b.db.ServerDSN), 1)
	noError(t, err)
	t.Cleanup(pool.Close)
	b.turns = NewTurns(pool, b.limits, b.turns.enqueue)
	taken := b.exchange(firstTurn("One."), "Hello.")
	again := firstTurn("Two.")
	again.UserMessageID = taken.UserMessageID // its second statement of two fails
	_, err = b.turns.StartTurn(t.Context(), b.user, again)
	is(t, fmt.Sprint(err != nil, b.count("chats"), b.count("messages")), "true 1 2", "%v", err)
	b.exchange(turnIn(taken.ChatID, "Three."), "Fine.")
	is(t, b.count("messages"), 4, "messages after the connection was used again")
}
