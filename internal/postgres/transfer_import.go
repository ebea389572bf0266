package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// importTimeout bounds the transaction of one imported chat.
const importTimeout = 10 * time.Minute

// Import writes a chat in one transaction, in chunks: row level security knows no COPY. It tries once, because
// write reads from a file and cannot begin again.
func (t *Transfer) Import(ctx context.Context, user auth.Principal, chat transfer.NewChat, write func(transfer.Rows) error) (uuid.UUID, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	id, imported := uuid.Nil, false
	err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		i := &importing{ctx: ctx, tx: tx, user: user.UserID, chat: chat}
		var err error
		if id, imported, err = i.begin(user.Claims); err != nil || !imported {
			return err
		}
		if err := write(i); err != nil {
			return err
		}
		due, err := i.finish(t.limits)
		if err != nil || !due {
			return err
		}
		return t.enqueueFold(ctx, tx, id)
	})
	if err != nil {
		return uuid.Nil, false, fmt.Errorf("import: %w", orNotReady(err))
	}
	return id, imported, nil
}

// importing is one chat on its way in.
type importing struct {
	ctx  context.Context //nolint:containedctx // it lives as long as the transaction, which has the same
	tx   pgx.Tx
	user uuid.UUID
	chat transfer.NewChat
}

// begin makes the chat, or finds that the user has it.
func (i *importing) begin(claims string) (id uuid.UUID, made bool, err error) {
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.ActAsUser, claims)
	batch.Queue(dbsqlc.BeginQuietly)
	batch.Queue(dbsqlc.FindImported, i.chat.ID, i.chat.Original).Query(scalars(&id))
	if err := i.tx.SendBatch(i.ctx, batch).Close(); err != nil || id != uuid.Nil {
		return id, false, err
	}
	batch = &pgx.Batch{}
	batch.Queue(dbsqlc.InsertImportedChat, i.chat.ID, i.user, i.chat.Title, i.chat.SystemPrompt, i.chat.Metadata, i.chat.Tags, i.chat.MemoryStrategy,
		i.chat.TTLHours, i.chat.MaxTurns, i.chat.ToolName, i.chat.CreatedAt).Exec(func(tag pgconn.CommandTag) error {
		made = tag.RowsAffected() == 1
		return nil
	})
	batch.Queue(dbsqlc.FindImported, i.chat.ID, i.chat.Original).Query(scalars(&id))
	err = i.tx.SendBatch(i.ctx, batch).Close()
	if err == nil && id == uuid.Nil {
		// Somebody else's chat has the id that this one would get: it was made on purpose.
		err = fault.New(fault.ImportInvalid, "A chat of the file cannot be imported: its id is taken.")
	}
	return id, made, err
}

// scalars reads the only value of a query, if there is one.
func scalars[T any](into *T) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{into}, func() error { return nil })
		return err
	}
}

// Files inserts contents.
func (i *importing) Files(files []bundle.File, tokens []int) error {
	hashes, contents := make([]string, len(files)), make([]string, len(files))
	for n, file := range files {
		hashes[n], contents[n] = file.SHA256, file.Content
	}
	_, err := i.tx.Exec(i.ctx, dbsqlc.InsertImportedFiles, i.chat.ID, i.user, hashes, contents, tokens)
	return err
}

// Messages inserts messages in their order, and what files they bring.
func (i *importing) Messages(messages []transfer.NewMessage) error {
	batch := &pgx.Batch{}
	columns := columnsOf(messages)
	batch.Queue(dbsqlc.InsertImportedMessages, append([]any{i.chat.ID, i.user}, columns...)...)
	i.queueFiles(batch, messages)
	return i.tx.SendBatch(i.ctx, batch).Close()
}

// columnsOf makes an array of each column, in the order of the query's parameters.
func columnsOf(messages []transfer.NewMessage) []any {
	return []any{
		column(messages, func(m transfer.NewMessage, _ int) uuid.UUID { return m.ID }),
		column(messages, func(_ transfer.NewMessage, n int) int { return n }),
		column(messages, func(m transfer.NewMessage, _ int) string { return m.Role }),
		column(messages, func(m transfer.NewMessage, _ int) string { return m.Content }),
		column(messages, func(m transfer.NewMessage, _ int) string { return m.Status }),
		column(messages, func(m transfer.NewMessage, _ int) uuid.NullUUID { return nullable(m.ReplyTo) }),
		column(messages, func(m transfer.NewMessage, _ int) uuid.NullUUID { return nullable(m.SupersededBy) }),
		column(messages, func(m transfer.NewMessage, _ int) int { return m.Tokens }),
		column(messages, func(m transfer.NewMessage, _ int) bool { return m.Pinned }),
		column(messages, func(m transfer.NewMessage, _ int) *float32 { return m.Importance }),
		column(messages, func(m transfer.NewMessage, _ int) *string { return jsonText(m.ToolCalls) }),
		column(messages, func(m transfer.NewMessage, _ int) *string { return m.ToolCallID }),
		column(messages, func(m transfer.NewMessage, _ int) *string { return m.Name }),
		column(messages, func(m transfer.NewMessage, _ int) *string { return m.ToolName }),
		column(messages, func(m transfer.NewMessage, _ int) *string { return jsonText(m.Metadata) }),
		column(messages, func(m transfer.NewMessage, _ int) time.Time { return m.CreatedAt }),
		column(messages, func(m transfer.NewMessage, _ int) time.Time { return m.UpdatedAt }),
	}
}

func column[T any](messages []transfer.NewMessage, of func(m transfer.NewMessage, place int) T) []T {
	values := make([]T, len(messages))
	for n, message := range messages {
		values[n] = of(message, n)
	}
	return values
}

func jsonText(raw []byte) *string {
	if raw == nil {
		return nil
	}
	text := string(raw)
	return &text
}

func (i *importing) queueFiles(batch *pgx.Batch, messages []transfer.NewMessage) {
	var ids []uuid.UUID
	var places []int
	var paths, hashes []string
	for _, message := range messages {
		for n, file := range message.Files {
			ids, places = append(ids, message.ID), append(places, n+1)
			paths, hashes = append(paths, file.Path), append(hashes, file.SHA256)
		}
	}
	if len(ids) > 0 {
		batch.Queue(dbsqlc.InsertImportedMessageFiles, i.chat.ID, i.user, ids, places, paths, hashes)
	}
}

// finish tells whether the chat should be folded, and goes back to the role that may insert jobs.
func (i *importing) finish(limits memory.Limits) (due bool, err error) {
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.ReadCounters, i.chat.ID).Query(each(func(row dbsqlc.ReadCountersRow) {
		due = memory.Due(row.BriefTokens, row.PendingTokens, row.PendingTurns, limits.For(settings(row.MemoryStrategy, row.MaxTurns)))
	}))
	batch.Queue(dbsqlc.ActAsServer)
	return due, i.tx.SendBatch(i.ctx, batch).Close()
}
