package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// History is the store of what a user does with chats and messages besides talking.
type History struct {
	pool *pgxpool.Pool
	// enqueueRebuild inserts the rebuild job of a chat in the caller's transaction.
	enqueueRebuild func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error
}

var _ history.Store = (*History)(nil)

// NewHistory makes the store. enqueueRebuild is called in the transaction that deletes a message whose words
// are in the brief.
func NewHistory(pool *pgxpool.Pool, enqueueRebuild func(context.Context, pgx.Tx, uuid.UUID) error) *History {
	return &History{pool: pool, enqueueRebuild: enqueueRebuild}
}

// sendAs runs a batch with the user's rights: one round trip, one transaction. queue may be called twice
// and must forget what an earlier call found.
func (h *History) sendAs(ctx context.Context, user auth.Principal, doing string, queue func(*pgx.Batch)) error {
	return h.sendAsWithin(ctx, answerTimeout, user, doing, queue)
}

func (h *History) sendAsWithin(ctx context.Context, most time.Duration, user auth.Principal, doing string, queue func(*pgx.Batch)) error {
	err := sendWithin(ctx, most, h.pool, func() *pgx.Batch {
		batch := &pgx.Batch{}
		batch.Queue(dbsqlc.ActAsUser, user.Claims)
		queue(batch)
		return batch
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// one reads the only row of a query into a place; nil when there is none.
func one[Row any](into **Row) func(pgx.Rows) error {
	*into = nil
	return each(func(row Row) { *into = &row })
}

// all reads the rows of a query into a place.
func all[Row any](into *[]Row) func(pgx.Rows) error {
	*into = []Row{}
	return each(func(row Row) { *into = append(*into, row) })
}

// CreateChat makes a chat without messages.
func (h *History) CreateChat(ctx context.Context, user auth.Principal, chat history.NewChat) (history.Chat, error) {
	metadata, err := encodeObject(chat.Metadata)
	if err != nil {
		return history.Chat{}, err
	}
	id := uuid.New()
	var made *history.Chat
	err = h.sendAs(ctx, user, "create chat", func(batch *pgx.Batch) {
		batch.Queue(dbsqlc.CreateChat, id, user.UserID, chat.Title, chat.SystemPrompt, metadata, chat.Tags, chat.MemoryStrategy,
			chat.TTLHours.Value, chat.MaxTurns.Value, chat.ToolName)
		batch.Queue(dbsqlc.ReadChat, id).Query(one(&made))
	})
	if err != nil || made == nil {
		return history.Chat{}, errors.Join(err, missing(made == nil, "the chat that was made"))
	}
	return inUTC(*made), nil
}

func missing(is bool, what string) error {
	if !is {
		return nil
	}
	return errors.New(what + " is not there")
}

func encodeObject(object map[string]any) (json.RawMessage, error) {
	if object == nil {
		return json.RawMessage("{}"), nil
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return encoded, nil
}

// inUTC gives a chat's times in the zone that answers are in.
func inUTC(chat history.Chat) history.Chat {
	chat.CreatedAt, chat.UpdatedAt = chat.CreatedAt.UTC(), chat.UpdatedAt.UTC()
	chat.LastMessageAt, chat.ExpiresAt = utc(chat.LastMessageAt), utc(chat.ExpiresAt)
	return chat
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	in := t.UTC()
	return &in
}

// FindChat reads a chat.
func (h *History) FindChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (history.Chat, error) {
	var found *history.Chat
	err := h.sendAs(ctx, user, "find chat", func(batch *pgx.Batch) {
		batch.Queue(dbsqlc.ReadChat, chatID).Query(one(&found))
	})
	switch {
	case err != nil:
		return history.Chat{}, err
	case found == nil:
		return history.Chat{}, fault.NoChat()
	case found.Expired:
		return history.Chat{}, fault.Expired(chatID, *found.ExpiresAt)
	}
	return inUTC(*found), nil
}

// listedChat is a row of ListChats.
type listedChat struct {
	history.Chat
	Activity, AsOf time.Time
}

// ListChats reads a page and looks for one chat more, to know whether it is the last.
func (h *History) ListChats(ctx context.Context, user auth.Principal, query history.ListQuery) (history.ChatPage, error) {
	var asOf, activity *time.Time
	var after uuid.NullUUID
	if query.After != nil {
		asOf, activity, after = &query.After.AsOf, &query.After.Activity, uuid.NullUUID{UUID: query.After.ChatID, Valid: true}
	}
	var found []listedChat
	err := h.sendAs(ctx, user, "list chats", func(batch *pgx.Batch) {
		batch.Queue(dbsqlc.ListChats, asOf, query.IncludeExpired, query.Tag, activity, after, query.Limit+1).Query(all(&found))
	})
	if err != nil {
		return history.ChatPage{}, err
	}
	page := history.ChatPage{Chats: []history.Chat{}}
	if len(found) > query.Limit {
		found = found[:query.Limit]
		last := found[query.Limit-1]
		page.Next = &history.Place{AsOf: last.AsOf, Activity: last.Activity, ChatID: last.ID}
	}
	for _, row := range found {
		page.Chats = append(page.Chats, inUTC(row.Chat))
	}
	return page, nil
}

// ChangeChat changes a chat and reads it.
func (h *History) ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change history.ChatChange) (history.Chat, error) {
	var metadata json.RawMessage // nil leaves it
	var err error
	if change.Metadata.Set {
		if metadata, err = encodeObject(*change.Metadata.Value); err != nil {
			return history.Chat{}, err
		}
	}
	var changed bool
	var found *history.Chat
	err = h.sendAs(ctx, user, "change chat", func(batch *pgx.Batch) {
		batch.Queue(dbsqlc.ChangeChat, change.Title.Value, metadata, change.Tags.Value, change.MemoryStrategy.Value,
			change.SystemPrompt.Set, change.SystemPrompt.Value, change.TTLHours.Set, change.TTLHours.Value,
			change.MaxTurns.Set, change.MaxTurns.Value, chatID, change.Revive).Exec(touched(&changed))
		batch.Queue(dbsqlc.ReadChat, chatID).Query(one(&found))
	})
	switch {
	case err != nil:
		return history.Chat{}, err
	case found == nil:
		return history.Chat{}, fault.NoChat()
	case !changed:
		return history.Chat{}, fault.Expired(chatID, *found.ExpiresAt)
	}
	return inUTC(*found), nil
}

// touched tells whether a statement found a row.
func touched(is *bool) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*is = tag.RowsAffected() > 0
		return nil
	}
}

// DeleteChat deletes a chat; foreign keys delete what belongs to it.
func (h *History) DeleteChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) error {
	var deleted bool
	err := h.sendAs(ctx, user, "delete chat", func(batch *pgx.Batch) {
		batch.Queue(dbsqlc.DeleteChat, chatID).Exec(touched(&deleted))
	})
	if err == nil && !deleted {
		return fault.NoChat()
	}
	return err
}

// pruneTimeout is for chats by the ten thousand.
const pruneTimeout = 5 * time.Minute

// PruneChats deletes old chats in one statement.
func (h *History) PruneChats(ctx context.Context, user auth.Principal, query history.PruneQuery) (history.Pruned, error) {
	statement := dbsqlc.PruneChats
	if query.DryRun {
		statement = dbsqlc.CountOldChats
	}
	pruned := history.Pruned{DryRun: query.DryRun}
	err := h.sendAsWithin(ctx, pruneTimeout, user, "prune chats", func(batch *pgx.Batch) {
		batch.Queue(statement, history.MaxPrunedIDs, query.OlderThanDays).QueryRow(func(row pgx.Row) error {
			return row.Scan(&pruned.Chats, &pruned.Messages, &pruned.ChatIDs)
		})
	})
	return pruned, err
}
