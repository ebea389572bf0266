package chat

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// replace edits a message, or gets a stored one another reply. Who does not say which conversation they see means that of this
// moment, which is looked at again when it changes before the chat is locked.
func (s *Service) replace(ctx context.Context, user auth.Principal, req sendRequest) (*Reply, error) {
	found, earlier, err := s.Store.FindReplaced(ctx, user, req.message.Replaces, req.message.ClientMessageID)
	if err != nil {
		return nil, err
	}
	req.message.Replaces = cmp.Or(found.ID, req.message.Replaces)
	// One that runs may have lost its server, which StartTurn finds out.
	if earlier != nil && (earlier.Status != memory.StatusStreaming || req.put(found) != nil) {
		return s.sendAgain(ctx, user, req, *earlier)
	}
	for range 3 {
		if err := req.put(found); err != nil {
			return nil, err
		}
		started, err := s.startTurn(ctx, user, &req)
		if err != nil || !started.isChanged() {
			return s.begin(ctx, user, req, started, err)
		}
		found = *started.Replaced
		if found.SupersededBy != uuid.Nil {
			return nil, fault.Superseded(found.SupersededBy)
		}
		if req.message.Last != nil || found.UserSeq <= found.ClearedSeq {
			break
		}
	}
	return nil, fault.Changed(found.LastMessageID)
}

// put makes the turn one in place of a stored message.
func (r *sendRequest) put(found Replaced) error {
	m, turn := &r.message, &r.turn
	fits := found.Role == memory.RoleUser || m.Regenerate && found.UserMessageID != uuid.Nil
	if !fits || m.ChatID != uuid.Nil && m.ChatID != found.ChatID {
		return fault.New(fault.MessageNotFound, "There is no such message to replace.")
	}
	turn.ChatID, turn.Last = found.ChatID, cmp.Or(m.Last, &found.LastMessageID)
	if m.Regenerate {
		turn.UserMessageID, turn.Content = found.UserMessageID, found.Content
		turn.Replacement = &Replacement{MessageID: found.ID, Replaces: found.ID, FromSeq: found.UserSeq + 1, Again: true, ReplyClientID: m.ClientMessageID}
		return nil
	}
	turn.Replacement = &Replacement{MessageID: found.ID, Replaces: found.ID, FromSeq: found.Seq, KeepsFiles: m.Files == nil}
	if found.TimeZone != "" { // unless another one is given
		metadata := map[string]any{"time_zone": found.TimeZone}
		maps.Copy(metadata, turn.Metadata)
		turn.Metadata = metadata
	}
	return nil
}

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
	if cursor == nil && earlier.isRetryable() && earlier.Continues {
		if reply, err := s.takeOver(ctx, user, req.arrived, earlier); reply != nil || err != nil {
			return reply, err
		}
	}
	if cursor == nil && earlier.isRetryable() {
		req.done = earlier.Parts
		return s.retry(ctx, user, s.granted(req, earlier.Variant), earlier)
	}
	return s.readEarlier(ctx, user, earlier, cursor)
}

// takeOver goes on with a reply that stopped after a step. There is none when it cannot go on any more.
func (s *Service) takeOver(ctx context.Context, user auth.Principal, arrived time.Time, earlier EarlierTurn) (*Reply, error) {
	var reply LockedReply
	err := s.inTime(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return s.Store.ChangeReply(ctx, user, earlier.MessageID, func(found *LockedReply) (ReplyChange, error) {
			change := found.again()
			reply = *found
			switch {
			case !found.continues():
			case !goesOn(found.Parts): // only its user can
				change.Status, change.WaitUntil = memory.StatusAwaiting, found.Now.Add(waitsFor)
			default:
				change.Status, change.Server, change.Lease = memory.StatusStreaming, s.id, s.Lease
			}
			return change, nil
		})
	})
	switch {
	case fault.CodeOf(err) == fault.MessageNotFound:
		return nil, nil //nolint:nilnil // deleted meanwhile: the message is looked for again
	case err != nil:
		return nil, err
	case reply.Status.Open() || reply.continues() && !goesOn(reply.Parts): // another request was first, or it waits now
		return s.readEarlier(ctx, user, earlier, nil)
	case !reply.continues():
		return nil, nil //nolint:nilnil // then it is generated anew
	}
	return s.goOn(ctx, user, arrived, &reply, streaming.Place{}), nil
}

// granted returns the request with the variant that is to answer: the one to which its quota was downgraded, or that of the first
// attempt.
func (s *Service) granted(req sendRequest, name string) sendRequest {
	if variant, err := s.variant(name); err == nil && name != "" { // it may be configured no more
		req.variant, req.turn.Variant = variant, variant.Name
	}
	return req
}

// retry gets a message another reply in place of the failed one. When another request does so at the same time, its reply is read.
func (s *Service) retry(ctx context.Context, user auth.Principal, req sendRequest, earlier EarlierTurn) (*Reply, error) {
	turn := &req.turn
	turn.ChatID, turn.NewChat, turn.UserMessageID, turn.Content, turn.Last = earlier.ChatID, false, earlier.UserMessageID, earlier.Content, &earlier.MessageID
	turn.Replacement = &Replacement{MessageID: earlier.MessageID, FromSeq: earlier.UserSeq + 1, Again: true, Retry: true}
	if earlier.Again {
		turn.Replacement.Replaces, turn.Replacement.ReplyClientID = earlier.Replaces, req.message.ClientMessageID
	}
	started, err := s.startTurn(ctx, user, &req)
	switch {
	case err != nil:
		return nil, err
	case started.Started:
		return s.launch(ctx, user, req, started)
	case !started.Expired.IsZero():
		return nil, fault.Expired(turn.ChatID, started.Expired)
	case started.Earlier == nil:
		return nil, fault.NoChat() // deleted meanwhile
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

// matches reports whether the message is the earlier one, sent again. A client that names no variant takes the one that
// the message was sent with. Sources and metadata are of the attempt, and may differ. Files that are left out of an edit are those of
// the message that it replaces.
func (r *sendRequest) matches(earlier EarlierTurn) bool {
	m := r.message
	return m.Regenerate == earlier.Again && m.Replaces == earlier.Replaces &&
		(m.Regenerate || m.Content == earlier.Content) &&
		(m.ChatID == uuid.Nil || m.ChatID == earlier.ChatID) &&
		(m.Variant == "" || earlier.Asked == "" || m.Variant == earlier.Asked) &&
		(m.Replaces != uuid.Nil && m.Files == nil ||
			slices.EqualFunc(r.turn.Files, earlier.Files, func(sent NewFile, stored memory.StoredFile) bool {
				return sent.Path == stored.Path && sent.SHA256 == stored.SHA256
			}))
}

// isRetryable reports whether the turn's reply failed or was interrupted, and nothing followed: only a message that says what it
// replaces throws away what came later.
func (t EarlierTurn) isRetryable() bool {
	return t.Ends && (t.Status == memory.StatusFailed || t.Status == memory.StatusInterrupted)
}
