package chat

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// Who does not say which conversation they see means that of this moment: when it changes before the chat is locked, it is looked at
// again, three times. Who says so is told at once. internal/postgres tests the rest.
func TestReplacingLooksAgainWhenTheConversationChanges(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		asked, lasts := uuid.New(), []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New()}
		now := func(n int) Replaced {
			return Replaced{ID: asked, ChatID: uuid.New(), Role: memory.RoleUser, Seq: 3, UserMessageID: asked, UserSeq: 3, Content: "Hello.", LastMessageID: lasts[n]}
		}
		svc.store.replaced = now(0)
		for changes, c := range map[int]struct {
			message Message
			tries   int
			code    fault.Code
		}{
			0: {Message{Replaces: asked, Content: "Hi."}, 1, ""},
			2: {Message{Replaces: asked, Regenerate: true}, 3, ""},
			3: {Message{Replaces: asked, Content: "Hi."}, 3, fault.ConversationChanged},
			1: {Message{Replaces: asked, Content: "Hi.", Last: &lasts[0]}, 1, fault.ConversationChanged},
		} {
			var turns []NewTurn
			svc.store.start = func(_ context.Context, turn NewTurn) (StartedTurn, error) {
				if turns = append(turns, turn); len(turns) > changes {
					return StartedTurn{Started: true}, nil
				}
				found := now(len(turns))
				return StartedTurn{Replaced: &found}, nil
			}
			reply, err := svc.Send(t.Context(), ada, c.message)
			assert.Equalf(t, c.code, fault.CodeOf(err), "%d changes: %v", changes, err)
			assert.Lenf(t, turns, c.tries, "%d changes", changes)
			for n, turn := range turns {
				assert.Equalf(t, lasts[n], *turn.Last, "%d changes: try %d", changes, n)
			}
			if refused, ok := errors.AsType[*fault.Error](err); ok {
				assert.Equalf(t, lasts[len(turns)], refused.Details["last_message_id"], "%d changes", changes)
				continue
			}
			text, _ := readToEnd(t, reply)
			reply.Close()
			assert.Equal(t, "Fine.", text)
		}
	})
}
