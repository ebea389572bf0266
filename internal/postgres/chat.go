package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxShownFileTokens is the most that any prompt shows of files; of what is beyond, the content is not read.
const maxShownFileTokens = 100_000

// chatReader collects what the statements of a batch read of a chat. The rows come newest first.
type chatReader struct {
	found      memory.Chat
	totalTurns int64
	cleared    int64
	hasFiles   bool
}

// chat returns what was read, in the order of the conversation.
func (r *chatReader) chat() memory.Chat {
	slices.Reverse(r.found.Buffer)
	slices.Reverse(r.found.Kept)
	r.found.TotalTurns = int(max(0, r.totalTurns-r.cleared))
	if r.found.Strategy == memory.StrategySimple {
		r.found.PendingTurns = r.found.TotalTurns // its buffer is everything
	}
	return r.found
}

// leaveOutNewTurn takes the turn that starts out of the counters. The brief's has it in any case; the chat's row
// was read before a message was stored, so it has only one that is tried again.
func (r *chatReader) leaveOutNewTurn(stored bool) {
	r.found.PendingTurns = max(0, r.found.PendingTurns-1)
	if !stored {
		r.totalTurns--
	}
}

// takeRow takes the columns of the chat's row.
func (r *chatReader) takeRow(systemPrompt *string, strategy string, maxTurns *int32, turnCount int64, hasFiles bool) {
	r.hasFiles = hasFiles
	if systemPrompt != nil {
		r.found.SystemPrompt = *systemPrompt
	}
	r.found.Settings, r.totalTurns = settings(strategy, maxTurns), turnCount
}

func settings(strategy string, maxTurns *int32) memory.Settings {
	s := memory.Settings{Strategy: memory.StrategyName(strategy)}
	if maxTurns != nil {
		s.MaxTurns = int(*maxTurns)
	}
	return s
}

// queue reads the memory of a chat, without two messages.
func (r *chatReader) queue(batch *pgx.Batch, chatID, userMessageID, messageID uuid.UUID) {
	batch.Queue(dbsqlc.ReadBrief, chatID).Query(each(func(row dbsqlc.ReadBriefRow) {
		r.found.Brief, r.found.PendingTurns, r.cleared = briefOf(row), row.PendingTurns, row.ClearedTurns
	}))
	batch.Queue(dbsqlc.ReadBuffer, chatID, userMessageID, messageID, maxBufferRows).Query(messages(&r.found.Buffer))
}

// readMore reads what few chats have: kept messages and files. It is a second round trip for those, so that
// the others need not ask.
func (r *chatReader) readMore(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, chatID uuid.UUID) error {
	hybrid := r.found.Strategy == memory.StrategyHybrid
	if !hybrid && !r.hasFiles {
		return nil
	}
	return send(ctx, pool, func() *pgx.Batch {
		r.found.Kept, r.found.Files = nil, nil
		batch := &pgx.Batch{}
		batch.Queue(dbsqlc.ActAsUser, user.Claims)
		if hybrid {
			batch.Queue(dbsqlc.ReadKept, chatID).Query(messages(&r.found.Kept))
		}
		if r.hasFiles {
			batch.Queue(dbsqlc.ReadFiles, maxShownFileTokens, chatID).Query(each(r.takeFile))
		}
		return batch
	})
}

func (r *chatReader) takeFile(row dbsqlc.ReadFilesRow) {
	file := memory.StoredFile{Path: row.Path, Content: row.Content, Tokens: row.TokenCount}
	copy(file.SHA256[:], row.Sha256)
	r.found.Files = append(r.found.Files, file)
}

// ReadChat reads with the user's rights what the next prompt would be built from.
func (t *Turns) ReadChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat.StoredChat, error) {
	var r chatReader
	var row dbsqlc.ReadChatContextRow
	var state *chatState
	err := send(ctx, t.pool, func() *pgx.Batch {
		r, state = chatReader{}, nil
		batch := &pgx.Batch{}
		batch.Queue(dbsqlc.ActAsUser, user.Claims)
		batch.Queue(dbsqlc.ReadChatContext, chatID).Query(each(func(found dbsqlc.ReadChatContextRow) {
			row = found
			state = &chatState{ID: found.ID, ExpiresAt: found.ExpiresAt, Expired: found.Expired}
			r.takeRow(found.SystemPrompt, found.MemoryStrategy, found.MaxTurns, found.TurnCount, found.HasFiles)
		}))
		r.queue(batch, chatID, uuid.Nil, uuid.Nil)
		return batch
	})
	if err != nil {
		return chat.StoredChat{}, fmt.Errorf("read chat: %w", err)
	}
	if err := refusal(state); err != nil {
		return chat.StoredChat{}, err
	}
	if err := r.readMore(ctx, t.pool, user, chatID); err != nil {
		return chat.StoredChat{}, fmt.Errorf("read chat: %w", err)
	}
	stored := chat.StoredChat{Chat: r.chat(), StartedAt: row.CreatedAt, Messages: row.MessageCount, ToolsUsed: row.ToolsUsed}
	if row.LastMessageAt != nil {
		stored.LastMessageAt = *row.LastMessageAt
	}
	if row.ToolName != nil {
		stored.ToolName = *row.ToolName
	}
	return stored, nil
}
