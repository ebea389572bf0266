package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/memories"
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
		i := &chatImport{ctx: ctx, tx: tx, user: user.UserID, chat: chat, claims: user.Claims, memories: t.memories}
		var err error
		if id, imported, err = i.begin(user.Claims); err != nil || !imported {
			return err
		}
		if err := write(i); err != nil {
			return err
		}
		if err := i.embed(); err != nil {
			return err
		}
		// Before the index, so that its job asks for vectors.
		if err := t.enqueueLast(ctx, tx, id); err != nil {
			return err
		}
		return i.index(id)
	})
	return id, imported && err == nil, failed("import", explained(err))
}

type chatImport struct {
	ctx  context.Context //nolint:containedctx // it lives as long as the transaction, which has the same
	tx   pgx.Tx
	user uuid.UUID
	chat transfer.NewChat

	claims   string
	memories UserMemoriesOptions
	// remembered is set when a memory was inserted.
	remembered bool
}

// begin creates the chat, or finds that the user has it.
func (i *chatImport) begin(claims string) (id uuid.UUID, created bool, err error) {
	chat := i.chat
	find := dbsqlc.FindImportedParams{ID: chat.ID, Original: chat.Original}
	batch := &pgx.Batch{}
	dbsqlc.ActAsUser.Queue(batch, claims)
	dbsqlc.BeginQuietly.Queue(batch, struct{}{})
	dbsqlc.FindImported.Read(batch, find, set(&id))
	if err := i.tx.SendBatch(i.ctx, batch).Close(); err != nil || id != uuid.Nil {
		return id, false, err
	}
	batch = &pgx.Batch{}
	dbsqlc.InsertChat.Queue(batch, dbsqlc.InsertChatParams{
		ID: chat.ID, UserID: i.user, CreatedAt: &chat.CreatedAt,
		Title: chat.Title, SystemPrompt: chat.SystemPrompt, Metadata: chat.Metadata, Tags: chat.Tags, ToolName: chat.ToolName,
		MemoryStrategy: &chat.MemoryStrategy, TtlHours: chat.TTLHours, MaxTurns: chat.MaxTurns, Remember: chat.Remember, Topics: chat.Topics,
		Recall: chat.Recall,
	}).Exec(affects(1, &created))
	dbsqlc.FindImported.Read(batch, find, set(&id))
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
	return dbsqlc.InsertImportedFiles.Run(i.ctx, i.tx, params)
}

// Messages inserts messages in their order, and the paths of their files.
func (i *chatImport) Messages(messages []transfer.NewMessage) error {
	for n := range messages { // Postgres would round them
		messages[n].CreatedAt = messages[n].CreatedAt.Truncate(time.Microsecond)
		messages[n].UpdatedAt = messages[n].UpdatedAt.Truncate(time.Microsecond)
	}
	rows, err := json.Marshal(messages)
	if err != nil {
		return failed("encode messages", err)
	}
	batch := &pgx.Batch{}
	params := dbsqlc.InsertImportedMessagesParams{ChatID: i.chat.ID, UserID: i.user, NewRows: rows}
	dbsqlc.InsertImportedMessages.Queue(batch, params)
	i.queueFiles(batch, messages)
	return i.tx.SendBatch(i.ctx, batch).Close()
}

// SystemPrompt changes the chat.
func (i *chatImport) SystemPrompt(content string) error {
	return dbsqlc.ImportSystemPrompt.Run(i.ctx, i.tx, dbsqlc.ImportSystemPromptParams{Content: content, ChatID: i.chat.ID})
}

// Memories inserts what is not remembered yet, as read out of the imported messages: it goes when they are deleted. What
// is remembered in these words already gets them as further sources.
func (i *chatImport) Memories(imported []transfer.NewMemory) error {
	if i.memories.Off {
		return nil
	}
	change := &memoryChange{ctx: i.ctx, tx: i.tx, user: i.user}
	if err := change.send(func(batch *pgx.Batch) { dbsqlc.TouchOwnMemories.Queue(batch, struct{}{}) }); err != nil {
		return err
	}
	records, ids := make([]bundle.Memory, len(imported)), make([]uuid.UUID, len(imported))
	for n, memory := range imported {
		records[n], ids[n] = memory.Memory, memory.ID
		records[n].ID = memory.ID.String() // as others refer to it
	}
	fresh, places, err := change.fresh(records, ids)
	if err != nil {
		return err
	}
	if len(fresh) > 0 {
		i.remembered = true
		if err := change.insert(fresh, memories.Extracted, i.chat.ID); err != nil {
			return err
		}
	}
	return change.sources(imported, places)
}

// importedSource is a row of InsertMemorySources.
type importedSource struct {
	MemoryID  uuid.UUID `json:"memory_id"`
	MessageID string    `json:"message_id"`
	Fact      *string   `json:"fact"`
	Quote     string    `json:"quote"`
}

// Topics notes them for the job that assigns topics.
func (i *chatImport) Topics(topics []bundle.Topic) error {
	type row struct {
		Title      *string  `json:"title"`
		Tags       []string `json:"tags"`
		Importance float64  `json:"importance"`
		Rated      bool     `json:"rated"`
		Turns      []string `json:"turns"`
	}
	rows := make([]row, len(topics))
	for n, topic := range topics {
		rows[n] = row{nil, topic.Tags, topic.Importance, topic.Rated, topic.Turns}
		if topic.Renamed {
			rows[n].Title = &topic.Title
		}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return failed("encode topics", err)
	}
	return dbsqlc.InsertImportedTopics.Run(i.ctx, i.tx, dbsqlc.InsertImportedTopicsParams{ChatID: i.chat.ID, NewRows: encoded})
}

// Read skips what was imported.
func (i *chatImport) Read() error { return dbsqlc.SkipExtraction.Run(i.ctx, i.tx, i.chat.ID) }

// embed asks for the vectors of what was inserted, as the server itself, and goes back to the user.
func (i *chatImport) embed() error {
	if !i.remembered || i.memories.Embed == nil {
		return nil
	}
	if err := dbsqlc.ActAsServer.Run(i.ctx, i.tx, struct{}{}); err != nil {
		return err
	}
	if err := i.memories.Embed(i.ctx, i.tx, i.user); err != nil {
		return err
	}
	return dbsqlc.ActAsUser.Run(i.ctx, i.tx, i.claims)
}

// index makes the chat findable at once.
func (i *chatImport) index(id uuid.UUID) error {
	err := dbsqlc.ActAsUser.Run(i.ctx, i.tx, i.claims)
	for more := true; more && err == nil; {
		more, err = dbsqlc.IndexTurns.One(i.ctx, i.tx, dbsqlc.IndexTurnsParams{ChatID: id})
	}
	return err
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
		dbsqlc.InsertImportedMessageFiles.Queue(batch, params)
	}
}
