package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// maxShownFileTokens is the most that any prompt shows of files; of what is beyond, the content is not read.
const maxShownFileTokens = 100_000

// recalled collects what the statements of a batch say about a chat's memory. The rows come newest first.
type recalled struct {
	found      chat.Remembered
	totalTurns int64
	cleared    int64
}

// remembered is what was collected, in the order of the conversation.
func (r *recalled) remembered() chat.Remembered {
	slices.Reverse(r.found.Buffer)
	slices.Reverse(r.found.Kept)
	r.found.TotalTurns = int(max(0, r.totalTurns-r.cleared))
	if r.found.Strategy == memory.StrategySimple {
		r.found.PendingTurns = r.found.TotalTurns // its buffer is everything
	}
	return r.found
}

// leaveOut takes turns out of the counters of chat and brief.
func (r *recalled) leaveOut(inChat int64, inBrief int) {
	r.totalTurns -= inChat
	r.found.PendingTurns = max(0, r.found.PendingTurns-inBrief)
}

// settings takes what the chat's row says.
func (r *recalled) settings(systemPrompt *string, strategy string, maxTurns *int32, turnCount int64) {
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
func (r *recalled) queue(batch *pgx.Batch, chatID, userMessageID, messageID uuid.UUID) {
	batch.Queue(dbsqlc.ReadBrief, chatID).Query(each(func(row dbsqlc.ReadBriefRow) {
		r.found.Brief, r.found.PendingTurns, r.cleared = brief(row), row.PendingTurns, row.ClearedTurns
	}))
	batch.Queue(dbsqlc.ReadBuffer, chatID, userMessageID, messageID, maxBufferRows).Query(messages(&r.found.Buffer))
	batch.Queue(dbsqlc.ReadKept, chatID).Query(messages(&r.found.Kept))
	r.queueFiles(batch, chatID)
}

func (r *recalled) queueFiles(batch *pgx.Batch, chatID uuid.UUID) {
	batch.Queue(dbsqlc.ReadFiles, maxShownFileTokens, chatID).Query(each(func(row dbsqlc.ReadFilesRow) {
		file := memory.StoredFile{Path: row.Path, Content: row.Content, Tokens: row.TokenCount}
		copy(file.SHA256[:], row.Sha256)
		r.found.Files = append(r.found.Files, file)
	}))
}

// Recall reads with the user's rights what the next prompt would be built from.
func (t *Turns) Recall(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat.Recollection, error) {
	var r recalled
	var row dbsqlc.ReadChatContextRow
	state := chatState{id: chatID}
	err := send(ctx, t.pool, func() *pgx.Batch {
		r, state = recalled{}, chatState{id: chatID}
		batch := &pgx.Batch{}
		batch.Queue(dbsqlc.ActAsUser, user.Claims)
		batch.Queue(dbsqlc.ReadChatContext, chatID).Query(each(func(found dbsqlc.ReadChatContextRow) {
			row = found
			state.take(found.Expired, found.ExpiresAt)
			r.settings(found.SystemPrompt, found.MemoryStrategy, found.MaxTurns, found.TurnCount)
		}))
		r.queue(batch, chatID, uuid.Nil, uuid.Nil)
		return batch
	})
	if err != nil {
		return chat.Recollection{}, fmt.Errorf("recall chat: %w", err)
	}
	if err := state.err(); err != nil {
		return chat.Recollection{}, err
	}
	recollection := chat.Recollection{Remembered: r.remembered(), StartedAt: row.CreatedAt, Messages: row.MessageCount, ToolsUsed: row.ToolsUsed}
	if row.LastMessageAt != nil {
		recollection.LastMessageAt = *row.LastMessageAt
	}
	if row.ToolName != nil {
		recollection.ToolName = *row.ToolName
	}
	return recollection, nil
}

// chatState is whether a user has a chat, and whether it has expired.
type chatState struct {
	id      uuid.UUID
	found   bool
	expired *time.Time
}

// queue looks for a chat.
func (s *chatState) queue(batch *pgx.Batch, chatID uuid.UUID) {
	*s = chatState{id: chatID}
	batch.Queue(dbsqlc.FindChat, chatID).Query(each(func(row dbsqlc.FindChatRow) { s.take(row.Expired, row.ExpiresAt) }))
}

func (s *chatState) take(expired bool, at *time.Time) {
	s.found = true
	if expired {
		s.expired = at
	}
}

// err is what a chat answers that is not there for its user.
func (s *chatState) err() error {
	switch {
	case !s.found:
		return fault.New(fault.ChatNotFound, "There is no such chat.")
	case s.expired != nil:
		return chat.ChatExpired(s.id, *s.expired)
	}
	return nil
}
