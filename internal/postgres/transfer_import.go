package postgres

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// importTimeout bounds the transaction of one imported chat.
const importTimeout = 10 * time.Minute

// Import writes a chat in one transaction, in chunks: row level security does not support COPY. It tries once,
// because write reads from a file and cannot begin again.
func (t *Transfer) Import(ctx context.Context, user auth.Principal, chat transfer.NewChat, write func(transfer.Rows) error) (uuid.UUID, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	id, imported := uuid.Nil, false
	err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		i := &chatImport{ctx: ctx, tx: tx, user: user.UserID, chat: chat}
		var err error
		if id, imported, err = i.begin(user.Claims); err != nil || !imported {
			return err
		}
		if err := write(i); err != nil {
			return err
		}
		return t.sendLast(ctx, tx, &pgx.Batch{}, id)
	})
	return id, imported && err == nil, failed("import", explained(err))
}

// chatImport is the import of one chat.
type chatImport struct {
	ctx  context.Context //nolint:containedctx // it lives as long as the transaction, which has the same
	tx   pgx.Tx
	user uuid.UUID
	chat transfer.NewChat
}

// begin creates the chat, or finds that the user has it.
func (i *chatImport) begin(claims string) (id uuid.UUID, created bool, err error) {
	chat := i.chat
	find := dbsqlc.FindImportedParams{ID: chat.ID, Original: chat.Original}
	batch := &pgx.Batch{}
	queueExec(batch, queries.ActAsUser, claims)
	_ = dbsqlc.New(&recorder{batch: batch}).BeginQuietly(i.ctx)
	queueMany(batch, queries.FindImported, find, set(&id))
	if err := i.tx.SendBatch(i.ctx, batch).Close(); err != nil || id != uuid.Nil {
		return id, false, err
	}
	batch = &pgx.Batch{}
	queue(batch, queries.InsertImportedChat, dbsqlc.InsertImportedChatParams{
		ID: chat.ID, UserID: i.user, CreatedAt: chat.CreatedAt,
		Title: chat.Title, SystemPrompt: chat.SystemPrompt, Metadata: chat.Metadata, Tags: chat.Tags, ToolName: chat.ToolName,
		MemoryStrategy: chat.MemoryStrategy, TtlHours: chat.TTLHours, MaxTurns: chat.MaxTurns,
	}).Exec(affects(1, &created))
	queueMany(batch, queries.FindImported, find, set(&id))
	err = i.tx.SendBatch(i.ctx, batch).Close()
	if err == nil && id == uuid.Nil {
		// Another user's chat has the id that this one would get: it was made on purpose.
		err = fault.New(fault.ImportInvalid, "A chat of the file cannot be imported: its id is taken.")
	}
	return id, created, err
}

// Files inserts contents.
func (i *chatImport) Files(files []bundle.File, tokens []int) error {
	params := dbsqlc.InsertImportedFilesParams{ChatID: i.chat.ID, UserID: i.user, Tokens: tokens}
	for _, file := range files {
		params.Sha256s = append(params.Sha256s, file.SHA256)
		params.Contents = append(params.Contents, file.Content)
	}
	return dbsqlc.New(i.tx).InsertImportedFiles(i.ctx, params)
}

// Messages inserts messages in their order, and the paths of their files.
func (i *chatImport) Messages(messages []transfer.NewMessage) error {
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.InsertImportedMessages, append([]any{i.chat.ID, i.user}, columnsOf(messages)...)...)
	i.queueFiles(batch, messages)
	return i.tx.SendBatch(i.ctx, batch).Close()
}

// columnsOf returns an array for each column, in the order of the query's parameters: the arrays of
// dbsqlc.InsertImportedMessagesParams cannot hold nulls.
func columnsOf(messages []transfer.NewMessage) []any {
	places := make([]int, len(messages))
	for n := range places {
		places[n] = n
	}
	return []any{
		column(messages, func(m transfer.NewMessage) uuid.UUID { return m.ID }),
		places,
		column(messages, func(m transfer.NewMessage) string { return m.Role }),
		column(messages, func(m transfer.NewMessage) string { return m.Content }),
		column(messages, func(m transfer.NewMessage) string { return m.Status }),
		column(messages, func(m transfer.NewMessage) uuid.NullUUID { return nullID(m.ReplyTo) }),
		column(messages, func(m transfer.NewMessage) uuid.NullUUID { return nullID(m.SupersededBy) }),
		column(messages, func(m transfer.NewMessage) int { return m.Tokens }),
		column(messages, func(m transfer.NewMessage) bool { return m.Pinned }),
		column(messages, func(m transfer.NewMessage) *float32 { return m.Importance }),
		column(messages, func(m transfer.NewMessage) *string { return jsonText(m.ToolCalls) }),
		column(messages, func(m transfer.NewMessage) *string { return m.ToolCallID }),
		column(messages, func(m transfer.NewMessage) *string { return m.Name }),
		column(messages, func(m transfer.NewMessage) *string { return m.ToolName }),
		column(messages, func(m transfer.NewMessage) *string { return jsonText(m.Metadata) }),
		column(messages, func(m transfer.NewMessage) time.Time { return m.CreatedAt }),
		column(messages, func(m transfer.NewMessage) time.Time { return m.UpdatedAt }),
	}
}

func column[T any](messages []transfer.NewMessage, of func(transfer.NewMessage) T) []T {
	values := make([]T, len(messages))
	for n, message := range messages {
		values[n] = of(message)
	}
	return values
}

func jsonText(raw []byte) *string {
	if raw == nil {
		return nil
	}
	return new(string(raw))
}

func (i *chatImport) queueFiles(batch *pgx.Batch, messages []transfer.NewMessage) {
	params := dbsqlc.InsertImportedMessageFilesParams{ChatID: i.chat.ID, UserID: i.user}
	for _, message := range messages {
		for n, file := range message.Files {
			params.MessageIds = append(params.MessageIds, message.ID)
			params.Places = append(params.Places, n+1)
			params.Paths = append(params.Paths, file.Path)
			params.Sha256s = append(params.Sha256s, file.SHA256)
		}
	}
	if len(params.MessageIds) > 0 {
		queueExec(batch, queries.InsertImportedMessageFiles, params)
	}
}
