package chat

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
)

// sentBefore answers a message that was sent before with the reply it got then, running or stored. When
// that reply failed or was interrupted, it is written anew, unless the client comes to read it to its end.
func (s *Service) sentBefore(ctx context.Context, user auth.Principal, ask asked, earlier EarlierTurn) (*Reply, error) {
	if !ask.message.is(earlier) {
		return nil, fault.New(fault.IdempotencyMismatch, "This client_message_id was used for another message.")
	}
	cursor, err := s.placeIn(ctx, user, ask.message.Resume, earlier)
	if err != nil {
		return nil, err
	}
	if cursor == nil && earlier.broken() {
		return s.tryAgain(ctx, user, ask, earlier)
	}
	return s.repeat(ctx, user, earlier, cursor)
}

// tryAgain starts another reply to a stored message. Somebody else may have done so at this moment: then
// there is one to read.
func (s *Service) tryAgain(ctx context.Context, user auth.Principal, ask asked, earlier EarlierTurn) (*Reply, error) {
	ask.turn = ask.turn.again(earlier)
	started, err := s.startTurn(ctx, user, ask.turn)
	switch {
	case err != nil:
		return nil, err
	case started.Started:
		return s.launch(ctx, user, ask, started)
	case !started.Expired.IsZero():
		return nil, fault.Expired(ask.turn.ChatID, started.Expired)
	case started.Earlier == nil:
		return nil, fault.NoChat() // deleted at this moment
	case started.Earlier.broken() && started.Running != uuid.Nil:
		return nil, inProgress(started.Running) // the chat has moved on
	default:
		return s.repeat(ctx, user, *started.Earlier, nil)
	}
}

// repeat gives a reader of the reply to an earlier message, from its beginning unless there is a cursor.
func (s *Service) repeat(ctx context.Context, user auth.Principal, earlier EarlierTurn, cursor *Cursor) (*Reply, error) {
	if earlier.MessageID == uuid.Nil { // which would name the chat's latest reply below
		return nil, fault.New(fault.MessageNotFound, "The reply to this message is gone.")
	}
	if cursor == nil {
		cursor = &Cursor{MessageID: earlier.MessageID}
	}
	return s.follow(ctx, user, earlier.ChatID, *cursor)
}

// placeIn is the client's cursor if it is one in a reply to that message, be it an earlier try. Any other
// one is from another conversation and means nothing here.
func (s *Service) placeIn(ctx context.Context, user auth.Principal, cursor *Cursor, earlier EarlierTurn) (*Cursor, error) {
	if cursor == nil || cursor.MessageID == earlier.MessageID {
		return cursor, nil
	}
	stored, ok, err := s.Store.FindReply(ctx, user, earlier.ChatID, cursor.MessageID, 0)
	if err != nil {
		return nil, err
	}
	if !ok || stored.UserMessageID != earlier.UserMessageID {
		return nil, nil //nolint:nilnil // no cursor is the usual case
	}
	return cursor, nil
}

// again is the turn that tries an earlier one again: the user's message stays, a new reply takes the
// place of the one that failed.
func (t NewTurn) again(earlier EarlierTurn) NewTurn {
	t.ChatID, t.NewChat, t.UserMessageID, t.InPlaceOf = earlier.ChatID, false, earlier.UserMessageID, earlier.MessageID
	return t
}

// is tells whether the message is that one, sent again.
func (m *Message) is(earlier EarlierTurn) bool {
	return m.Content == earlier.Content && (m.ChatID == uuid.Nil || m.ChatID == earlier.ChatID)
}

// broken tells whether the turn's reply is one to be tried again.
func (t EarlierTurn) broken() bool {
	return t.Status == memory.StatusFailed || t.Status == memory.StatusInterrupted
}
