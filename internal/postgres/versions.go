package postgres

import (
	"cmp"
	"context"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// FindReplaced is one round trip, without locks.
func (t *Turns) FindReplaced(ctx context.Context, user auth.Principal, id, clientMessageID uuid.UUID) (chat.Replaced, *chat.EarlierTurn, error) {
	var found chat.Replaced
	var earlier *chat.EarlierTurn
	err := sendAs(ctx, t.pool, user, "find replaced", func(batch *pgx.Batch) {
		found, earlier = chat.Replaced{}, nil
		dbsqlc.FindReplaced.Read(batch, dbsqlc.FindReplacedParams{UserID: user.UserID, ID: id, ClientMessageID: nullID(id)}, set(&found))
		if clientMessageID != uuid.Nil {
			queueEarlier(batch, user.UserID, clientMessageID, &earlier)
		}
	})
	return found, earlier, err
}

// queueReplacement supersedes what a turn replaces, inserts what comes in its place, and makes sure of both or neither.
func (s *turnStart) queueReplacement(batch *pgx.Batch, r chat.Replacement) {
	turn := s.turn
	by, takenOver := turn.UserMessageID, uuid.Nil
	if r.Again {
		by = turn.MessageID
	}
	if r.Retry {
		takenOver = turn.ClientMessageID
	} else {
		s.queueAdmission(batch)
	}
	dbsqlc.SupersedeTail.Queue(batch, dbsqlc.SupersedeTailParams{
		ChatID: turn.ChatID, FromSeq: r.FromSeq, ReplacedID: r.MessageID, LastMessageID: *turn.Last, SupersededBy: nullID(by), Retry: r.Retry,
		TakenOver: nullID(takenOver),
	})
	if r.Again {
		s.queueAgain(batch, r)
	} else {
		s.queueTurn(batch)
	}
	if r.KeepsFiles {
		dbsqlc.KeepFiles.Queue(batch, dbsqlc.KeepFilesParams{MessageID: turn.UserMessageID, ReplacedID: r.MessageID})
	}
	// The chat's row was read before all this.
	dbsqlc.CountReplaced.Read(batch, dbsqlc.CountReplacedParams{ChatID: turn.ChatID, SupersededBy: by}, set(&s.reader.row.TurnCount))
}

// queueAgain inserts another reply to a stored message.
func (s *turnStart) queueAgain(batch *pgx.Batch, r chat.Replacement) {
	turn := s.turn
	dbsqlc.InsertAgain.Queue(batch, dbsqlc.InsertAgainParams{
		ChatID: turn.ChatID, Revive: turn.Revive, SystemPromptRoom: turn.SystemPromptRoom, UserMessageID: turn.UserMessageID, LastMessageID: *turn.Last,
		MessageID: turn.MessageID, ReplyMetadata: s.replyMetadata, ClientMessageID: nullID(r.ReplyClientID), Replaces: nullID(r.Replaces),
		ServerID: turn.Server, LeaseSeconds: turn.Lease.Seconds(),
	}).Exec(affects(1, &s.found.Started))
}

// ListVersions reads the versions of a message.
func (h *History) ListVersions(ctx context.Context, user auth.Principal, messageID uuid.UUID) (api.Versions, error) {
	var state dbsqlc.ChatStateRow
	var found api.Versions
	err := sendAs(ctx, h.pool, user, "list versions", func(batch *pgx.Batch) {
		dbsqlc.FindMessagesChat.Read(batch, messageID, set(&state))
		dbsqlc.ListVersions.Read(batch, messageID, all(&found.Versions))
	})
	if err == nil && state.ID == uuid.Nil {
		err = api.NoMessage()
	}
	for _, version := range found.Versions {
		if version.SupersededBy == nil {
			found.Selected = &version.ID
		}
	}
	return found, cmp.Or(err, refusal(state))
}

// SelectVersion changes the path in one transaction, unless something speaks against it.
func (h *History) SelectVersion(ctx context.Context, user auth.Principal, messageID uuid.UUID, selection api.Selection) (api.Selected, error) {
	const doing = "select version"
	last, err := api.ReadLast(selection.LastMessageID)
	if err != nil {
		return api.Selected{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var state dbsqlc.ChatStateRow
	err = sendAs(ctx, h.pool, user, doing, func(batch *pgx.Batch) { dbsqlc.FindMessagesChat.Read(batch, messageID, set(&state)) })
	if err == nil && state.ID == uuid.Nil {
		err = api.NoMessage()
	}
	if err := cmp.Or(err, refusal(state)); err != nil {
		return api.Selected{}, err
	}
	var selected api.Selected
	err = retry(ctx, h.pool, func() (err error) {
		selected, err = h.selectVersion(ctx, user, state.ID, messageID, last)
		return err
	})
	return selected, failed(doing, err)
}

func (h *History) selectVersion(ctx context.Context, user auth.Principal, chatID, messageID uuid.UUID, last *uuid.UUID) (selected api.Selected, err error) {
	var locked dbsqlc.LockChatRow
	var running uuid.UUID
	var found chat.Replaced
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	queueActAs(batch, user)
	dbsqlc.LockChat.Read(batch, chatID, set(&locked))
	h.queueRelease(batch, chatID)
	dbsqlc.FindRunningReply.Read(batch, chatID, set(&running))
	dbsqlc.FindReplaced.Read(batch, dbsqlc.FindReplacedParams{UserID: user.UserID, ID: messageID}, set(&found))
	err = sendInTx(ctx, h.pool, batch, func(tx pgx.Tx) error {
		selected = api.Selected{ChatID: chatID, Selected: messageID, LastMessageID: found.LastMessageID}
		switch {
		case found.ID == uuid.Nil:
			return api.NoMessage() // deleted meanwhile
		case found.SupersededBy == uuid.Nil:
			return nil
		case locked.ID == uuid.Nil:
			return notAllowed("chats")
		case running != uuid.Nil:
			return api.Busy(running)
		case found.Seq <= found.ClearedSeq || last != nil && *last != found.LastMessageID:
			return fault.Changed(found.LastMessageID)
		}
		path, err := dbsqlc.SelectVersion.One(ctx, tx, messageID)
		if err != nil {
			return err
		}
		selected.FromSeq, selected.LastMessageID = &path.FromSeq, path.LastMessageID
		return h.enqueueLast(ctx, tx, chatID)
	})
	return selected, err
}
