package chat

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Resume returns a reader of a chat's reply from the cursor on. Without a cursor it reads the running reply; when there is
// none the error is ErrNothingToStream.
func (s *Service) Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *Cursor) (*Reply, error) {
	if cursor != nil {
		return s.readFrom(ctx, user, chatID, *cursor)
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

// readFrom returns a reader of a reply from the cursor on.
func (s *Service) readFrom(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor Cursor) (*Reply, error) {
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

// open returns a reader of a reply that another request started. It reads the generation's relay while the reply is
// generated here, what is recorded while another server generates it, and the stored reply afterwards.
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
	f := s.joinFollower(user, stored)
	reply.release = func() { s.leaveFollower(f) }
	// Not cut to what is recorded: the client may have read more than that.
	reply.Started.Offset = after
	reply.reader = f.relay.Read(after)
	return reply, nil
}

// read reads a relay that holds all text there is, so a position past the end means the end.
func (r *Reply) read(relay *streaming.Relay, after int) {
	_, chars := relay.Text()
	r.Started.Offset = min(after, chars)
	r.reader = relay.Read(r.Started.Offset)
}

// replay returns a relay of a reply that has ended.
func replay(stored StoredReply) *streaming.Relay {
	relay := &streaming.Relay{}
	relay.Append(stored.Content)
	relay.End(terminalOf(stored))
	return relay
}
