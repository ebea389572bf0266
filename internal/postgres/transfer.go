package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/postgres/query"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
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
	memories UserMemoriesOptions
}

// pages sends batches that read pages of an export, with the user's rights.
type pages func(ctx context.Context, fill func(*pgx.Batch)) error

var _ transfer.Store = (*Transfer)(nil)

// NewTransfer returns the store. enqueue is called in the transaction that imports a chat, if it is due. Where memories are
// off, those of a file are left out.
func NewTransfer(pool *pgxpool.Pool, limits memory.Limits, enqueue Enqueue, memories UserMemoriesOptions) *Transfer {
	return &Transfer{foldingStore{pool: pool, limits: limits, enqueue: enqueue}, memories}
}

func exportOf(pool *pgxpool.Pool, user auth.Principal) pages {
	return func(ctx context.Context, fill func(*pgx.Batch)) error { return sendAs(ctx, pool, user, "export", fill) }
}

// about returns an error as well if the chat was deleted meanwhile, or edited since it had so many edits.
func (p pages) about(chatID uuid.UUID, edits *int64) pages {
	return func(ctx context.Context, fill func(*pgx.Batch)) error {
		var now *int64
		err := p(ctx, func(batch *pgx.Batch) {
			fill(batch)
			dbsqlc.ExportedEdits.Read(batch, chatID, func(found int64) { now = &found })
		})
		switch {
		case err != nil:
			return err
		case now == nil:
			return fault.NoChat()
		case *now != *edits:
			return changedMeanwhile()
		}
		return nil
	}
}

// changedMeanwhile is the end of an export whose parts do not belong together, or that holds a forgotten text.
func changedMeanwhile() error {
	return &fault.Error{Code: fault.NotReady, Message: "Something was changed or deleted during the export. Ask again.", RetryAfter: time.Second}
}

// eachRow passes on the rows of one page after the other, up to an empty one. take sets params to what comes after its row.
func eachRow[Params, Row any](ctx context.Context, read pages, run *query.Query[Params, Row], params *Params, take func(Row) error) error {
	for {
		var page []Row
		err := read(ctx, func(batch *pgx.Batch) { run.Read(batch, *params, all(&page)) })
		if err != nil || len(page) == 0 {
			return err
		}
		for _, row := range page {
			if err := take(row); err != nil {
				return err
			}
		}
	}
}

// chatParts reads what belongs to a chat, up to the message last.
type chatParts struct {
	read   pages
	chatID uuid.UUID
	last   int64
}

// ExportChat reads the chat itself.
func (t *Transfer) ExportChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (bundle.Chat, transfer.Parts, error) {
	var found dbsqlc.ExportChatRow
	read := exportOf(t.pool, user).about(chatID, &found.Edits)
	err := read(ctx, func(batch *pgx.Batch) { dbsqlc.ExportChat.Read(batch, chatID, set(&found)) })
	if err == nil && found.Expired {
		err = fault.Expired(chatID, *found.ExpiresAt)
	}
	return found.Chat, chatParts{read, chatID, found.LastSeq}, err
}

func (c chatParts) Messages(ctx context.Context, take func(bundle.Record) error) error {
	params := dbsqlc.ExportMessagesParams{ChatID: c.chatID, LastSeq: c.last, MaxRows: exportRows, MaxBytes: exportBytes}
	return eachRow(ctx, c.read, dbsqlc.ExportMessages, &params, func(message bundle.Message) error {
		params.AfterSeq = message.Seq
		return take(bundle.Record{Message: &message})
	})
}

func (c chatParts) Files(ctx context.Context, take func(bundle.Record) error) error {
	params := dbsqlc.ExportFilesParams{ChatID: c.chatID, AfterSha256: []byte{}, LastSeq: c.last, MaxRows: exportFiles}
	return eachRow(ctx, c.read, dbsqlc.ExportFiles, &params, func(file bundle.File) (err error) {
		if params.AfterSha256, err = hex.DecodeString(file.SHA256); err != nil {
			return err
		}
		return take(bundle.Record{File: &file})
	})
}

func (c chatParts) File(ctx context.Context, sha256 string) (file bundle.File, err error) {
	hash, err := hex.DecodeString(sha256)
	if err != nil {
		return file, failed("export", err)
	}
	params := dbsqlc.ExportFileParams{ChatID: c.chatID, Sha256: hash}
	err = c.read(ctx, func(batch *pgx.Batch) { dbsqlc.ExportFile.Read(batch, params, set(&file)) })
	if err == nil && file.SHA256 == "" {
		err = changedMeanwhile()
	}
	return file, err
}

func (c chatParts) Memories(ctx context.Context, take func(bundle.Record) error) error {
	params := dbsqlc.ExportMemoriesParams{ChatID: nullID(c.chatID), LastSeq: c.last}
	return exportMemories(ctx, c.read, params, func(memory bundle.Memory) error { return take(bundle.Record{Memory: &memory}) })
}

func exportMemories(ctx context.Context, read pages, params dbsqlc.ExportMemoriesParams, take func(bundle.Memory) error) error {
	params.Most = exportedMemories
	return eachRow(ctx, read, dbsqlc.ExportMemories, &params, func(memory bundle.Memory) (err error) {
		params.AfterCreatedAt = &memory.CreatedAt
		if params.AfterID, err = uuid.Parse(memory.ID); err != nil {
			return err
		}
		return take(memory)
	})
}

func (c chatParts) Topics(ctx context.Context, take func(bundle.Record) error) error {
	params := dbsqlc.ExportTopicsParams{ChatID: c.chatID, LastSeq: c.last, MaxRows: exportTopics}
	return eachRow(ctx, c.read, dbsqlc.ExportTopics, &params, func(topic dbsqlc.ExportTopicsRow) error {
		params.AfterNumber = topic.Number
		return take(bundle.Record{Topic: &topic.Topic})
	})
}

func (c chatParts) Revisions(ctx context.Context, take func(bundle.Record) error) error {
	params := dbsqlc.ExportRevisionsParams{ChatID: c.chatID, MaxRows: exportRows}
	return eachRow(ctx, c.read, dbsqlc.ExportRevisions, &params, func(revision bundle.Revision) error {
		params.AfterVersion = revision.Version
		return take(bundle.Record{Revision: &revision})
	})
}

// accountSnapshot is a transaction that sees everything of a user as it was when it began.
type accountSnapshot struct {
	read pages
	// The rows read, which must still be there at the end.
	stands dbsqlc.ExportStillStandsParams
}

// Snapshot reads in one transaction, as the user, which writes nothing.
func (t *Transfer) Snapshot(ctx context.Context, user auth.Principal, read func(transfer.Snapshot) error) error {
	s := &accountSnapshot{stands: dbsqlc.ExportStillStandsParams{ChatIds: []uuid.UUID{}, Edits: []int64{}, MemoryIds: []uuid.UUID{}}}
	err := pgx.BeginTxFunc(ctx, t.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		s.read = func(ctx context.Context, fill func(*pgx.Batch)) error {
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			batch := &pgx.Batch{}
			fill(batch)
			err := tx.SendBatch(ctx, batch).Close()
			if errors.Is(err, context.DeadlineExceeded) {
				return fault.Wrap(fault.NotReady, fmt.Sprintf("Postgres took longer than %s for a page of the export.", answerTimeout), err)
			}
			return explained(err)
		}
		err := s.read(ctx, func(batch *pgx.Batch) {
			queueActAs(batch, user)
			dbsqlc.ExportStands.Read(batch, struct{}{}, func(row dbsqlc.ExportStandsRow) {
				s.stands.ChatIds, s.stands.Edits = append(s.stands.ChatIds, row.ID), append(s.stands.Edits, row.Edits)
			})
		})
		if err != nil {
			return err
		}
		if err := read(s); err != nil {
			return err
		}
		return t.stillStands(ctx, user, s.stands)
	})
	return failed("export account", err)
}

// stillStands returns an error when a row that was read has been deleted or edited since. It looks with another
// connection, because the snapshot does not see that. A forgotten text is in no file that ends well.
func (t *Transfer) stillStands(ctx context.Context, user auth.Principal, stands dbsqlc.ExportStillStandsParams) error {
	stand := false
	err := sendAs(ctx, t.pool, user, "export account", func(batch *pgx.Batch) {
		dbsqlc.ExportStillStands.Read(batch, stands, set(&stand))
	})
	if err == nil && !stand {
		err = changedMeanwhile()
	}
	return err
}

func (s *accountSnapshot) Account(ctx context.Context) (account bundle.Account, err error) {
	err = s.read(ctx, func(batch *pgx.Batch) { dbsqlc.ExportAccount.Read(batch, struct{}{}, set(&account)) })
	return account, err
}

func (s *accountSnapshot) Chats(ctx context.Context, take func(bundle.Chat, transfer.Parts) error) error {
	params := dbsqlc.ExportChatsParams{MaxRows: exportChats}
	return eachRow(ctx, s.read, dbsqlc.ExportChats, &params, func(chat dbsqlc.ExportChatsRow) (err error) {
		params.AfterCreatedAt = &chat.CreatedAt
		if params.AfterID, err = uuid.Parse(chat.ID); err != nil {
			return err
		}
		return take(chat.Chat, chatParts{s.read, params.AfterID, chat.LastSeq})
	})
}

func (s *accountSnapshot) Memories(ctx context.Context, take func(bundle.Record) error) error {
	return exportMemories(ctx, s.read, dbsqlc.ExportMemoriesParams{OfAccount: true}, func(memory bundle.Memory) error {
		s.stands.MemoryIds = append(s.stands.MemoryIds, uuid.MustParse(memory.ID)) // exportMemories could parse it
		return take(bundle.Record{Memory: &memory})
	})
}

func (s *accountSnapshot) Entities(ctx context.Context, take func(bundle.Record) error) error {
	params := dbsqlc.ExportEntitiesParams{MaxRows: exportRows}
	return eachRow(ctx, s.read, dbsqlc.ExportEntities, &params, func(entity bundle.Entity) (err error) {
		if params.AfterID, err = uuid.Parse(entity.ID); err != nil {
			return err
		}
		return take(bundle.Record{Entity: &entity})
	})
}

func (s *accountSnapshot) Relationships(ctx context.Context, take func(bundle.Record) error) error {
	params := dbsqlc.ExportRelationshipsParams{MaxRows: exportRows}
	return eachRow(ctx, s.read, dbsqlc.ExportRelationships, &params, func(one bundle.Relationship) (err error) {
		if params.AfterID, err = uuid.Parse(one.ID); err != nil {
			return err
		}
		return take(bundle.Record{Relationship: &one})
	})
}

// ImportSettings takes over what the user has not chosen yet.
func (t *Transfer) ImportSettings(ctx context.Context, user auth.Principal, settings bundle.AccountSettings) error {
	return sendAs(ctx, t.pool, user, "import settings", func(batch *pgx.Batch) {
		dbsqlc.ImportSettings.Queue(batch, dbsqlc.ImportSettingsParams{
			Enabled: settings.Enabled, TimeZone: settings.TimeZone, Language: settings.Language, Excluded: settings.Excluded,
		})
	})
}

// ImportAccountMemories writes memories with all their fields, and where they were said.
func (t *Transfer) ImportAccountMemories(ctx context.Context, user auth.Principal, imported []transfer.NewMemory) (written, full int, err error) {
	if t.memories.Off {
		return 0, 0, nil
	}
	done, err := (&UserMemories{Pool: t.pool, Options: t.memories}).importAll(ctx, user, imported, "")
	return done.Imported, done.Full, err
}
