package chat

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Resume gives a reply of a chat from a place on. Without a cursor it follows what is running.
func (s *Service) Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *Cursor) (*Reply, error) {
	if cursor != nil {
		return s.follow(ctx, user, chatID, *cursor)
	}
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, uuid.Nil, 0)
	if err != nil {
		return nil, err
	}
	if !ok || stored.Status != memory.StatusStreaming {
		return nil, ErrNothingToStream
	}
	return s.open(user, stored, 0)
}

func (s *Service) follow(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor Cursor) (*Reply, error) {
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, cursor.MessageID, 0)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.MessageNotFound, "This chat has no such reply.")
	}
	if cursor.End {
		return nil, ErrNothingToStream
	}
	return s.open(user, stored, cursor.After)
}

// open gives a reader of a reply that it did not start: of our own relay while it runs here, of what is
// recorded while it runs elsewhere, otherwise of what is stored.
func (s *Service) open(user auth.Principal, stored StoredReply, after int) (*Reply, error) {
	reply := &Reply{Started: streaming.Started{
		ChatID: stored.ChatID, UserMessageID: stored.UserMessageID, MessageID: stored.MessageID,
		ModelVariant: stored.Metadata.ModelVariant, Resumed: true,
	}}
	if g := s.find(stored.MessageID); g != nil {
		reply.read(&g.relay, after)
		return reply, nil
	}
	if stored.Status != memory.StatusStreaming {
		reply.read(replay(stored), after)
		return reply, nil
	}
	if s.stopping() {
		return nil, shuttingDown()
	}
	f := s.join(user, stored)
	reply.release = func() { s.leave(f) }
	// The reader may know more than was recorded yet, so its place is taken as it is.
	reply.Started.Offset = after
	reply.reader = f.relay.Read(after)
	return reply, nil
}

// read makes the reply one of that relay, which holds all that was said: a place past the end is the end.
func (r *Reply) read(relay *streaming.Relay, after int) {
	_, said := relay.Text()
	r.Started.Offset = min(after, said)
	r.reader = relay.Read(r.Started.Offset)
}

// replay makes a relay of a reply that has ended.
func replay(stored StoredReply) *streaming.Relay {
	relay := &streaming.Relay{}
	relay.Append(stored.Content)
	relay.End(terminalOf(stored))
	return relay
}
