package chat

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

func (f *fakeStore) ChangeReply(_ context.Context, _ auth.Principal, id uuid.UUID, change func(*LockedReply) (ReplyChange, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := slices.IndexFunc(f.replies, func(reply StoredReply) bool { return reply.MessageID == id })
	if n < 0 {
		return fault.New(fault.MessageNotFound, "There is no such reply.")
	}
	reply := &f.replies[n]
	locked := &LockedReply{StoredReply: *reply, Ends: true, Now: time.Now(), Until: reply.Expires}
	if state, ok := f.states[id]; ok {
		locked.State = &state
	}
	changed, err := change(locked)
	if err != nil {
		return err
	}
	reply.Parts = slices.Concat(reply.Parts, changed.Parts)
	if changed.Step {
		reply.Content, reply.Metadata = changed.Content, changed.Metadata
	}
	if changed.State != nil {
		f.states[id] = *changed.State
	}
	if changed.Spent != nil {
		f.charged = append(f.charged, *changed.Spent)
	}
	if changed.Status != "" {
		reply.Status, reply.Expires, reply.Server = changed.Status, changed.WaitUntil, changed.Server
	}
	return nil
}

func (f *fakeStore) ReadTurn(context.Context, auth.Principal, uuid.UUID, uuid.UUID, uuid.UUID) (memory.Chat, prompt.Question, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return memory.Chat{}, prompt.Question{Content: f.turns[len(f.turns)-1].Content}, f.readErr
}

func (f *fakeStore) SkipCalls(_ context.Context, _ auth.Principal, id uuid.UUID) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.replies {
		if f.replies[n].MessageID == id && f.replies[n].Status == memory.StatusAwaiting {
			f.replies[n].Status = memory.StatusCancelled
			return true, nil
		}
	}
	return false, nil
}
