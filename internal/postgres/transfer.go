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
	"github.com/arcoscribe/throughline/internal/postgres/query"
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

// ExportChat reads the chat itself.
func (t *Transfer) ExportChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (bundle.Chat, int64, error) {
	page, err := exportPage(ctx, t.pages, user, chatID, dbsqlc.ExportChat, chatID)
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
	return exportPage(ctx, p, user, chatID, dbsqlc.ExportMessages, dbsqlc.ExportMessagesParams{
		ChatID: chatID, AfterSeq: after, LastSeq: last, MaxRows: exportRows, MaxBytes: exportBytes,
	})
}

// ExportFiles reads a page of contents.
func (p pages) ExportFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, after string, last int64) ([]bundle.File, error) {
	from, err := hex.DecodeString(after)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return exportPage(ctx, p, user, chatID, dbsqlc.ExportFiles, dbsqlc.ExportFilesParams{
		ChatID: chatID, AfterSha256: from, LastSeq: last, MaxRows: exportFiles,
	})
}

// ExportFile reads one content.
func (p pages) ExportFile(ctx context.Context, user auth.Principal, chatID uuid.UUID, sha256 string) (bundle.File, error) {
	hash, err := hex.DecodeString(sha256)
	if err != nil {
		return bundle.File{}, fmt.Errorf("export: %w", err)
	}
	page, err := exportPage(ctx, p, user, chatID, dbsqlc.ExportFile, dbsqlc.ExportFileParams{ChatID: chatID, Sha256: hash})
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
	return exportPage(ctx, p, user, chatID, dbsqlc.ExportMemories, params)
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
	return exportPage(ctx, p, user, chatID, dbsqlc.ExportTopics, dbsqlc.ExportTopicsParams{
		ChatID: chatID, AfterNumber: after, LastSeq: last, MaxRows: exportTopics,
	})
}

// ExportRevisions reads a page of the brief's changes.
func (p pages) ExportRevisions(ctx context.Context, user auth.Principal, chatID uuid.UUID, after int64) ([]bundle.Revision, error) {
	return exportPage(ctx, p, user, chatID, dbsqlc.ExportRevisions, dbsqlc.ExportRevisionsParams{
		ChatID: chatID, AfterVersion: after, MaxRows: exportRows,
	})
}

// exportPage runs one query with the user's rights: one round trip, one short transaction. It returns an error if
// the chat was deleted meanwhile.
func exportPage[Row, Params any](
	ctx context.Context, p pages, user auth.Principal, chatID uuid.UUID,
	run *query.Query[Params, Row], params Params,
) ([]Row, error) {
	var exists bool
	var page []Row
	err := p.read(ctx, user, func(batch *pgx.Batch) {
		run.Read(batch, params, all(&page))
		dbsqlc.ChatExists.Read(batch, chatID, set(&exists))
	})
	if err == nil && !exists {
		err = fault.NoChat()
	}
	return page, err
}

// accountSnapshot is a transaction that sees everything of a user as it was when it began.
type accountSnapshot struct {
	pages
	user auth.Principal
	// What was there, and must still be there at the end.
	stands dbsqlc.ExportStillStandsParams
}

var _ transfer.Snapshot = (*accountSnapshot)(nil)

// Snapshot reads in one transaction, as the user, which writes nothing.
func (t *Transfer) Snapshot(ctx context.Context, user auth.Principal, read func(transfer.Snapshot) error) error {
	s := &accountSnapshot{user: user, stands: dbsqlc.ExportStillStandsParams{ChatIds: []uuid.UUID{}, Edits: []int64{}, MemoryIds: []uuid.UUID{}}}
	err := pgx.BeginTxFunc(ctx, t.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		s.pages = pages{func(ctx context.Context, _ auth.Principal, fill func(*pgx.Batch)) error {
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			batch := &pgx.Batch{}
			fill(batch)
			return tx.SendBatch(ctx, batch).Close()
		}}
		if err := s.begin(ctx); err != nil {
			return err
		}
		if err := read(s); err != nil {
			return err
		}
		return t.stillStands(ctx, user, s.stands)
	})
	return failed("export account", err)
}

func (s *accountSnapshot) begin(ctx context.Context) error {
	return s.read(ctx, s.user, func(batch *pgx.Batch) {
		dbsqlc.ActAsUser.Queue(batch, s.user.Claims)
		dbsqlc.ExportStands.Read(batch, struct{}{}, func(row dbsqlc.ExportStandsRow) {
			s.stands.ChatIds, s.stands.Edits = append(s.stands.ChatIds, row.ID), append(s.stands.Edits, row.Edits)
		})
	})
}

// stillStands returns an error when something of what was read has been deleted or edited since. It looks with another
// connection, because the snapshot does not see that. What was forgotten is in no file that ends well.
func (t *Transfer) stillStands(ctx context.Context, user auth.Principal, stands dbsqlc.ExportStillStandsParams) error {
	stand := false
	err := sendAs(ctx, t.pool, user, "export account", func(batch *pgx.Batch) {
		dbsqlc.ExportStillStands.Read(batch, stands, set(&stand))
	})
	if err == nil && !stand {
		err = &fault.Error{Code: fault.NotReady, Message: "Something was changed or deleted during the export. Ask again.", RetryAfter: time.Second}
	}
	return err
}

// Account reads who the user is.
func (s *accountSnapshot) Account(ctx context.Context) (account bundle.Account, err error) {
	err = s.read(ctx, s.user, func(batch *pgx.Batch) { dbsqlc.ExportAccount.Read(batch, struct{}{}, set(&account)) })
	return account, err
}

// Chats reads a page of chats.
func (s *accountSnapshot) Chats(ctx context.Context, after *bundle.Chat) ([]transfer.AccountChat, error) {
	params := dbsqlc.ExportChatsParams{MaxRows: exportChats}
	if after != nil {
		id, err := uuid.Parse(after.ID)
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		params.AfterCreatedAt, params.AfterID = &after.CreatedAt, id
	}
	return accountPage(ctx, s, dbsqlc.ExportChats, params)
}

// Memories reads a page of memories with their history.
func (s *accountSnapshot) Memories(ctx context.Context, after *bundle.Memory) ([]bundle.Memory, error) {
	params, err := memoriesAfter(after)
	if err != nil {
		return nil, err
	}
	page, err := accountPage(ctx, s, dbsqlc.ExportMemories, params)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	places, ids := map[uuid.UUID]*bundle.Memory{}, []uuid.UUID{}
	for i := range page {
		id, err := uuid.Parse(page[i].ID)
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		places[id], ids = &page[i], append(ids, id)
	}
	s.stands.MemoryIds = append(s.stands.MemoryIds, ids...)
	err = s.read(ctx, s.user, func(batch *pgx.Batch) {
		dbsqlc.ExportUses.Read(batch, ids, func(row transfer.MemoryUse) {
			memory := places[row.ID]
			memory.LastAccessed, memory.AccessCount, memory.History = row.LastAccessed, row.AccessCount, row.History
		})
	})
	return page, err
}

// Entities reads a page of what the memories are about.
func (s *accountSnapshot) Entities(ctx context.Context, after string) ([]bundle.Entity, error) {
	id, _ := uuid.Parse(after) // the nil uuid for the first page
	return accountPage(ctx, s, dbsqlc.ExportEntities, dbsqlc.ExportEntitiesParams{AfterID: id, MaxRows: exportRows})
}

// Relationships reads a page of how that belongs together.
func (s *accountSnapshot) Relationships(ctx context.Context, after string) ([]bundle.Relationship, error) {
	id, _ := uuid.Parse(after) // the nil uuid for the first page
	return accountPage(ctx, s, dbsqlc.ExportRelationships, dbsqlc.ExportRelationshipsParams{AfterID: id, MaxRows: exportRows})
}

func accountPage[Row, Params any](ctx context.Context, s *accountSnapshot, run *query.Query[Params, Row], params Params) (page []Row, err error) {
	err = s.read(ctx, s.user, func(batch *pgx.Batch) { run.Read(batch, params, all(&page)) })
	return page, err
}

// ImportSettings takes over what the user has not chosen yet.
func (t *Transfer) ImportSettings(ctx context.Context, user auth.Principal, settings bundle.AccountSettings) error {
	err := sendAs(ctx, t.pool, user, "import settings", func(batch *pgx.Batch) {
		dbsqlc.ImportSettings.Queue(batch, dbsqlc.ImportSettingsParams{
			Enabled: settings.Enabled, TimeZone: settings.TimeZone, Language: settings.Language, Excluded: settings.Excluded,
		})
	})
	return explained(err)
}

// ImportAccountMemories writes memories with what is known of them, and where they were said.
func (t *Transfer) ImportAccountMemories(ctx context.Context, user auth.Principal, imported []transfer.NewMemory) (int, error) {
	if t.memories.Off || len(imported) == 0 {
		return 0, nil
	}
	written := 0
	err := NewUserMemories(t.pool, t.memories).change(ctx, user, "import memories", func(c *memoryChange) error {
		records, ids := make([]bundle.Memory, len(imported)), make([]uuid.UUID, len(imported))
		for n, memory := range imported {
			records[n], ids[n] = memory.Memory, memory.ID
		}
		fresh, places, err := c.fresh(records, ids)
		if err != nil {
			return err
		}
		written = len(fresh)
		c.embed = written > 0
		if err := c.insertAsTheyWere(fresh); err != nil {
			return err
		}
		return c.sources(imported, places)
	})
	return written, err
}
