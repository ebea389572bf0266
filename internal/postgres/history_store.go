package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// StoreMessages stores messages and, if the chat is due then, enqueues its fold, in one transaction. It locks like a
// turn, so the messages of two requests, or of a request and a turn, do not mix.
func (h *History) StoreMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, sent history.NewMessages) (history.StoredMessages, error) {
	const doing = "store messages"
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	columns, err := newMessageColumns(user.UserID, chatID, sent.Messages)
	if err != nil {
		return history.StoredMessages{}, failed(doing, err)
	}
	var stored []storedMessage
	store := func() (err error) {
		stored, err = h.storeMessages(ctx, user, columns, sent.Messages)
		return err
	}
	err = retry(ctx, h.pool, store)
	if sqlState(err) == uniqueViolation { // the same message was sent to another chat at this moment; now it is found there
		err = retry(ctx, h.pool, store)
	}
	if fault.CodeOf(err) == fault.ChatNotFound {
		err = cmp.Or(checkGone(ctx, h.pool, user, chatID), err)
	}
	result := history.StoredMessages{Messages: []history.Message{}}
	for _, message := range stored {
		result.Messages = append(result.Messages, message.Message)
	}
	return result, failed(doing, err)
}

// storedMessage is a row of FindStoredMessages.
type storedMessage struct {
	history.Message
	Place int
}

func (h *History) storeMessages(
	ctx context.Context, user auth.Principal, columns dbsqlc.StoreMessagesParams, sent []history.NewMessage,
) ([]storedMessage, error) {
	var chat dbsqlc.LockChatRow
	var running uuid.UUID
	var stored []storedMessage
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	queueExec(batch, queries.ActAsUser, user.Claims)
	queueOne(batch, queries.LockChat, columns.ChatID, set(&chat))
	h.queueRelease(batch, columns.ChatID)
	queueOne(batch, queries.FindRunningReply, columns.ChatID, set(&running))
	queueExec(batch, queries.StoreMessages, columns)
	queueExec(batch, queries.FindStoredMessages, dbsqlc.FindStoredMessagesParams{
		UserID: columns.UserID, Ids: columns.Ids, ClientIds: columns.ClientIds, Places: columns.Places,
	}).Query(all(&stored))
	err := sendInTx(ctx, h.pool, batch, func(tx pgx.Tx) error {
		err := cmp.Or(refusal(chatState{ID: chat.ID, ExpiresAt: chat.ExpiresAt, Expired: chat.Expired}), sameMessages(columns.ChatID, stored, sent))
		if err == nil && len(stored) < len(sent) {
			err = history.Busy(running)
		}
		if err != nil {
			return err
		}
		return h.enqueueLast(ctx, tx, columns.ChatID)
	})
	return stored, err
}

// newMessageColumns returns an array for each column.
func newMessageColumns(user, chatID uuid.UUID, messages []history.NewMessage) (dbsqlc.StoreMessagesParams, error) {
	c := dbsqlc.StoreMessagesParams{UserID: user, ChatID: chatID}
	asked := 0 // the place of the latest message of the user
	for i, message := range messages {
		metadata, err := encodeObject(message.Metadata)
		if err != nil {
			return c, err
		}
		calls, err := encodeCalls(message.ToolCalls)
		if err != nil {
			return c, err
		}
		replyPlace, role := 0, memory.Role(message.Role)
		switch {
		case role == memory.RoleUser:
			asked = i + 1
		case role == memory.RoleAssistant && message.Content != "": // not a mere call of a tool
			replyPlace = asked
		}
		clientID, _ := message.ClientID() // checked by Check
		c.Ids = append(c.Ids, uuid.Must(uuid.NewV7()))
		c.Places = append(c.Places, i+1)
		c.Roles = append(c.Roles, message.Role)
		c.Contents = append(c.Contents, message.Content)
		c.TokenCounts = append(c.TokenCounts, text.Tokens(prompt.ToolText(role, message.Content, message.Name, calls)))
		c.Metadatas = append(c.Metadatas, string(metadata))
		c.ClientIds = append(c.ClientIds, clientID)
		c.ToolCalls = append(c.ToolCalls, string(calls))
		c.ToolCallIds = append(c.ToolCallIds, message.ToolCallID)
		c.Names = append(c.Names, message.Name)
		c.ReplyPlaces = append(c.ReplyPlaces, replyPlace)
	}
	return c, nil
}

// encodeCalls returns no bytes for no calls.
func encodeCalls(calls []map[string]any) ([]byte, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(calls)
	return encoded, failed("encode tool calls", err)
}

// sameMessages returns an error if a client's id was used for another message.
func sameMessages(chatID uuid.UUID, stored []storedMessage, sent []history.NewMessage) error {
	for _, found := range stored {
		message := sent[found.Place-1]
		if found.ChatID == chatID && found.Role == message.Role && found.Content == message.Content && zeroNull(found.Name) == message.Name &&
			zeroNull(found.ToolCallID) == message.ToolCallID && sameCalls(found.ToolCalls, message.ToolCalls) {
			continue
		}
		clientID, _ := message.ClientID()
		return history.OtherMessage(clientID)
	}
	return nil
}

// sameCalls compares what Postgres has stored, which writes JSON in its own way.
func sameCalls(stored json.RawMessage, sent []map[string]any) bool {
	encoded, err := encodeCalls(sent)
	if err != nil || len(stored) == 0 || len(encoded) == 0 {
		return len(stored) == 0 && len(encoded) == 0
	}
	var a, b any
	return json.Unmarshal(stored, &a) == nil && json.Unmarshal(encoded, &b) == nil && reflect.DeepEqual(a, b)
}
