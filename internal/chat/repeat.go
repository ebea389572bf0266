package chat

import (
	"context"
	"slices"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
)

// sendAgain answers a message that was sent before with the reply it got then, running or stored. A reply that failed
// or was interrupted is generated again, unless the client has a cursor in it and continues to read.
func (s *Service) sendAgain(ctx context.Context, user auth.Principal, req sendRequest, earlier EarlierTurn) (*Reply, error) {
	if !req.matches(earlier) {
		return nil, fault.New(fault.IdempotencyMismatch, "This client_message_id was used for another message.")
	}
	cursor, err := s.cursorOf(ctx, user, req.message.Resume, earlier)
	if err != nil {
		return nil, err
	}
	if cursor == nil && earlier.isRetryable() {
		return s.retry(ctx, user, s.asBefore(req, earlier), earlier)
	}
	return s.readEarlier(ctx, user, earlier, cursor)
}

// asBefore returns the request with the variant of the first attempt, unless it names one itself.
func (s *Service) asBefore(req sendRequest, earlier EarlierTurn) sendRequest {
	if req.message.Variant == "" && earlier.Variant != "" {
		if variant, err := s.variant(earlier.Variant); err == nil { // it may be configured no more
			req.variant, req.turn.Variant = variant, variant.Name
		}
	}
	return req
}

// retry starts another reply to a stored message. When another request does so at the same time, its reply is read.
func (s *Service) retry(ctx context.Context, user auth.Principal, req sendRequest, earlier EarlierTurn) (*Reply, error) {
	req.turn = req.turn.inPlaceOf(earlier)
	started, err := s.startTurn(ctx, user, req.turn)
	switch {
	case err != nil:
		return nil, err
	case started.Started:
		return s.launch(ctx, user, req, started)
	case !started.Expired.IsZero():
		return nil, fault.Expired(req.turn.ChatID, started.Expired)
	case started.Earlier == nil:
		return nil, fault.NoChat() // deleted meanwhile
	case started.Earlier.isRetryable() && started.Running != uuid.Nil:
		return nil, inProgress(started.Running) // of a later message
	default:
		return s.readEarlier(ctx, user, *started.Earlier, nil)
	}
}

// readEarlier returns a reader of the reply to an earlier message, from its beginning when there is no cursor.
func (s *Service) readEarlier(ctx context.Context, user auth.Principal, earlier EarlierTurn, cursor *Cursor) (*Reply, error) {
	if earlier.MessageID == uuid.Nil { // in a Cursor that would mean the chat's latest reply
		return nil, fault.New(fault.MessageNotFound, "The reply to this message is gone.")
	}
	if cursor == nil {
		cursor = &Cursor{MessageID: earlier.MessageID}
	}
	return s.readFrom(ctx, user, earlier.ChatID, *cursor)
}

// cursorOf returns the client's cursor if it is one in a reply to that message, also in a reply that was retried since.
// Any other cursor belongs to another message and is ignored.
func (s *Service) cursorOf(ctx context.Context, user auth.Principal, cursor *Cursor, earlier EarlierTurn) (*Cursor, error) {
	if cursor == nil || cursor.MessageID == earlier.MessageID {
		return cursor, nil
	}
	stored, ok, err := s.Store.FindReply(ctx, user, earlier.ChatID, cursor.MessageID, 0)
	if err != nil {
		return nil, err
	}
	if !ok || stored.UserMessageID != earlier.UserMessageID {
		return nil, nil //nolint:nilnil // most messages have no cursor
	}
	return cursor, nil
}

// inPlaceOf returns the turn that retries an earlier one: the user's message stays, and a new reply replaces the one
// that failed.
func (t NewTurn) inPlaceOf(earlier EarlierTurn) NewTurn {
	t.ChatID, t.NewChat, t.UserMessageID, t.InPlaceOf = earlier.ChatID, false, earlier.UserMessageID, earlier.MessageID
	return t
}

// matches reports whether the message is the earlier one, sent again. A client that names no variant takes the one that
// the message was sent with. Sources and metadata are of the attempt, and may differ.
func (r *sendRequest) matches(earlier EarlierTurn) bool {
	m := r.message
	return m.Content == earlier.Content &&
		(m.ChatID == uuid.Nil || m.ChatID == earlier.ChatID) &&
		(m.Variant == "" || earlier.Variant == "" || m.Variant == earlier.Variant) &&
		slices.EqualFunc(r.turn.Files, earlier.Files, func(sent NewFile, stored memory.StoredFile) bool {
			return sent.Path == stored.Path && sent.SHA256 == stored.SHA256
		})
}

// isRetryable reports whether the turn's reply failed or was interrupted.
func (t EarlierTurn) isRetryable() bool {
	return t.Status == memory.StatusFailed || t.Status == memory.StatusInterrupted
}
