package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// chatReader collects what the statements of a batch read of a chat. Rows are stored newest first.
type chatReader struct {
	found   memory.Chat
	row     dbsqlc.LockChatRow
	cleared int64
}

// chat returns the rows read, oldest first.
func (r *chatReader) chat() memory.Chat {
	slices.Reverse(r.found.Buffer)
	slices.Reverse(r.found.Kept)
	r.found.TotalTurns = int(max(0, r.row.TurnCount-r.cleared))
	if r.found.Strategy == memory.StrategySimple {
		r.found.PendingTurns = r.found.TotalTurns // its buffer is everything
	}
	return r.found
}

// leaveOutNewTurn subtracts the turn that starts from the counters. The brief's counters always include it. The
// chat's row was read before a new message was stored, so it includes only one that was stored earlier.
func (r *chatReader) leaveOutNewTurn(storedEarlier bool) {
	r.found.PendingTurns = max(0, r.found.PendingTurns-1)
	if storedEarlier {
		r.row.TurnCount--
	}
}

// setRow stores the chat's row.
func (r *chatReader) setRow(row dbsqlc.LockChatRow) {
	r.row = row
	r.found.SystemPrompt = zeroNull(row.SystemPrompt)
	r.found.Settings = settings(row.MemoryStrategy, row.MaxTurns, row.ToolName != nil)
}

func settings(strategy string, maxTurns *int, fromTool bool) memory.Settings {
	return memory.Settings{Strategy: memory.StrategyName(strategy), MaxTurns: zeroNull(maxTurns), Tool: fromTool}
}

// queue adds the statements that read the brief and the buffer, the latter without the two messages of a new turn.
func (r *chatReader) queue(batch *pgx.Batch, chatID, userMessageID, messageID uuid.UUID, limits memory.Limits) {
	dbsqlc.ReadBrief.Read(batch, chatID, func(row dbsqlc.ReadBriefRow) {
		r.found.Brief = row.Brief
		r.found.PendingTurns, r.cleared, r.found.IndexedSeq = row.PendingTurns, row.ClearedTurns, row.IndexedSeq
	})
	turns, tokens, ofTool := limits.MostShown()
	dbsqlc.ReadBuffer.Read(batch, dbsqlc.ReadBufferParams{
		ChatID: chatID, UserMessageID: userMessageID, MessageID: messageID,
		Turns: turns, Tokens: tokens, ThreadTokens: ofTool, MaxRows: maxBufferRows,
	}, messages(&r.found.Buffer))
}

// queueMemories adds the statements that read the first memories that the chat may show, and look for other chats that it may
// recall.
func (r *chatReader) queueMemories(batch *pgx.Batch, chatID uuid.UUID) {
	r.found.Memories, r.found.RecallsOthers = memory.Memories{}, false
	dbsqlc.RecallsOthers.Read(batch, chatID, set(&r.found.RecallsOthers))
	params := dbsqlc.ReadFirstMemoriesParams{ChatID: chatID, Most: memory.MostFirst}
	dbsqlc.ReadFirstMemories.Read(batch, params, func(row dbsqlc.ReadFirstMemoriesRow) {
		r.found.Memories.On, r.found.Memories.Active = true, row.Active
		if row.ID != uuid.Nil {
			r.found.Memories.First = append(r.found.Memories.First, row.Remembered)
		}
	})
}

// readMore reads kept messages and files. Few chats have any, so it is a second round trip for those alone.
func (r *chatReader) readMore(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, chatID uuid.UUID, doing string) error {
	if !r.row.HasKept && !r.row.HasFiles {
		return nil
	}
	kept := dbsqlc.ReadKeptParams{ChatID: chatID, Important: r.found.Strategy == memory.StrategyHybrid, BeforeSeq: r.found.Brief.CoveredSeq + 1}
	if n := len(r.found.Buffer); n > 0 {
		kept.BeforeSeq = r.found.Buffer[n-1].Seq
	}
	return sendAs(ctx, pool, user, doing, func(batch *pgx.Batch) {
		r.found.Files = nil
		if r.row.HasKept {
			dbsqlc.ReadKept.Read(batch, kept, messages(&r.found.Kept))
		}
		if r.row.HasFiles {
			dbsqlc.ReadFiles.Read(batch, dbsqlc.ReadFilesParams{MaxTokens: memory.MaxFileTokens, ChatID: chatID}, func(row dbsqlc.ReadFilesRow) {
				r.found.Files = append(r.found.Files, memory.StoredFile{
					Path: row.Path, SHA256: [32]byte(row.Sha256), Content: row.Content, Tokens: row.TokenCount,
				})
			})
		}
	})
}

// ReadChat reads, with the user's rights, what the next prompt would be built from.
func (t *Turns) ReadChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat.StoredChat, error) {
	const doing = "read chat"
	r, row, err := t.readChat(ctx, user, chatID, doing, func(batch *pgx.Batch, r *chatReader) { r.queue(batch, chatID, uuid.Nil, uuid.Nil, t.limits) })
	if err != nil {
		return chat.StoredChat{}, err
	}
	if err := r.readMore(ctx, t.pool, user, chatID, doing); err != nil {
		return chat.StoredChat{}, err
	}
	return chat.StoredChat{
		Chat: r.chat(), StartedAt: row.CreatedAt, LastMessageAt: zeroNull(row.LastMessageAt), Messages: row.MessageCount,
		ToolName: zeroNull(row.ToolName), ToolsUsed: row.ToolsUsed,
	}, nil
}

// readChat reads a chat that is not expired, and what fill queues.
func (t *Turns) readChat(
	ctx context.Context, user auth.Principal, chatID uuid.UUID, doing string, fill func(*pgx.Batch, *chatReader),
) (r chatReader, row dbsqlc.ReadChatContextRow, err error) {
	err = sendAs(ctx, t.pool, user, doing, func(batch *pgx.Batch) {
		r = chatReader{}
		dbsqlc.ReadChatContext.Read(batch, chatID, set(&row))
		fill(batch, &r)
		if t.remembers() {
			r.queueMemories(batch, chatID)
		}
	})
	r.setRow(row.LockChatRow)
	return r, row, cmp.Or(err, refusal(row.ChatStateRow))
}

// ReadTurn is ReadChat without the two messages of a reply's turn, which are stored.
func (t *Turns) ReadTurn(ctx context.Context, user auth.Principal, chatID, userMessageID, messageID uuid.UUID) (memory.Chat, prompt.Question, error) {
	const doing = "read turn"
	var question *string
	r, _, err := t.readChat(ctx, user, chatID, doing, func(batch *pgx.Batch, r *chatReader) {
		dbsqlc.FindQuestion.Read(batch, dbsqlc.FindQuestionParams{ID: userMessageID, ChatID: chatID}, perhaps(&question))
		r.queue(batch, chatID, userMessageID, messageID, t.limits)
	})
	if err == nil && question == nil {
		err = api.NoMessage()
	}
	if err != nil {
		return memory.Chat{}, prompt.Question{}, err
	}
	r.leaveOutNewTurn(true)
	if err := r.readMore(ctx, t.pool, user, chatID, doing); err != nil {
		return memory.Chat{}, prompt.Question{}, err
	}
	return r.chat(), prompt.Question{Content: *question}, nil
}

// This is the server's own work on running replies, for all users at once.

// idsPerNotification keeps a payload within Postgres' limit of 8000 bytes.
const idsPerNotification = 200

// RecordDeltas is one batch: one round trip and one transaction.
func (t *Turns) RecordDeltas(ctx context.Context, deltas []chat.Delta, ended []uuid.UUID) error {
	var params dbsqlc.InsertDeltasParams
	for _, delta := range deltas {
		params.MessageIds = append(params.MessageIds, delta.MessageID)
		params.UserIds = append(params.UserIds, delta.UserID)
		params.Servers = append(params.Servers, delta.Server)
		params.StartChars = append(params.StartChars, delta.StartChar)
		params.Deltas = append(params.Deltas, delta.Text)
	}
	return failed("record deltas", send(ctx, t.pool, func(batch *pgx.Batch) {
		if len(deltas) > 0 {
			dbsqlc.InsertDeltas.Queue(batch, params)
		}
		if len(ended) > 0 {
			dbsqlc.DeleteSpentDeltas.Queue(batch, ended)
		}
		queueNotifications(batch, slices.Concat(params.MessageIds, ended))
	}))
}

// queueNotifications notifies all servers of these replies.
func queueNotifications(batch *pgx.Batch, messageIDs []uuid.UUID) {
	for some := range slices.Chunk(messageIDs, idsPerNotification) {
		payload := make([]string, len(some))
		for i, id := range some {
			payload[i] = id.String()
		}
		dbsqlc.NotifyServers.Queue(batch, dbsqlc.NotifyServersParams{Channel: channelReplies, MessageIds: strings.Join(payload, ",")})
	}
}

// CancelRequested returns those of the replies whose user asked to stop them.
func (t *Turns) CancelRequested(ctx context.Context, messageIDs []uuid.UUID) ([]uuid.UUID, error) {
	requested, err := dbsqlc.CancelRequested.All(ctx, t.pool, messageIDs)
	return requested, failed("look for cancellations", err)
}

// RenewLease says that a server is alive, for how long from now, and which replies it generates.
func (t *Turns) RenewLease(ctx context.Context, server uuid.UUID, running []uuid.UUID, lease time.Duration) error {
	params := dbsqlc.RenewLeaseParams{ServerID: server, Running: running, LeaseSeconds: lease.Seconds()}
	return failed("renew lease", dbsqlc.RenewLease.Run(ctx, t.pool, params))
}

// Abandon ends the leases of replies that no server generates.
func (t *Turns) Abandon(ctx context.Context, messageIDs []uuid.UUID) error {
	return failed("abandon replies", dbsqlc.AbandonReplies.Run(ctx, t.pool, messageIDs))
}

// InterruptAbandoned ends replies whose lease ran out: their server died. It returns how many.
func (t *Turns) InterruptAbandoned(ctx context.Context) (int, error) {
	return interruptAbandoned(ctx, t.pool, t.enqueue.delay())
}

// interruptAbandoned also notifies the servers, so that followers of these replies see the end. extractDelay is nil without
// long-term memory.
func interruptAbandoned(ctx context.Context, pool *pgxpool.Pool, extractDelay *float64) (int, error) {
	ended, err := try(ctx, pool, dbsqlc.InterruptAbandonedReplies.All, extractDelay)
	if err != nil || len(ended) == 0 {
		return 0, failed("interrupt abandoned replies", err)
	}
	return len(ended), failed("tell of interrupted replies", send(ctx, pool, func(batch *pgx.Batch) { queueNotifications(batch, ended) }))
}
