package chat

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withEarlierTurn stores a reply and makes the store return its turn for every message.
func withEarlierTurn(svc *testService, reply StoredReply) EarlierTurn {
	earlier := EarlierTurn{ChatID: reply.ChatID, UserMessageID: reply.UserMessageID, Content: "Hello.", MessageID: reply.MessageID}
	svc.store.put(reply)
	svc.store.start = func(context.Context, NewTurn) (StartedTurn, error) { return StartedTurn{Earlier: &earlier}, nil }
	return earlier
}

func storedReply(status memory.Status, text string) StoredReply {
	return StoredReply{ChatID: uuid.New(), UserMessageID: uuid.New(), MessageID: uuid.New(), Status: status, Content: text,
		Metadata: ReplyMetadata{ModelVariant: "arco"}}
}

// The same message again: the reply it started, from where the client has it, and no call of the model.
func TestTheSameMessageAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		resume func(EarlierTurn) *Cursor
		text   string
		offset int
		err    error
	}{
		{"from the beginning", func(EarlierTurn) *Cursor { return nil }, "The héllo.", 0, nil},
		{"from a place on", func(e EarlierTurn) *Cursor { return &Cursor{MessageID: e.MessageID, After: 6} }, "llo.", 6, nil},
		{"from a place past the end", func(e EarlierTurn) *Cursor { return &Cursor{MessageID: e.MessageID, After: maxReplyChars} }, "", 10, nil},
		{"from the end", func(e EarlierTurn) *Cursor { return &Cursor{MessageID: e.MessageID, End: true} }, "", 0, ErrNothingToStream},
		{"from a place in another reply", func(EarlierTurn) *Cursor { return &Cursor{MessageID: uuid.New(), After: 6} }, "The héllo.", 0, nil},
		{"from the end of another reply", func(EarlierTurn) *Cursor { return &Cursor{MessageID: uuid.New(), End: true} }, "The héllo.", 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inService(t, func(t *testing.T, svc *testService) {
				earlier := withEarlierTurn(svc, storedReply(memory.StatusComplete, "The héllo."))
				for _, chatID := range []uuid.UUID{uuid.Nil, earlier.ChatID} {
					reply, err := svc.Send(t.Context(), ada, Message{ChatID: chatID, Content: " Hello. ", ClientMessageID: uuid.New(), Resume: c.resume(earlier)})
					require.ErrorIsf(t, err, c.err, "%v", err)
					if err != nil {
						continue
					}
					text, end := readToEnd(t, reply)
					reply.Close()
					if text != c.text || reply.Started.Offset != c.offset || !reply.Started.Resumed || end.Completed == nil || end.Completed.ContentLength != 10 {
						t.Errorf("%q, %+v, %+v", text, reply.Started, end)
					}
					assert.Truef(t, reply.Started.MessageID == earlier.MessageID && reply.Started.UserMessageID == earlier.UserMessageID,
						"another reply: %+v", reply.Started)
				}
				assert.Equal(t, 0, len(svc.model.requests()), "the model was asked again")
			})
		})
	}
}

func TestTheSameIDForAnotherMessage(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		earlier := withEarlierTurn(svc, storedReply(memory.StatusComplete, "Hi."))
		for _, message := range []Message{
			{Content: "Goodbye."}, {Content: "hello."}, {Content: "Goodbye.", ChatID: earlier.ChatID}, {Content: "Hello.", ChatID: uuid.New()},
			{Content: "Hello.", Files: []memory.File{{Path: "a.go", Content: "package a"}}},
		} {
			_, err := svc.Send(t.Context(), ada, message)
			wantFault(t, err, fault.IdempotencyMismatch)
		}
	})
}

// A message whose reply is gone must not be answered with another message's.
func TestTheSameMessageAgainWithoutItsReply(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		other := storedReply(memory.StatusComplete, "The answer to something else.")
		earlier := withEarlierTurn(svc, other)
		earlier.MessageID = uuid.Nil
		svc.store.start = func(context.Context, NewTurn) (StartedTurn, error) { return StartedTurn{Earlier: &earlier}, nil }
		_, err := svc.Send(t.Context(), ada, Message{Content: "Hello."})
		wantFault(t, err, fault.MessageNotFound)
	})
}

// The same message again while its reply is being made: one generation, two readers.
func TestTheSameMessageAgainJoins(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		script := svc.scripted()
		first := svc.send(t, Message{Content: "Hello."})
		script.emit("One ")
		synctest.Wait()
		stored, _, err := svc.store.FindReply(t.Context(), ada, first.Started.ChatID, uuid.Nil, 0)
		require.NoError(t, err)
		withEarlierTurn(svc, stored)
		second := svc.send(t, Message{Content: "Hello.", Resume: &Cursor{MessageID: stored.MessageID, After: 2}})
		script.emit("two.")
		script.finish()
		whole, _ := readToEnd(t, first)
		rest, end := readToEnd(t, second)
		if whole != "One two." || rest != "e two." || end.Completed == nil || second.Started.Offset != 2 || len(svc.model.requests()) != 1 {
			t.Errorf("%q, %q, %+v, asked %d times", whole, rest, end, len(svc.model.requests()))
		}
	})
}

// A retry asks the variant that answered before, also where that was not the one that the message asked for and names again.
func TestARetryKeepsItsVariant(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		failed := storedReply(memory.StatusFailed, "Half")
		svc.store.put(failed)
		svc.store.start = func(_ context.Context, turn NewTurn) (StartedTurn, error) {
			if turn.Replacement != nil {
				return StartedTurn{Started: true}, nil
			}
			return StartedTurn{Earlier: &EarlierTurn{
				ChatID: failed.ChatID, UserMessageID: failed.UserMessageID, Content: "Hello.", MessageID: failed.MessageID, Status: failed.Status,
				Ends: true, Variant: "arco", Asked: "arco-pro",
			}}, nil
		}
		for _, variant := range []string{"", "arco-pro"} {
			reply := svc.send(t, Message{Content: "Hello.", Variant: variant})
			assert.Equalf(t, "arco", reply.Started.ModelVariant, "%+v", reply.Started)
		}
		_, err := svc.Send(t.Context(), ada, Message{Content: "Hello.", Variant: "arco"})
		wantFault(t, err, fault.IdempotencyMismatch)
	})
}

// Who saw a failed reply's end is not answered with another one. Of two retries at once one starts, and the other joins it. What was
// said since is thrown away by none: a failed reply that is not the path's last is replayed.
func TestRetriesAtOnceAreOne(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		failed := storedReply(memory.StatusFailed, "Half")
		earlier := withEarlierTurn(svc, failed)
		earlier.Status = memory.StatusFailed
		var again StartedTurn
		svc.store.start = func(_ context.Context, turn NewTurn) (StartedTurn, error) {
			if turn.Replacement != nil {
				return again, nil
			}
			return StartedTurn{Earlier: &earlier, Running: uuid.New()}, nil
		}
		text, end := readToEnd(t, svc.send(t, Message{Content: "Hello."}))
		assert.Truef(t, text == "Half" && end.Failed != nil, "%q, %+v", text, end)

		earlier.Ends = true
		_, err := svc.Send(t.Context(), ada, Message{Content: "Hello.", Resume: &Cursor{MessageID: failed.MessageID, End: true}})
		assert.ErrorIsf(t, err, ErrNothingToStream, "%v", err)
		whole := storedReply(memory.StatusComplete, "Whole.")
		whole.ChatID, whole.UserMessageID = failed.ChatID, failed.UserMessageID
		svc.store.put(whole)
		other := earlier
		other.MessageID, other.Status = whole.MessageID, whole.Status
		again = StartedTurn{Earlier: &other}
		text, end = readToEnd(t, svc.send(t, Message{Content: "Hello."}))
		assert.Truef(t, text == "Whole." && end.Completed != nil, "%q, %+v", text, end)
		assert.Empty(t, svc.model.requests())
	})
}
