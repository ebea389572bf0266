package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// chatState is what decides whether a chat may be read or changed.
type chatState = dbsqlc.ChatStateRow

// refusal is why nothing can be had of a chat; nil when there is no reason.
func refusal(state *chatState) error {
	switch {
	case state == nil:
		return fault.NoChat()
	case state.Expired:
		return fault.Expired(state.ID, *state.ExpiresAt)
	}
	return nil
}

// ListMessages reads a stretch of messages and looks for one more beyond it.
func (h *History) ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query history.MessagesQuery) (history.MessagePage, error) {
	statement, place := dbsqlc.ListMessagesBefore, int64(math.MaxInt64)
	if query.BeforeSeq != nil {
		place = *query.BeforeSeq
	}
	if query.AfterSeq != nil {
		statement, place = dbsqlc.ListMessagesAfter, *query.AfterSeq
	}
	var state *chatState
	page := history.MessagePage{}
	err := h.sendAs(ctx, user, "list messages", func(batch *pgx.Batch) {
		batch.Queue(dbsqlc.ChatState, chatID).Query(one(&state))
		batch.Queue(statement, chatID, place, query.Limit+1).Query(all(&page.Messages))
	})
	if err == nil {
		err = refusal(state)
	}
	if err != nil {
		return history.MessagePage{}, err
	}
	if page.HasMore = len(page.Messages) > query.Limit; page.HasMore {
		page.Messages = page.Messages[:query.Limit]
	}
	if query.AfterSeq == nil {
		slices.Reverse(page.Messages)
	}
	for i := range page.Messages {
		setUTC(&page.Messages[i])
	}
	return page, nil
}

func setUTC(message *history.Message) {
	message.CreatedAt, message.UpdatedAt = message.CreatedAt.UTC(), message.UpdatedAt.UTC()
}

// ListFiles reads what files came with a chat's messages.
func (h *History) ListFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, query history.FilesQuery) ([]history.File, error) {
	var state *chatState
	var files []history.File
	err := h.sendAs(ctx, user, "list files", func(batch *pgx.Batch) {
		batch.Queue(dbsqlc.ChatState, chatID).Query(one(&state))
		batch.Queue(dbsqlc.ListFiles, chatID, query.SHA256, query.Content, history.MaxFilesContent).Query(all(&files))
	})
	if err == nil {
		err = refusal(state)
	}
	if err != nil {
		return nil, err
	}
	for i := range files {
		files[i].CreatedAt = files[i].CreatedAt.UTC()
	}
	return files, nil
}

// ClearChat is one transaction under the chat's lock and then the brief's, as a turn takes them.
func (h *History) ClearChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (history.Cleared, error) {
	var state *chatState
	var running []uuid.UUID
	var cleared *dbsqlc.ReadClearedRow
	err := h.sendAs(ctx, user, "clear chat", func(batch *pgx.Batch) {
		state = nil
		batch.Queue(dbsqlc.LockChat, chatID).Query(each(func(row dbsqlc.LockChatRow) {
			state = &chatState{ID: row.ID, ExpiresAt: row.ExpiresAt, Expired: row.Expired}
		}))
		batch.Queue(dbsqlc.ReleaseAbandonedReplies, chatID)
		batch.Queue(dbsqlc.FindRunningReply, chatID).Query(func(rows pgx.Rows) (err error) {
			running, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
		batch.Queue(dbsqlc.LockBrief, chatID)
		batch.Queue(dbsqlc.ClearBrief, chatID)
		batch.Queue(dbsqlc.ReadCleared, chatID).Query(one(&cleared))
	})
	if err == nil {
		err = refusal(state)
	}
	switch {
	case err != nil:
		return history.Cleared{}, err
	case len(running) > 0:
		return history.Cleared{}, history.Busy(running[0])
	case cleared == nil:
		return history.Cleared{}, missing(true, "the chat's brief")
	}
	return history.Cleared{ChatID: chatID, ClearedSeq: cleared.ClearedSeq, BriefVersion: cleared.Version}, nil
}

// ChangeMessage changes a message's rating and reads the message.
func (h *History) ChangeMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, change history.MessageChange) (history.Message, error) {
	var state *chatState
	var found *history.Message
	err := h.sendAs(ctx, user, "change message", func(batch *pgx.Batch) {
		batch.Queue(dbsqlc.FindMessagesChat, messageID).Query(one(&state))
		batch.Queue(dbsqlc.ChangeMessage, change.Pinned, change.Importance.Set, change.Importance.Value, messageID)
		batch.Queue(dbsqlc.FindMessage, messageID).Query(one(&found))
	})
	if err == nil && (state == nil || found == nil) {
		err = history.NoMessage()
	}
	if err == nil {
		err = refusal(state)
	}
	if err != nil {
		return history.Message{}, err
	}
	setUTC(found)
	return *found, nil
}

// DeleteMessage deletes a message and, when the brief holds its words, enqueues the rebuild in the same
// transaction.
func (h *History) DeleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := retry(ctx, h.pool, func() error { return h.deleteMessage(ctx, user, messageID) })
	if err != nil {
		return fmt.Errorf("delete message: %w", err)
	}
	return nil
}

func (h *History) deleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error {
	var chats []uuid.UUID
	var deleted, exists bool
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	batch.Queue(dbsqlc.ActAsUser, user.Claims)
	batch.Queue(dbsqlc.LockMessagesChat, messageID).Query(func(rows pgx.Rows) (err error) {
		chats, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	batch.Queue(dbsqlc.DeleteMessage, messageID).Exec(touched(&deleted))
	batch.Queue(dbsqlc.MessageExists, messageID).QueryRow(func(row pgx.Row) error { return row.Scan(&exists) })
	return sendInTx(ctx, h.pool, batch, func(tx pgx.Tx) error {
		switch {
		case deleted && len(chats) > 0:
			return h.rebuildStale(ctx, tx, chats[0])
		case exists:
			return history.Busy(messageID)
		}
		return history.NoMessage()
	})
}

// rebuildStale enqueues the rebuild of a chat whose brief no longer says what its messages say. The triggers
// have seen to staleness by now, and hold the brief's lock.
func (h *History) rebuildStale(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
	var stale bool
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.ReadStale, chatID).Query(each(func(row struct{ Stale bool }) { stale = row.Stale }))
	batch.Queue(dbsqlc.ActAsServer)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil || !stale {
		return err
	}
	return h.enqueueRebuild(ctx, tx, chatID)
}
