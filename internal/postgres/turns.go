package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxBufferRows bounds what one prompt reads when folds are far behind. Far more than any budget can
// show; what is older is counted as dropped.
const maxBufferRows = 1000

// Turns is the store of chats and their messages.
type Turns struct {
	pool *pgxpool.Pool
	// enqueueFold inserts the fold job of a chat in the caller's transaction.
	enqueueFold func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error
	limits      memory.Limits
}

var _ chat.Store = (*Turns)(nil)

// NewTurns makes the store. enqueueFold is called in the transaction that saves a reply, when the
// counters say that the chat is due.
func NewTurns(pool *pgxpool.Pool, limits memory.Limits, enqueueFold func(context.Context, pgx.Tx, uuid.UUID) error) *Turns {
	return &Turns{pool: pool, limits: limits, enqueueFold: enqueueFold}
}

// StartTurn is one batch: one round trip, and, since nothing in it says otherwise, one transaction. A chat with
// files or kept messages takes a second one to read those.
func (t *Turns) StartTurn(ctx context.Context, user auth.Principal, turn chat.NewTurn) (chat.StartedTurn, error) {
	const tries = 3
	for try := 1; ; try++ {
		started, err := t.startTurn(ctx, user, turn)
		// Somebody who does not take our locks may insert between look and insert. The indexes let one of
		// the two win, and the other finds on its next try what the first one stored.
		if err == nil || !isUniqueViolation(err) || try == tries {
			return started, err
		}
	}
}

func (t *Turns) startTurn(ctx context.Context, user auth.Principal, turn chat.NewTurn) (chat.StartedTurn, error) {
	s := &startTurn{turn: turn, clientID: nullable(turn.ClientMessageID), user: user.UserID}
	if err := s.encode(); err != nil {
		return chat.StartedTurn{}, err
	}
	if err := send(ctx, t.pool, func() *pgx.Batch { return s.batch(user.Claims) }); err != nil {
		return chat.StartedTurn{}, fmt.Errorf("start turn: %w", err)
	}
	again := s.recognize()
	if s.found.Started {
		if err := s.reader.readMore(ctx, t.pool, user, turn.ChatID); err != nil {
			return chat.StartedTurn{}, fmt.Errorf("start turn: %w", err)
		}
	}
	s.reader.leaveOutNewTurn(s.turn.InPlaceOf == uuid.Nil && !again)
	s.found.Chat = s.reader.chat()
	return s.found, nil
}

// startTurn collects what the statements of one batch say.
type startTurn struct {
	turn     chat.NewTurn
	user     uuid.UUID
	clientID uuid.NullUUID

	userMetadata, replyMetadata json.RawMessage
	tries                       int
	reader                      chatReader
	found                       chat.StartedTurn
}

// recognize tells whether the reply that stands in the way is our own: a connection that breaks after the commit
// takes the answer with it, and the next try finds what the one before has stored.
func (s *startTurn) recognize() bool {
	ours := s.found.Running == s.turn.MessageID
	if ours {
		s.found.Started, s.found.Running, s.found.Earlier = true, uuid.Nil, nil
	}
	return ours
}

func (s *startTurn) encode() error {
	metadata := s.turn.Metadata
	if metadata == nil {
		metadata = map[string]any{}
	}
	var err, errReply error
	s.userMetadata, err = json.Marshal(metadata)
	s.replyMetadata, errReply = json.Marshal(chat.ReplyMetadata{ModelVariant: s.turn.Variant})
	if err = errors.Join(err, errReply); err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	return nil
}

// batch makes the statements anew, and forgets what earlier ones found.
func (s *startTurn) batch(claims string) *pgx.Batch {
	s.found, s.reader = chat.StartedTurn{}, chatReader{}
	s.tries++
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.ActAsUser, claims)
	if s.clientID.Valid {
		batch.Queue(dbsqlc.LockClientMessage, s.user.String(), s.turn.ClientMessageID.String())
	}
	if s.turn.NewChat {
		s.queueNewChat(batch)
		s.queueTurn(batch)
		s.queueFiles(batch)
		s.reader.hasFiles = len(s.turn.Files) > 0
		return batch
	}
	s.queueLooks(batch)
	if s.turn.InPlaceOf == uuid.Nil {
		s.queueTurn(batch)
		s.queueFiles(batch)
	} else {
		s.queueAgain(batch)
	}
	s.reader.queue(batch, s.turn.ChatID, s.turn.UserMessageID, s.turn.MessageID)
	return batch
}

func (s *startTurn) queueNewChat(batch *pgx.Batch) {
	s.queueEarlier(batch)
	turn := s.turn
	batch.Queue(dbsqlc.InsertChat, turn.ChatID, s.user, turn.Title, orNull(turn.ToolName), orNull(turn.TTLHours), orNull(turn.MaxTurns), s.clientID)
	if s.tries > 1 { // before that nothing runs in it
		s.queueRunning(batch)
	}
}

func (s *startTurn) queueLooks(batch *pgx.Batch) {
	batch.Queue(dbsqlc.LockChat, s.turn.ChatID).Query(each(func(row dbsqlc.LockChatRow) {
		s.reader.takeRow(row.SystemPrompt, row.MemoryStrategy, row.MaxTurns, row.TurnCount, row.HasFiles || len(s.turn.Files) > 0)
		if row.Expired && !s.turn.Revive {
			s.found.Expired = *row.ExpiresAt
		}
	}))
	batch.Queue(dbsqlc.ReleaseAbandonedReplies, s.turn.ChatID)
	s.queueEarlier(batch)
	s.queueRunning(batch)
}

func (s *startTurn) queueRunning(batch *pgx.Batch) {
	batch.Queue(dbsqlc.FindRunningReply, s.turn.ChatID).Query(func(rows pgx.Rows) error {
		var err error
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if len(ids) > 0 {
			s.found.Running = ids[0]
		}
		return err
	})
}

func (s *startTurn) queueEarlier(batch *pgx.Batch) {
	if !s.clientID.Valid {
		return
	}
	batch.Queue(dbsqlc.FindEarlierTurn, s.user, s.clientID).Query(each(func(row dbsqlc.FindEarlierTurnRow) {
		s.found.Earlier = &chat.EarlierTurn{
			ChatID: row.ChatID, UserMessageID: row.ID, Content: row.Content, MessageID: row.ReplyID, Status: memory.Status(row.ReplyStatus),
		}
	}))
}

// queueTurn inserts the message and the reply to come.
func (s *startTurn) queueTurn(batch *pgx.Batch) {
	turn := s.turn
	batch.Queue(dbsqlc.InsertTurn, turn.UserMessageID, turn.Content, turn.ContentTokens, s.userMetadata, s.clientID, orNull(turn.ToolName),
		turn.MessageID, s.replyMetadata, turn.Lease.Seconds(), turn.ChatID, turn.Revive).Exec(func(tag pgconn.CommandTag) error {
		s.found.Started = tag.RowsAffected() == 2
		return nil
	})
}

// queueAgain inserts another reply to a message that is there, in place of the one that failed.
func (s *startTurn) queueAgain(batch *pgx.Batch) {
	turn := s.turn
	batch.Queue(dbsqlc.InsertAgain, turn.MessageID, s.replyMetadata, turn.Lease.Seconds(), turn.UserMessageID, turn.ChatID, turn.Revive, turn.InPlaceOf).Exec(func(tag pgconn.CommandTag) error {
		s.found.Started = tag.RowsAffected() == 1
		return nil
	})
	batch.Queue(dbsqlc.SupersedeReply, turn.InPlaceOf, turn.MessageID)
}

// queueFiles stores what came with the message, once it is stored itself.
func (s *startTurn) queueFiles(batch *pgx.Batch) {
	if len(s.turn.Files) == 0 {
		return
	}
	hashes, paths := make([][]byte, len(s.turn.Files)), make([]string, len(s.turn.Files))
	contents, tokens := make([]string, len(s.turn.Files)), make([]int32, len(s.turn.Files))
	for i, file := range s.turn.Files {
		hashes[i], paths[i], contents[i], tokens[i] = file.SHA256[:], file.Path, file.Content, int32(file.Tokens)
	}
	batch.Queue(dbsqlc.InsertFiles, hashes, contents, tokens, s.turn.UserMessageID)
	batch.Queue(dbsqlc.InsertMessageFiles, hashes, paths, s.turn.UserMessageID)
}

// SaveReply stores the reply and enqueues the fold in one transaction.
func (t *Turns) SaveReply(ctx context.Context, user auth.Principal, reply chat.FinishedReply) (bool, error) {
	metadata, err := json.Marshal(reply.Metadata)
	if err != nil {
		return false, fmt.Errorf("encode metadata: %w", err)
	}
	saved := false
	err = inTx(ctx, t.pool, func(tx pgx.Tx) error {
		var due bool
		batch := &pgx.Batch{}
		batch.Queue(dbsqlc.ActAsUser, user.Claims)
		batch.Queue(dbsqlc.SaveReply, reply.Content, string(reply.Status), reply.Tokens, json.RawMessage(metadata), reply.MessageID).Exec(func(tag pgconn.CommandTag) error {
			saved = tag.RowsAffected() == 1
			return nil
		})
		batch.Queue(dbsqlc.ReadCounters, reply.ChatID).Query(each(func(row dbsqlc.ReadCountersRow) {
			due = memory.Due(row.BriefTokens, row.PendingTokens, row.PendingTurns, t.limits.For(settings(row.MemoryStrategy, row.MaxTurns)))
		}))
		batch.Queue(dbsqlc.ActAsServer)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		if !saved || !due {
			return nil
		}
		return t.enqueueFold(ctx, tx, reply.ChatID)
	})
	if err != nil {
		return false, fmt.Errorf("save reply: %w", err)
	}
	return saved, nil
}

// FindReply reads a reply with the user's rights; of a running one what was recorded from a place on.
func (t *Turns) FindReply(ctx context.Context, user auth.Principal, chatID, messageID uuid.UUID, from int) (chat.StoredReply, bool, error) {
	var ok bool
	var state *chatState
	var row dbsqlc.FindReplyRow
	err := send(ctx, t.pool, func() *pgx.Batch {
		batch := &pgx.Batch{}
		batch.Queue(dbsqlc.ActAsUser, user.Claims)
		batch.Queue(dbsqlc.ChatState, chatID).Query(one(&state))
		batch.Queue(dbsqlc.FindReply, from, nullable(messageID), chatID).Query(each(func(found dbsqlc.FindReplyRow) { row, ok = found, true }))
		return batch
	})
	if err != nil {
		return chat.StoredReply{}, false, fmt.Errorf("find reply: %w", err)
	}
	if err := refusal(state); err != nil {
		return chat.StoredReply{}, false, err
	}
	if !ok {
		return chat.StoredReply{}, false, nil
	}
	reply := chat.StoredReply{ChatID: chatID, UserMessageID: row.ReplyTo, MessageID: row.ID, Status: memory.Status(row.Status), Content: row.Content}
	if err := json.Unmarshal(row.Metadata, &reply.Metadata); err != nil {
		return chat.StoredReply{}, false, fmt.Errorf("metadata of message %s: %w", row.ID, err)
	}
	return reply, true, nil
}

// RequestCancel leaves a note on the message and tells all servers that there is one.
func (t *Turns) RequestCancel(ctx context.Context, user auth.Principal, messageID uuid.UUID) error {
	err := send(ctx, t.pool, func() *pgx.Batch {
		batch := &pgx.Batch{}
		batch.Queue(dbsqlc.ActAsUser, user.Claims)
		batch.Queue(dbsqlc.RequestCancel, messageID)
		return batch
	})
	if err != nil {
		return fmt.Errorf("request cancel: %w", err)
	}
	return nil
}
