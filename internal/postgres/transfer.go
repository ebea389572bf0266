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

// The most that one page of an export holds: rows, and bytes of message content, which the last row may exceed.
const (
	exportRows   = 500
	exportBytes  = 4 << 20
	exportFiles  = 16 // of 256 KiB each at most
	exportTopics = 50
	exportChats  = 50
)

// Transfer is the store of exports and imports.
type Transfer struct {
	foldingStore
	pages
	memories UserMemoriesOptions
}

// pages reads pages of an export. read sends a batch with the user's rights.
type pages struct {
	read func(ctx context.Context, user auth.Principal, fill func(*pgx.Batch)) error
}

var _ transfer.Store = (*Transfer)(nil)

// NewTransfer returns the store. enqueue is called in the transaction that imports a chat, if it is due. Where memories are
// off, those of a file are left out.
func NewTransfer(pool *pgxpool.Pool, limits memory.Limits, enqueue Enqueue, memories UserMemoriesOptions) *Transfer {
	return &Transfer{
		foldingStore{pool: pool, limits: limits, enqueue: enqueue},
		pages{func(ctx context.Context, user auth.Principal, fill func(*pgx.Batch)) error {
			return sendAs(ctx, pool, user, "export", fill)
		}},
		memories,
	}
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
	page, err := exportPage[exportedChat](ctx, t.pages, user, chatID, queries.ExportChat, chatID)
	switch {
	case err != nil:
		return bundle.Chat{}, 0, err
	case len(page) == 0:
		return bundle.Chat{}, 0, fault.NoChat()
	case page[0].Expired:
		return bundle.Chat{}, 0, fault.Expired(chatID, *page[0].ExpiresAt)
	}
	return page[0].Chat, page[0].LastSeq, nil
}

// ExportMessages reads a page of messages.
func (p pages) ExportMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, after, last int64) ([]bundle.Message, error) {
	return exportPage[bundle.Message](ctx, p, user, chatID, queries.ExportMessages, dbsqlc.ExportMessagesParams{
		ChatID: chatID, AfterSeq: after, LastSeq: last, MaxRows: exportRows, MaxBytes: exportBytes,
	})
}

// ExportFiles reads a page of contents.
func (p pages) ExportFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, after string, last int64) ([]bundle.File, error) {
	from, err := hex.DecodeString(after)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return exportPage[bundle.File](ctx, p, user, chatID, queries.ExportFiles, dbsqlc.ExportFilesParams{
		ChatID: chatID, AfterSha256: from, LastSeq: last, MaxRows: exportFiles,
	})
}

// ExportFile reads one content.
func (p pages) ExportFile(ctx context.Context, user auth.Principal, chatID uuid.UUID, sha256 string) (bundle.File, error) {
	hash, err := hex.DecodeString(sha256)
	if err != nil {
		return bundle.File{}, fmt.Errorf("export: %w", err)
	}
	page, err := exportPage[bundle.File](ctx, p, user, chatID, queries.ExportFile, dbsqlc.ExportFileParams{ChatID: chatID, Sha256: hash})
	switch {
	case err != nil:
		return bundle.File{}, err
	case len(page) == 0:
		return bundle.File{}, fmt.Errorf("export: file %s of chat %s was deleted meanwhile", sha256, chatID)
	}
	return page[0], nil
}

// ExportMemories reads a page of what is remembered of the chat.
func (p pages) ExportMemories(ctx context.Context, user auth.Principal, chatID uuid.UUID, after *bundle.Memory, last int64) ([]bundle.Memory, error) {
	params, err := memoriesAfter(after)
	if err != nil {
		return nil, err
	}
	params.ChatID, params.LastSeq = nullID(chatID), last
	return exportPage[bundle.Memory](ctx, p, user, chatID, queries.ExportMemories, params)
}

// memoriesAfter asks for the page after a memory, nil for the first.
func memoriesAfter(after *bundle.Memory) (params dbsqlc.ExportMemoriesParams, err error) {
	params.Most = exportedMemories
	if after != nil {
		params.AfterCreatedAt = &after.CreatedAt
		params.AfterID, err = uuid.Parse(after.ID)
	}
	return params, failed("export", err)
}

// ExportTopics reads a page of what the chat is about.
func (p pages) ExportTopics(ctx context.Context, user auth.Principal, chatID uuid.UUID, after int, last int64) ([]transfer.NumberedTopic, error) {
	return exportPage[transfer.NumberedTopic](ctx, p, user, chatID, queries.ExportTopics, dbsqlc.ExportTopicsParams{
		ChatID: chatID, AfterNumber: after, LastSeq: last, MaxRows: exportTopics,
	})
}

// ExportRevisions reads a page of the brief's changes.
func (p pages) ExportRevisions(ctx context.Context, user auth.Principal, chatID uuid.UUID, after int64) ([]bundle.Revision, error) {
	return exportPage[bundle.Revision](ctx, p, user, chatID, queries.ExportRevisions, dbsqlc.ExportRevisionsParams{
		ChatID: chatID, AfterVersion: after, MaxRows: exportRows,
	})
}

// exportPage runs one query with the user's rights: one round trip, one short transaction. It returns an error if
// the chat was deleted meanwhile.
func exportPage[Row, Params any](
	ctx context.Context, p pages, user auth.Principal, chatID uuid.UUID,
	run statement[Params], params Params,
) ([]Row, error) {
	var exists bool
	var page []Row
	err := p.read(ctx, user, func(batch *pgx.Batch) {
		queueExec(batch, run, params).Query(all(&page))
		queueOne(batch, queries.ChatExists, chatID, set(&exists))
	})
	if err == nil && !exists {
		err = fault.NoChat()
	}
	return page, err
}
