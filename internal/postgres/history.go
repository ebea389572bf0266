package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// History is the store for listing, changing, searching and deleting chats and messages.
type History struct{ foldingStore }

var _ api.Store = (*History)(nil)

// NewHistory returns the store. enqueue is called in the transaction that stores or deletes messages if the chat is due then.
func NewHistory(pool *pgxpool.Pool, limits memory.Limits, enqueue Enqueue) *History {
	return &History{foldingStore{pool: pool, limits: limits, enqueue: enqueue}}
}

// CreateChat creates a chat without messages.
func (h *History) CreateChat(ctx context.Context, user auth.Principal, chat api.NewChat) (api.Chat, error) {
	metadata, err := encodeObject(chat.Metadata)
	if err != nil {
		return api.Chat{}, err
	}
	id := uuid.New()
	var created api.Chat
	err = sendAs(ctx, h.pool, user, "create chat", func(batch *pgx.Batch) {
		dbsqlc.InsertChat.Queue(batch, dbsqlc.InsertChatParams{
			ID: id, UserID: user.UserID,
			Title: chat.Title, SystemPrompt: chat.SystemPrompt, Metadata: metadata, Tags: chat.Tags, ToolName: chat.ToolName,
			MemoryStrategy: nullZero(chat.MemoryStrategy), TtlHours: chat.TTLHours.Value, MaxTurns: chat.MaxTurns.Value,
			Remember: chat.Remember, Topics: nullZero(chat.Topics), Recall: nullZero(chat.Recall),
		})
		dbsqlc.ReadChat.Read(batch, id, set(&created))
	})
	return created, err
}

func encodeObject(object map[string]any) (json.RawMessage, error) {
	if object == nil {
		return json.RawMessage("{}"), nil
	}
	encoded, err := json.Marshal(object)
	return encoded, failed("encode metadata", err)
}

// FindChat reads a chat.
func (h *History) FindChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (api.Chat, error) {
	var found api.Chat
	err := sendAs(ctx, h.pool, user, "find chat", func(batch *pgx.Batch) {
		dbsqlc.ReadChat.Read(batch, chatID, set(&found))
	})
	return found, cmp.Or(err, refusal(dbsqlc.ChatStateRow{ID: found.ID, ExpiresAt: found.ExpiresAt, Expired: found.Expired}))
}

// ListChats reads a page and one chat more, which shows that there is a next page.
func (h *History) ListChats(ctx context.Context, user auth.Principal, query api.ListQuery) (api.ChatPage, error) {
	params := dbsqlc.ListChatsParams{IncludeExpired: query.IncludeExpired, Tag: query.Tag, Words: query.Words, Most: query.Limit + 1}
	if query.After != nil {
		params.AsOf, params.Activity = &query.After.AsOf, &query.After.Activity
		params.ChatID = uuid.NullUUID{UUID: query.After.ChatID, Valid: true}
	}
	var found []dbsqlc.ListChatsRow
	err := sendAs(ctx, h.pool, user, "list chats", func(batch *pgx.Batch) {
		dbsqlc.ListChats.Read(batch, params, all(&found))
	})
	page := api.ChatPage{Chats: []api.Chat{}}
	found, more := cut(found, query.Limit)
	if more {
		last := found[query.Limit-1]
		page.Next = &api.Cursor{AsOf: last.AsOf, Activity: last.Activity, ChatID: last.ID}
	}
	for _, row := range found {
		page.Chats = append(page.Chats, row.Chat)
	}
	return page, err
}

// ChangeChat changes a chat and reads it.
func (h *History) ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change api.ChatChange) (api.Chat, error) {
	var metadata json.RawMessage // nil for no change
	var err error
	if change.Metadata.Set {
		if metadata, err = encodeObject(*change.Metadata.Value); err != nil {
			return api.Chat{}, err
		}
	}
	var changed bool
	var found api.Chat
	err = sendAs(ctx, h.pool, user, "change chat", func(batch *pgx.Batch) {
		dbsqlc.ChangeChat.Queue(batch, dbsqlc.ChangeChatParams{
			ChatID: chatID, Revive: change.Revive,
			Title: change.Title.Value, Metadata: metadata, Tags: zeroNull(change.Tags.Value),
			MemoryStrategy: change.MemoryStrategy.Value, Remember: change.Remember, Topics: change.Topics.Value,
			Recall:          change.Recall.Value,
			SetSystemPrompt: change.SystemPrompt.Set, SystemPrompt: change.SystemPrompt.Value,
			SetTtlHours: change.TTLHours.Set, TtlHours: change.TTLHours.Value,
			SetMaxTurns: change.MaxTurns.Set, MaxTurns: change.MaxTurns.Value,
		}).Exec(affects(1, &changed))
		dbsqlc.ReadChat.Read(batch, chatID, set(&found))
	})
	// A change may be what lets a chat expire.
	state := dbsqlc.ChatStateRow{ID: found.ID, ExpiresAt: found.ExpiresAt, Expired: found.Expired && !changed}
	return found, cmp.Or(err, refusal(state), allowed(changed, "chats"))
}

// DeleteChat deletes a chat; foreign keys and triggers delete what belongs to it.
func (h *History) DeleteChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, deletion api.ChatDeletion) error {
	var deleted, exists bool
	err := sendAs(ctx, h.pool, user, "delete chat", func(batch *pgx.Batch) {
		if deletion.KeepMemories {
			dbsqlc.KeepMemories.Queue(batch, chatID)
		}
		dbsqlc.DeleteChat.Queue(batch, chatID).Exec(affects(1, &deleted))
		dbsqlc.ChatExists.Read(batch, chatID, set(&exists))
	})
	switch {
	case err != nil || deleted:
		return err
	case exists:
		return notAllowed("chats")
	}
	return fault.NoChat()
}

// pruneTimeout is for chats by the ten thousand.
const pruneTimeout = 5 * time.Minute

// PruneChats deletes old chats in one statement.
func (h *History) PruneChats(ctx context.Context, user auth.Principal, query api.PruneQuery) (api.Pruned, error) {
	params := dbsqlc.PruneChatsParams{MostIds: api.MaxPrunedIDs, Days: query.OlderThanDays}
	var pruned api.Pruned
	err := sendWithin(ctx, pruneTimeout, h.pool, func(batch *pgx.Batch) {
		queueActAs(batch, user)
		if query.DryRun {
			dbsqlc.CountOldChats.Read(batch, dbsqlc.CountOldChatsParams(params), set(&pruned))
		} else {
			dbsqlc.PruneChats.Read(batch, params, set(&pruned))
		}
	})
	pruned.DryRun = query.DryRun
	return pruned, failed("prune chats", err)
}

// StoreMessages stores messages and, if the chat is due then, enqueues its fold, in one transaction. It locks like a
// turn, so the messages of two requests, or of a request and a turn, do not mix.
func (h *History) StoreMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, sent api.NewMessages) (api.StoredMessages, error) {
	const doing = "store messages"
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	columns, err := newMessageColumns(user.UserID, chatID, sent.Messages)
	if err != nil {
		return api.StoredMessages{}, failed(doing, err)
	}
	var stored []dbsqlc.FindStoredMessagesRow
	store := func() (err error) {
		stored, err = h.storeMessages(ctx, user, columns, sent.Messages)
		return err
	}
	err = retry(ctx, h.pool, store)
	if sqlState(err) == pgerrcode.UniqueViolation { // the same message was sent to another chat at this moment; now it is found there
		err = retry(ctx, h.pool, store)
	}
	if fault.CodeOf(err) == fault.ChatNotFound {
		err = cmp.Or(checkGone(ctx, h.pool, user, chatID), err)
	}
	result := api.StoredMessages{Messages: []api.Message{}}
	for _, message := range stored {
		result.Messages = append(result.Messages, message.Message)
	}
	return result, failed(doing, err)
}

func (h *History) storeMessages(
	ctx context.Context, user auth.Principal, columns dbsqlc.StoreMessagesParams, sent []api.NewMessage,
) ([]dbsqlc.FindStoredMessagesRow, error) {
	var chat dbsqlc.LockChatRow
	var open uuid.UUID
	var stored []dbsqlc.FindStoredMessagesRow
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	queueActAs(batch, user)
	dbsqlc.LockChat.Read(batch, columns.ChatID, set(&chat))
	h.queueRelease(batch, columns.ChatID)
	dbsqlc.FindOpenReply.Read(batch, columns.ChatID, set(&open))
	dbsqlc.StoreMessages.Queue(batch, columns)
	dbsqlc.FindStoredMessages.Read(batch, dbsqlc.FindStoredMessagesParams{
		UserID: columns.UserID, Ids: columns.Ids, ClientIds: columns.ClientIds, Places: columns.Places,
	}, all(&stored))
	err := sendInTx(ctx, h.pool, batch, func(tx pgx.Tx) error {
		err := cmp.Or(refusal(chat.ChatStateRow), sameMessages(columns.ChatID, stored, sent))
		if err == nil && len(stored) < len(sent) {
			err = api.Busy(open)
		}
		if err != nil {
			return err
		}
		return h.enqueueLast(ctx, tx, columns.ChatID)
	})
	return stored, err
}

// newMessageColumns returns an array for each column.
func newMessageColumns(user, chatID uuid.UUID, messages []api.NewMessage) (dbsqlc.StoreMessagesParams, error) {
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
func sameMessages(chatID uuid.UUID, stored []dbsqlc.FindStoredMessagesRow, sent []api.NewMessage) error {
	for _, found := range stored {
		message := sent[found.Place-1]
		if found.ChatID == chatID && found.Role == message.Role && found.Content == message.Content && zeroNull(found.Name) == message.Name &&
			zeroNull(found.ToolCallID) == message.ToolCallID && sameCalls(found.ToolCalls, message.ToolCalls) {
			continue
		}
		clientID, _ := message.ClientID()
		return api.OtherMessage(clientID)
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
