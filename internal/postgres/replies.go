package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// FindReply reads a reply with the user's rights. If it is running, the text begins after from characters.
func (t *Turns) FindReply(ctx context.Context, user auth.Principal, chatID, messageID uuid.UUID, from int) (chat.StoredReply, bool, error) {
	var row dbsqlc.FindReplyRow
	err := sendAbout(ctx, t.pool, user, chatID, "find reply", func(batch *pgx.Batch) {
		dbsqlc.FindReply.Read(batch, dbsqlc.FindReplyParams{FromChar: from, MessageID: nullID(messageID), ChatID: chatID}, set(&row))
	})
	if err != nil || row.ID == uuid.Nil {
		return chat.StoredReply{}, false, err
	}
	reply := chat.StoredReply{
		ChatID: chatID, UserMessageID: row.ReplyTo, MessageID: row.ID, Status: memory.Status(row.Status), Content: row.Content,
		Parts: memory.ReadParts(row.Parts), Server: row.ServerID.UUID,
	}
	return reply, true, addMetadata(&reply, row.Metadata, row.LeaseUntil)
}

// addMetadata reads the metadata of a reply, and when it expires.
func addMetadata(reply *chat.StoredReply, metadata json.RawMessage, until *time.Time) error {
	if reply.Status == memory.StatusAwaiting {
		reply.Expires = zeroNull(until)
	}
	if err := json.Unmarshal(metadata, &reply.Metadata); err != nil {
		return fmt.Errorf("metadata of message %s: %w", reply.MessageID, err)
	}
	return nil
}

// encodeParts returns null for none.
func encodeParts(parts []memory.Part) ([]byte, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	return json.Marshal(parts)
}

// RequestCancel marks the message and notifies all servers.
func (t *Turns) RequestCancel(ctx context.Context, user auth.Principal, messageID uuid.UUID) error {
	return sendAs(ctx, t.pool, user, "request cancel", func(batch *pgx.Batch) {
		dbsqlc.RequestCancel.Queue(batch, messageID)
	})
}

// ChangeReply takes three round trips. It holds the account before all else, because what the call has cost is known only when the reply
// has been read: who deletes the account waits here, and not in the middle.
func (t *Turns) ChangeReply(
	ctx context.Context, user auth.Principal, messageID uuid.UUID, change func(*chat.LockedReply) (chat.ReplyChange, error),
) error {
	const doing = "change reply"
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := t.atOnce.Acquire(ctx, 1); err != nil {
		return failed(doing, explained(err))
	}
	defer t.atOnce.Release(1)
	return failed(doing, retry(ctx, t.pool, func() error { return t.changeReply(ctx, user, messageID, change) }))
}

func (t *Turns) changeReply(
	ctx context.Context, user auth.Principal, messageID uuid.UUID, change func(*chat.LockedReply) (chat.ReplyChange, error),
) error {
	var locked uuid.UUID
	var row dbsqlc.ReadLockedReplyRow
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	queueActAs(batch, user)
	dbsqlc.HoldAccount.Queue(batch, struct{}{})
	dbsqlc.LockMessagesChat.Queue(batch, messageID)
	dbsqlc.LockReply.Read(batch, messageID, set(&locked))
	dbsqlc.ReadLockedReply.Read(batch, messageID, set(&row))
	return sendInTx(ctx, t.pool, batch, func(tx pgx.Tx) error {
		if locked == uuid.Nil || row.ID == uuid.Nil {
			return api.NoMessage()
		}
		reply, err := lockedReply(row)
		if err != nil {
			return err
		}
		changed, err := change(&reply)
		if err != nil {
			return err
		}
		return applyChange(ctx, tx, user, &reply, &changed)
	})
}

func lockedReply(row dbsqlc.ReadLockedReplyRow) (chat.LockedReply, error) {
	reply := chat.LockedReply{
		StoredReply: chat.StoredReply{
			ChatID: row.ChatID, UserMessageID: row.ReplyTo, MessageID: row.ID, Status: memory.Status(row.Status), Content: row.Content,
			Parts: memory.ReadParts(row.Parts), Server: row.ServerID.UUID,
		},
		Ends: row.Ends, Covered: row.Covered, Now: row.Now,
	}
	err := addMetadata(&reply.StoredReply, row.Metadata, row.LeaseUntil)
	reply.Until = reply.Expires
	if err != nil || row.State == nil {
		return reply, err
	}
	reply.State = &chat.State{}
	return reply, failed("read the state of a reply", json.Unmarshal(row.State, reply.State))
}

// applyChange stores a change, in the transaction that has locked the reply. All servers are told: those with readers read again.
func applyChange(ctx context.Context, tx pgx.Tx, user auth.Principal, reply *chat.LockedReply, change *chat.ReplyChange) error {
	params, err := changeParams(reply.MessageID, change)
	state, errState := json.Marshal(change.State)
	if err := cmp.Or(err, errState); err != nil {
		return failed("encode a change", err)
	}
	batch := &pgx.Batch{}
	if change.Status != "" || change.Step || len(change.Parts) > 0 {
		dbsqlc.ChangeReply.Queue(batch, params)
	}
	if change.State != nil {
		dbsqlc.KeepState.Queue(batch, dbsqlc.KeepStateParams{MessageID: reply.MessageID, UserID: user.UserID, State: state})
	}
	if change.Status == memory.StatusStreaming && reply.Status != memory.StatusStreaming {
		dbsqlc.ForgetDeltas.Queue(batch, reply.MessageID)
	}
	if batch.Len() > 0 {
		queueNotifications(batch, []uuid.UUID{reply.MessageID})
	}
	if change.Spent != nil {
		queueActAsServer(batch)
		dbsqlc.InsertUsage.Queue(batch, usageRow(*change.Spent))
	}
	return tx.SendBatch(ctx, batch).Close()
}

func changeParams(messageID uuid.UUID, change *chat.ReplyChange) (dbsqlc.ChangeReplyParams, error) {
	params := dbsqlc.ChangeReplyParams{
		MessageID: messageID, Status: nullZero(string(change.Status)), Step: change.Step, Content: change.Content, TokenCount: change.Tokens,
		Metadata: json.RawMessage("{}"), ServerID: nullID(change.Server), LeaseSeconds: change.Lease.Seconds(), WaitUntil: nullZero(change.WaitUntil),
	}
	added, err := encodeParts(change.Parts)
	params.Added = added
	if err == nil && change.Step {
		params.Metadata, err = json.Marshal(change.Metadata)
	}
	return params, err
}

// SkipCalls locks the chat before its message, as a turn does.
func (t *Turns) SkipCalls(ctx context.Context, user auth.Principal, messageID uuid.UUID) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	ended := false
	err := retry(ctx, t.pool, func() error {
		var chatID uuid.UUID
		batch := &pgx.Batch{}
		batch.BeginTx(pgx.TxOptions{})
		queueActAs(batch, user)
		dbsqlc.LockMessagesChat.Read(batch, messageID, set(&chatID))
		dbsqlc.SkipCalls.Read(batch, messageID, set(&ended))
		return sendInTx(ctx, t.pool, batch, func(tx pgx.Tx) error {
			if !ended {
				return nil
			}
			return t.enqueueLast(ctx, tx, chatID)
		})
	})
	return ended && err == nil, failed("skip calls", err)
}
