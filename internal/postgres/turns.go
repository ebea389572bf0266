package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"
)

// maxBufferRows bounds what one prompt reads of messages that are blank or have next to no tokens. Older turns count as dropped.
const maxBufferRows = 1000

// Turns is the store of chats and their messages.
type Turns struct {
	foldingStore
	// atOnce admits turns to Postgres in the order in which they come: see turnsAtOnce.
	atOnce *semaphore.Weighted
}

// foldingStore is a store whose changes may make a chat due to be folded or indexed.
type foldingStore struct {
	pool    *pgxpool.Pool
	limits  memory.Limits
	enqueue Enqueue
}

// Enqueue inserts jobs of a chat in the caller's transaction. Without Index nothing is indexed, without Extract nothing is
// read for memories.
type Enqueue struct {
	Fold, Index func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error
	// Topics is which chats have topics: auto, on or off, which is the default.
	Topics string
	// Extract inserts a job that runs at a time, and the zero time is now. ExtractDelay is how long a chat rests before.
	Extract      func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, at time.Time) error
	ExtractDelay time.Duration
	// Title inserts the job that has the model give a chat a title; nil for none.
	Title func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error
}

// remembers reports whether there is long-term memory.
func (s foldingStore) remembers() bool { return s.enqueue.Extract != nil }

// delay is ExtractDelay in seconds; nil without long-term memory.
func (e *Enqueue) delay() *float64 {
	if e.Extract == nil {
		return nil
	}
	return new(e.ExtractDelay.Seconds())
}

// queueRelease ends a chat's reply whose server died.
func (s foldingStore) queueRelease(batch *pgx.Batch, chatID uuid.UUID) {
	dbsqlc.ReleaseAbandonedReplies.Queue(batch, dbsqlc.ReleaseAbandonedRepliesParams{ChatID: chatID, ExtractDelaySeconds: s.enqueue.delay()})
}

// indexAfter is how many turns of a simple chat, or of one with topics, are not indexed when a job is inserted. A fold
// indexes the turns of other chats, and the sweep the rest once the chats are quiet.
const indexAfter = 4

// extractAfter is how many turns were not read for memories when a chat is read although somebody is talking in it.
const extractAfter = 6

var _ chat.Store = (*Turns)(nil)

// NewTurns returns the store. enqueue is called in the transaction that saves a reply if the chat is due.
func NewTurns(pool *pgxpool.Pool, limits memory.Limits, enqueue Enqueue) *Turns {
	return &Turns{
		foldingStore: foldingStore{pool: pool, limits: limits, enqueue: enqueue},
		atOnce:       semaphore.NewWeighted(int64(turnsAtOnce(pool.Config().MaxConns))),
	}
}

// StartTurn is one batch: one round trip and one transaction. A turn that could not be stored, or perhaps was already,
// takes another one that looks for the reason. A chat with files or kept messages takes a second one to read those.
func (t *Turns) StartTurn(ctx context.Context, user auth.Principal, turn chat.NewTurn) (chat.StartedTurn, error) {
	const doing, tries = "start turn", 3
	s, err := t.newStart(user, turn)
	if err != nil {
		return chat.StartedTurn{}, failed(doing, err)
	}
	if err := t.atOnce.Acquire(ctx, 1); err != nil {
		return chat.StartedTurn{}, failed(doing, explained(err))
	}
	defer t.atOnce.Release(1)
	for try := 1; ; try++ {
		err := sendAs(ctx, t.pool, user, doing, s.fill)
		// A writer that does not take our locks may insert between our read and our insert. A unique index lets
		// one of the two win, and the next try finds what the other has stored.
		raced := sqlState(err) == pgerrcode.UniqueViolation && try < tries
		if sqlState(err) == replacedForNothing {
			err, s.found.Started = nil, false
		}
		if raced || err == nil && !s.found.Started && !s.looksForReason {
			continue
		}
		if err != nil {
			return chat.StartedTurn{}, err
		}
		return t.finishStart(ctx, user, s, doing)
	}
}

func (t *Turns) newStart(user auth.Principal, turn chat.NewTurn) (*turnStart, error) {
	userMetadata, errUser := encodeObject(turn.Metadata)
	replyMetadata, errReply := json.Marshal(chat.ReplyMetadata{ModelVariant: turn.Variant})
	s := &turnStart{turn: turn, user: user.UserID, userMetadata: userMetadata, replyMetadata: replyMetadata, store: t.foldingStore}
	return s, cmp.Or(errUser, errReply)
}

// finishStart returns what the batch has found, and reads the rest.
func (t *Turns) finishStart(ctx context.Context, user auth.Principal, s *turnStart, doing string) (chat.StartedTurn, error) {
	turn := s.turn
	if !turn.NewChat && !s.locked && s.found.Earlier == nil {
		return chat.StartedTurn{}, checkGone(ctx, t.pool, user, turn.ChatID)
	}
	// A connection that breaks after the commit loses the answer: then the next try finds our own reply.
	ours := s.found.Running == turn.MessageID
	if ours {
		s.found.Started, s.found.Running, s.found.Earlier = true, uuid.Nil, nil
	}
	if s.found.Started {
		user.Begun = true
		if err := s.reader.readMore(ctx, t.pool, user, turn.ChatID, doing); err != nil {
			return chat.StartedTurn{}, err
		}
	}
	s.found.Crowded = !s.found.Started && len(s.reader.found.SystemPrompt) > turn.SystemPromptRoom
	s.reader.leaveOutNewTurn(turn.Replacement != nil || ours)
	s.found.Chat = s.reader.chat()
	return s.found, nil
}

// turnStart collects what the statements of one batch find.
type turnStart struct {
	turn chat.NewTurn
	user uuid.UUID

	userMetadata, replyMetadata json.RawMessage
	store                       foldingStore
	filled                      bool // before, by an earlier try
	looksForReason              bool // because an earlier try may have stored nothing, or the turn
	locked                      bool // the existing chat
	reader                      chatReader
	found                       chat.StartedTurn
}

// fill queues the statements. It may be called again for another try.
func (s *turnStart) fill(batch *pgx.Batch) {
	s.found, s.reader, s.locked = chat.StartedTurn{}, chatReader{}, false
	s.looksForReason, s.filled = s.filled, true
	turn := s.turn
	if turn.Replacement != nil {
		dbsqlc.HoldAccount.Queue(batch, struct{}{})
	}
	if turn.NewChat {
		s.queueNewChat(batch)
	} else {
		s.queueLockedChat(batch)
	}
	if turn.Replacement == nil {
		s.queueAdmission(batch)
		s.queueTurn(batch)
	} else {
		s.queueReplacement(batch, *turn.Replacement)
	}
	if !turn.NewChat {
		s.reader.queue(batch, turn.ChatID, turn.UserMessageID, turn.MessageID, s.store.limits)
	}
	if s.store.remembers() {
		s.reader.queueMemories(batch, turn.ChatID)
	}
}

func (s *turnStart) queueNewChat(batch *pgx.Batch) {
	turn := s.turn
	if turn.ClientMessageID != uuid.Nil {
		dbsqlc.LockClientMessage.Queue(batch, dbsqlc.LockClientMessageParams{
			UserID: s.user.String(), ClientMessageID: turn.ClientMessageID.String(),
		})
	}
	if s.looksForReason {
		s.queueEarlier(batch)
	}
	dbsqlc.InsertChat.Queue(batch, dbsqlc.InsertChatParams{
		ID: turn.ChatID, UserID: s.user, Title: turn.Title, ToolName: nullZero(turn.ToolName),
		SystemPrompt: turn.SystemPrompt, Tags: turn.Tags, MemoryStrategy: nullZero(string(turn.Strategy)),
		TtlHours: nullZero(turn.TTLHours), MaxTurns: nullZero(turn.MaxTurns), Remember: new(!turn.Temporary),
		Topics: nullZero(turn.Topics), Recall: nullZero(turn.Recall), ClientMessageID: nullID(turn.ClientMessageID),
	})
	s.reader.setRow(dbsqlc.LockChatRow{
		SystemPrompt: turn.SystemPrompt, MemoryStrategy: string(turn.Strategy), MaxTurns: nullZero(turn.MaxTurns), ToolName: nullZero(turn.ToolName),
		HasFiles: len(turn.Files) > 0,
	})
	if s.looksForReason {
		s.queueRunning(batch)
	}
}

func (s *turnStart) queueLockedChat(batch *pgx.Batch) {
	dbsqlc.LockChat.Read(batch, s.turn.ChatID, func(row dbsqlc.LockChatRow) {
		s.locked = true
		row.HasFiles = row.HasFiles || len(s.turn.Files) > 0
		s.reader.setRow(row)
		if row.Expired && !s.turn.Revive {
			s.found.Expired = *row.ExpiresAt
		}
	})
	if s.looksForReason {
		s.store.queueRelease(batch, s.turn.ChatID)
		s.queueEarlier(batch)
		s.queueRunning(batch)
		s.queuePath(batch)
	}
}

// queuePath looks with what the path ends, where the turn asks for that, and what became of the message that it replaces.
func (s *turnStart) queuePath(batch *pgx.Batch) {
	switch turn := s.turn; {
	case turn.Replacement != nil:
		s.found.Replaced = &chat.Replaced{}
		dbsqlc.FindReplaced.Read(batch, dbsqlc.FindReplacedParams{ID: turn.Replacement.MessageID}, set(s.found.Replaced))
	case turn.Last != nil:
		s.found.Replaced = &chat.Replaced{}
		dbsqlc.FindLastMessage.Read(batch, turn.ChatID, set(&s.found.Replaced.LastMessageID))
	}
}

func (s *turnStart) queueRunning(batch *pgx.Batch) {
	dbsqlc.FindRunningReply.Read(batch, s.turn.ChatID, set(&s.found.Running))
}

func (s *turnStart) queueEarlier(batch *pgx.Batch) {
	if s.turn.ClientMessageID == uuid.Nil {
		return
	}
	queueEarlier(batch, s.user, s.turn.ClientMessageID, &s.found.Earlier)
}

func queueEarlier(batch *pgx.Batch, user, clientMessageID uuid.UUID, into **chat.EarlierTurn) {
	params := dbsqlc.FindEarlierTurnParams{UserID: user, ClientMessageID: nullID(clientMessageID)}
	dbsqlc.FindEarlierTurn.Read(batch, params, func(row dbsqlc.FindEarlierTurnRow) {
		*into = &chat.EarlierTurn{
			ChatID: row.ChatID, UserMessageID: row.ID, UserSeq: row.UserSeq, Content: row.Content, Files: storedFiles(row.Paths, row.Hashes),
			Again: row.Again, Replaces: row.Replaces.UUID,
			MessageID: row.ReplyID, Status: memory.Status(row.ReplyStatus), Variant: row.ModelVariant, Asked: row.AskedVariant, Ends: row.Ends,
			Continues: row.Continues && row.Ends, Parts: memory.ReadParts(row.Parts),
		}
	})
}

func storedFiles(paths []string, hashes [][]byte) []memory.StoredFile {
	files := make([]memory.StoredFile, len(paths))
	for n, path := range paths {
		files[n] = memory.StoredFile{Path: path, SHA256: [32]byte(hashes[n])}
	}
	return files
}

// queueAdmission asks whether the user may have the turn, and which variant answers. A denial is an error: nothing is stored.
func (s *turnStart) queueAdmission(batch *pgx.Batch) {
	dbsqlc.AdmitTurn.Read(batch, dbsqlc.AdmitTurnParams{
		UserID: s.user, Variant: s.turn.Variant, Known: s.turn.Variants, ClientMessageID: nullID(s.turn.ClientMessageID), MessageID: s.turn.MessageID,
	}, set(&s.found.Variant))
}

// queueTurn inserts the user's message with its files, and an empty reply.
func (s *turnStart) queueTurn(batch *pgx.Batch) {
	turn := s.turn
	params := dbsqlc.InsertTurnParams{
		ChatID: turn.ChatID, Revive: turn.Revive, SystemPromptRoom: turn.SystemPromptRoom,
		UserMessageID: turn.UserMessageID, Content: turn.Content, TokenCount: turn.ContentTokens,
		Importance: real32(turn.Importance), Metadata: s.userMetadata, ClientMessageID: nullID(turn.ClientMessageID), ToolName: nullZero(turn.ToolName),
		MessageID: turn.MessageID, ReplyMetadata: s.replyMetadata, ServerID: turn.Server, LeaseSeconds: turn.Lease.Seconds(),
	}
	if turn.Last != nil {
		params.LastMessageID, params.Follows = nullID(*turn.Last), turn.Replacement == nil
	}
	if turn.Replacement != nil {
		params.Replaces = nullID(turn.Replacement.Replaces)
	}
	dbsqlc.InsertTurn.Queue(batch, params).Exec(affects(2, &s.found.Started))
	if len(turn.Files) == 0 {
		return
	}
	contents := dbsqlc.InsertFilesParams{MessageID: turn.UserMessageID}
	paths := dbsqlc.InsertMessageFilesParams{MessageID: turn.UserMessageID}
	for _, file := range turn.Files {
		contents.Hashes = append(contents.Hashes, file.SHA256[:])
		contents.Contents = append(contents.Contents, file.Content)
		contents.TokenCounts = append(contents.TokenCounts, file.Tokens)
		paths.Paths = append(paths.Paths, file.Path)
	}
	paths.Hashes = contents.Hashes
	dbsqlc.InsertFiles.Queue(batch, contents)
	dbsqlc.InsertMessageFiles.Queue(batch, paths)
}

// SaveReply stores the reply and its cost, and enqueues the fold, in one transaction. The cost is charged also if the reply has
// been deleted. Where the account has been, there is nothing to save.
func (t *Turns) SaveReply(ctx context.Context, user auth.Principal, reply chat.FinishedReply) (bool, error) {
	metadata, err := json.Marshal(reply.Metadata)
	parts, errParts := encodeParts(reply.Parts)
	if err := cmp.Or(err, errParts); err != nil {
		return false, failed("encode reply", err)
	}
	if err := t.atOnce.Acquire(ctx, 1); err != nil {
		return false, failed("save reply", explained(err))
	}
	defer t.atOnce.Release(1)
	saved := false
	err = retry(ctx, t.pool, func() error {
		batch := &pgx.Batch{}
		batch.BeginTx(pgx.TxOptions{})
		if reply.Spent != nil {
			dbsqlc.InsertUsage.Queue(batch, usageRow(*reply.Spent))
		}
		queueActAs(batch, user)
		dbsqlc.SaveReply.Queue(batch, dbsqlc.SaveReplyParams{
			ID: reply.MessageID, ChatID: reply.ChatID, Content: reply.Content, Status: string(reply.Status), TokenCount: reply.Tokens, Metadata: metadata,
			Parts: parts, ServerID: nullID(reply.Server),
		}).Exec(affects(1, &saved))
		var due dueJobs
		t.queueDue(batch, reply.ChatID, &due)
		return sendInTx(ctx, t.pool, batch, func(tx pgx.Tx) error { return t.enqueueDue(ctx, tx, reply.ChatID, due) })
	})
	if code := fault.CodeOf(err); code == fault.UserNotFound || code == fault.WrongCell {
		return false, nil
	}
	return saved && err == nil, failed("save reply", err)
}

// dueJobs are the jobs that a changed chat needs.
type dueJobs struct{ fold, index, extract, extractAtOnce, title bool }

// enqueueLast ends a transaction that changed a chat: it enqueues the jobs that are due.
func (s foldingStore) enqueueLast(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
	batch, due := &pgx.Batch{}, dueJobs{}
	s.queueDue(batch, chatID, &due)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	return s.enqueueDue(ctx, tx, chatID, due)
}

// queueDue looks what a chat is due for. It is not due to be folded while folds of the chat are put off: then the sweep
// enqueues that when it is time. A simple chat, which has no folds, and one with topics may be due to be indexed, and any
// chat to be read for memories.
func (s foldingStore) queueDue(batch *pgx.Batch, chatID uuid.UUID, due *dueJobs) {
	counted := dbsqlc.ReadCountersParams{ChatID: chatID, IndexAfter: indexAfter, Topics: cmp.Or(s.enqueue.Topics, "off")}
	if s.remembers() {
		counted.ExtractAfter = extractAfter
	}
	dbsqlc.ReadCounters.Read(batch, counted, func(row dbsqlc.ReadCountersRow) {
		limits := s.limits.For(settings(row.MemoryStrategy, row.MaxTurns, row.FromTool))
		due.fold = !row.PutOff && memory.Due(row.BriefTokens, row.PendingTokens, row.PendingTurns, limits)
		due.index = row.UnindexedTurns >= indexAfter && s.enqueue.Index != nil
		due.extractAtOnce = row.UnreadTurns >= extractAfter
		due.extract = due.extractAtOnce || row.UnreadTurns > 0 && !row.ExtractDue
		due.title = row.Untitled && s.enqueue.Title != nil
	})
}

// enqueueDue does so as the server. Most turns make nothing due.
func (s foldingStore) enqueueDue(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, due dueJobs) error {
	if due == (dueJobs{}) {
		return nil
	}
	err := dbsqlc.ActAsServer.Run(ctx, tx, struct{}{})
	if err == nil && due.fold {
		err = s.enqueue.Fold(ctx, tx, chatID)
	}
	if err == nil && due.index {
		err = s.enqueue.Index(ctx, tx, chatID)
	}
	if err == nil && due.extract {
		err = s.enqueue.enqueueExtraction(ctx, tx, chatID, due.extractAtOnce)
	}
	if err == nil && due.title {
		err = s.enqueue.Title(ctx, tx, chatID)
	}
	return err
}

// enqueueExtraction makes a chat due to be read for memories, and inserts the job.
func (e *Enqueue) enqueueExtraction(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, atOnce bool) error {
	err := dbsqlc.SetExtractDue.Run(ctx, tx, dbsqlc.SetExtractDueParams{ChatID: chatID, AtOnce: atOnce, DelaySeconds: e.ExtractDelay.Seconds()})
	if err != nil {
		return err
	}
	at := time.Time{}
	if !atOnce {
		at = time.Now().Add(e.ExtractDelay)
	}
	return e.Extract(ctx, tx, chatID, at)
}
