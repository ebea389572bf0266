package postgres

import (
	"context"
	"encoding/hex"
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
	"github.com/jackc/pgx/v5/pgxpool"
)

// What one page of an export holds at most: rows, and of messages bytes of content, which the last row may exceed.
const (
	exportRows  = 500
	exportBytes = 4 << 20
	exportFiles = 16 // of 256 KiB each at most
)

// Transfer is the store of exports and imports.
type Transfer struct {
	pool        *pgxpool.Pool
	enqueueFold func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error
	limits      memory.Limits
}

var _ transfer.Store = (*Transfer)(nil)

// NewTransfer makes the store. enqueueFold is called in the transaction that imports a chat which is due.
func NewTransfer(pool *pgxpool.Pool, limits memory.Limits, enqueueFold func(context.Context, pgx.Tx, uuid.UUID) error) *Transfer {
	return &Transfer{pool: pool, limits: limits, enqueueFold: enqueueFold}
}

// exportedChat is a row of ExportChat.
type exportedChat struct {
	bundle.Chat
	LastSeq   int64
	ExpiresAt *time.Time
	Expired   bool
}

// ExportChat reads the chat itself.
func (t *Transfer) ExportChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (bundle.Chat, int64, error) {
	page, err := exportPage[exportedChat](ctx, t.pool, user, chatID, dbsqlc.ExportChat, chatID)
	switch {
	case err != nil:
		return bundle.Chat{}, 0, err
	case len(page) == 0:
		return bundle.Chat{}, 0, fault.NoChat()
	case page[0].Expired:
		return bundle.Chat{}, 0, fault.Expired(chatID, *page[0].ExpiresAt)
	}
	chat := page[0].Chat
	chat.CreatedAt, chat.UpdatedAt, chat.LastMessageAt = chat.CreatedAt.UTC(), chat.UpdatedAt.UTC(), utc(chat.LastMessageAt)
	return chat, page[0].LastSeq, nil
}

// ExportMessages reads a page of messages.
func (t *Transfer) ExportMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, after, last int64) ([]bundle.Message, error) {
	page, err := exportPage[bundle.Message](ctx, t.pool, user, chatID, dbsqlc.ExportMessages, chatID, after, last, exportRows, exportBytes)
	for i := range page {
		page[i].CreatedAt, page[i].UpdatedAt = page[i].CreatedAt.UTC(), page[i].UpdatedAt.UTC()
	}
	return page, err
}

// ExportFiles reads a page of contents.
func (t *Transfer) ExportFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, after string, last int64) ([]bundle.File, error) {
	from, err := hex.DecodeString(after)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	page, err := exportPage[dbsqlc.ExportFilesRow](ctx, t.pool, user, chatID, dbsqlc.ExportFiles, chatID, from, last, exportFiles)
	files := make([]bundle.File, len(page))
	for i, row := range page {
		files[i] = bundle.File{SHA256: hex.EncodeToString(row.Sha256), Content: row.Content}
	}
	return files, err
}

// ExportFile reads one content.
func (t *Transfer) ExportFile(ctx context.Context, user auth.Principal, chatID uuid.UUID, sha256 string) (bundle.File, error) {
	hash, err := hex.DecodeString(sha256)
	if err != nil {
		return bundle.File{}, fmt.Errorf("export: %w", err)
	}
	page, err := exportPage[struct{ Content string }](ctx, t.pool, user, chatID, dbsqlc.ExportFile, chatID, hash)
	if err != nil {
		return bundle.File{}, err
	}
	if len(page) == 0 {
		return bundle.File{}, fmt.Errorf("export: file %s of chat %s was deleted meanwhile", sha256, chatID)
	}
	return bundle.File{SHA256: sha256, Content: page[0].Content}, nil
}

// ExportRevisions reads a page of the brief's changes.
func (t *Transfer) ExportRevisions(ctx context.Context, user auth.Principal, chatID uuid.UUID, after int64) ([]bundle.Revision, error) {
	page, err := exportPage[bundle.Revision](ctx, t.pool, user, chatID, dbsqlc.ExportRevisions, chatID, after, exportRows)
	for i := range page {
		page[i].CreatedAt = page[i].CreatedAt.UTC()
	}
	return page, err
}

// exportPage runs one query with the user's rights: one round trip, one short transaction.
func exportPage[Row any](ctx context.Context, pool *pgxpool.Pool, user auth.Principal, chatID uuid.UUID, query string, args ...any) ([]Row, error) {
	var exists bool
	var page []Row
	err := send(ctx, pool, func() *pgx.Batch {
		batch := &pgx.Batch{}
		batch.Queue(dbsqlc.ActAsUser, user.Claims)
		batch.Queue(query, args...).Query(all(&page))
		batch.Queue(dbsqlc.ExportedChatExists, chatID).QueryRow(func(found pgx.Row) error { return found.Scan(&exists) })
		return batch
	})
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if !exists {
		return nil, fault.NoChat()
	}
	return page, nil
}
