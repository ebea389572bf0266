package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/longterm"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// importTimeout bounds the transaction of one imported chat.
const importTimeout = 10 * time.Minute

// Import writes a chat in one transaction, in chunks: row level security does not support COPY. It tries once,
// because write reads from a file and cannot begin again.
func (t *Transfer) Import(
	ctx context.Context, user auth.Principal, chat transfer.NewChat, write func(transfer.Add) error,
) (uuid.UUID, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	id, imported := uuid.Nil, false
	err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		i := &chatImport{memoryChange{ctx: ctx, tx: tx, user: user.UserID, options: t.memories}, chat, user}
		var err error
		if id, imported, err = i.begin(); err != nil || !imported {
			return err
		}
		if err := write(i.add); err != nil {
			return err
		}
		if err := i.enqueue(); err != nil {
			return err
		}
		if i.embed { // which the server has asked for
			if err := actAs(ctx, tx, user); err != nil {
				return err
			}
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
	memoryChange
	chat transfer.NewChat
	as   auth.Principal
}

// begin creates the chat, or finds that the user has it.
func (i *chatImport) begin() (id uuid.UUID, created bool, err error) {
	chat := i.chat
	find := dbsqlc.FindImportedParams{ID: chat.ID, Original: chat.Original}
	batch := &pgx.Batch{}
	queueActAs(batch, i.as)
	dbsqlc.BeginQuietly.Queue(batch, struct{}{})
	dbsqlc.FindImported.Read(batch, find, set(&id))
	if err := i.tx.SendBatch(i.ctx, batch).Close(); err != nil || id != uuid.Nil {
		return id, false, err
	}
	batch = &pgx.Batch{}
	dbsqlc.InsertChat.Queue(batch, dbsqlc.InsertChatParams{
		ID: chat.ID, UserID: i.user, CreatedAt: &chat.CreatedAt,
		Title: chat.Title, TitleSeq: titleSeq(chat.TitledBy), SystemPrompt: chat.SystemPrompt, Metadata: chat.Metadata, Tags: chat.Tags, ToolName: chat.ToolName,
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

// titleSeq says whose the title of an imported chat is. One that a model made goes whichever message loses its words.
func titleSeq(by string) *int64 {
	switch by {
	case "first_message":
		return new(int64(0))
	case "model":
		return new(int64(math.MaxInt64))
	}
	return nil
}

// add inserts rows, most of them in one round trip.
func (i *chatImport) add(rows transfer.Rows) (full int, err error) {
	batch := &pgx.Batch{}
	i.queueFiles(batch, rows)
	if rows.SystemPrompt != "" {
		dbsqlc.ImportSystemPrompt.Queue(batch, dbsqlc.ImportSystemPromptParams{Content: rows.SystemPrompt, ChatID: i.chat.ID})
	}
	if err := errors.Join(i.queueMessages(batch, rows.Messages), i.queueTopics(batch, rows.Topics)); err != nil {
		return 0, failed("encode rows", err)
	}
	if rows.Read {
		dbsqlc.SkipExtraction.Queue(batch, i.chat.ID)
	}
	if err := i.tx.SendBatch(i.ctx, batch).Close(); err != nil || len(rows.Memories) == 0 || i.options.Off {
		return 0, err
	}
	return i.addMemories(rows.Memories)
}

func (i *chatImport) queueFiles(batch *pgx.Batch, rows transfer.Rows) {
	if len(rows.Files) == 0 {
		return
	}
	params := dbsqlc.InsertImportedFilesParams{ChatID: i.chat.ID, UserID: i.user, Tokens: rows.Tokens}
	for _, file := range rows.Files {
		params.Sha256s = append(params.Sha256s, file.SHA256)
		params.Contents = append(params.Contents, file.Content)
	}
	dbsqlc.InsertImportedFiles.Queue(batch, params)
}

// queueMessages inserts messages in their order, and the paths of their files.
func (i *chatImport) queueMessages(batch *pgx.Batch, messages []bundle.Message) error {
	if len(messages) == 0 {
		return nil
	}
	paths := dbsqlc.InsertImportedMessageFilesParams{ChatID: i.chat.ID, UserID: i.user}
	for n := range messages {
		message := &messages[n]
		message.CreatedAt = message.CreatedAt.Truncate(time.Microsecond) // Postgres would round them
		message.UpdatedAt = message.UpdatedAt.Truncate(time.Microsecond)
		for place, file := range message.Files {
			paths.MessageIds = append(paths.MessageIds, uuid.MustParse(message.ID)) // made by the importer
			paths.Places = append(paths.Places, place+1)
			paths.Paths = append(paths.Paths, file.Path)
			paths.Sha256s = append(paths.Sha256s, file.SHA256)
		}
	}
	rows, err := json.Marshal(messages)
	dbsqlc.InsertImportedMessages.Queue(batch, dbsqlc.InsertImportedMessagesParams{ChatID: i.chat.ID, UserID: i.user, NewRows: rows})
	if len(paths.MessageIds) > 0 {
		dbsqlc.InsertImportedMessageFiles.Queue(batch, paths)
	}
	return err
}

// queueTopics notes them for the job that assigns topics.
func (i *chatImport) queueTopics(batch *pgx.Batch, topics []bundle.Topic) error {
	if len(topics) == 0 {
		return nil
	}
	encoded, err := json.Marshal(topics)
	dbsqlc.InsertImportedTopics.Queue(batch, dbsqlc.InsertImportedTopicsParams{ChatID: i.chat.ID, NewRows: encoded})
	return err
}

// addMemories inserts the memories that are new, as read out of the imported messages: it goes when they are deleted. What
// is remembered in these words already gets them as further sources.
func (i *chatImport) addMemories(imported []transfer.NewMemory) (full int, err error) {
	if err := dbsqlc.TouchOwnMemories.Run(i.ctx, i.tx, struct{}{}); err != nil {
		return 0, err
	}
	done, err := i.take(imported, map[string]uuid.UUID{}, longterm.Extracted, i.chat.ID)
	return done.Full, err
}

// index makes the chat findable at once.
func (i *chatImport) index(id uuid.UUID) error {
	err := actAs(i.ctx, i.tx, i.as)
	for more := true; more && err == nil; {
		more, err = dbsqlc.IndexTurns.One(i.ctx, i.tx, dbsqlc.IndexTurnsParams{ChatID: id})
	}
	return err
}

// exportedMemories is how many memories one page of an export holds.
const exportedMemories = 200

// ExportMemories reads page after page.
func (u *UserMemories) ExportMemories(ctx context.Context, user auth.Principal, take func(bundle.Memory) error) error {
	return exportMemories(ctx, exportOf(u.Pool, user), dbsqlc.ExportMemoriesParams{}, take)
}

// ImportMemories stores those whose words are not there yet.
func (u *UserMemories) ImportMemories(ctx context.Context, user auth.Principal, records []bundle.Memory) (done api.ImportedMemories, err error) {
	if u.Options.Off {
		return done, api.MemoryOff()
	}
	imported := make([]transfer.NewMemory, len(records))
	for i, record := range records {
		if imported[i] = (transfer.NewMemory{Memory: record, ID: uuid.New()}); record.ID != "" {
			imported[i].ID = transfer.MemoryID(user.UserID, record.ID)
		}
	}
	return u.importAll(ctx, user, imported, longterm.Imported)
}

// importedAtOnce is how many memories of a file are one transaction, which takes about a quarter of a second: others of the user
// wait for it, and it has a deadline.
const importedAtOnce = 250

// importAll stores those whose words are not there yet, some at a time. What was cut off is there, and skipped the next time.
func (u *UserMemories) importAll(
	ctx context.Context, user auth.Principal, imported []transfer.NewMemory, origin longterm.Origin,
) (done api.ImportedMemories, err error) {
	renamed := map[string]uuid.UUID{}
	for some := range slices.Chunk(referredFirst(imported), importedAtOnce) {
		var took api.ImportedMemories
		err := u.change(ctx, user, "import memories", func(c *memoryChange) (err error) {
			took, err = c.take(some, renamed, origin, uuid.Nil)
			return err
		})
		if err != nil {
			return done, err
		}
		done.Imported, done.Skipped, done.Full = done.Imported+took.Imported, done.Skipped+took.Skipped, done.Full+took.Full
	}
	return done, nil
}

// referredFirst puts each memory after those of the file that it names: their new ids are known when it is written.
func referredFirst(records []transfer.NewMemory) []transfer.NewMemory {
	places, placed := map[string]int{}, make([]bool, len(records))
	for n, record := range records {
		places[record.Memory.ID] = n
	}
	ordered := make([]transfer.NewMemory, 0, len(records))
	var put func(int)
	put = func(n int) {
		if placed[n] {
			return
		}
		placed[n] = true
		for _, other := range []*string{records[n].SupersededBy, records[n].ConflictsWith} {
			if place, there := places[zeroNull(other)]; other != nil && there {
				put(place)
			}
		}
		ordered = append(ordered, records[n])
	}
	for n := range records {
		put(n)
	}
	return ordered
}

// take stores the memories that are not remembered yet, as far as there is room, and where they were said. renamed has the ids
// that those of the file have here.
func (c *memoryChange) take(
	imported []transfer.NewMemory, renamed map[string]uuid.UUID, origin longterm.Origin, chatID uuid.UUID,
) (done api.ImportedMemories, err error) {
	has, err := dbsqlc.CountOwnMemories.One(c.ctx, c.tx, struct{}{})
	if err != nil {
		return done, err
	}
	fresh, places, err := c.fresh(imported, renamed, max(0, longterm.MaxMemories-int(has)))
	if err != nil {
		return done, err
	}
	done.Imported = len(fresh)
	for _, place := range places {
		if place == uuid.Nil {
			done.Full++
		}
	}
	done.Skipped = len(imported) - done.Imported - done.Full
	if len(fresh) > 0 {
		c.embed = true
		if err := c.insert(fresh, origin, chatID); err != nil {
			return done, err
		}
	}
	if origin == longterm.Imported { // whose sources are only a record
		return done, nil
	}
	return done, c.sources(imported, places)
}

// durable returns the user's choice for a memory, or whether it is of the kind that hardly ever changes.
func durable(said *bool, content string) *bool {
	return cmp.Or(said, new(longterm.IsLasting(content)))
}

// insert inserts memories, read out of the chat where there is one. Those of an account have an origin of their own, "" here, and
// the chat where each was first said.
func (c *memoryChange) insert(fresh []bundle.Memory, origin longterm.Origin, chatID uuid.UUID) error {
	type row struct {
		bundle.Memory
		SourceSessionID *string `json:"source_session_id"`
	}
	rows := make([]row, len(fresh))
	for i, memory := range fresh {
		memory.Durable = durable(memory.Durable, memory.Content)
		if rows[i].Memory = memory; origin == "" && len(memory.Sources) > 0 {
			rows[i].SourceSessionID = &memory.Sources[0].ChatID
		}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return failed("encode memories", err)
	}
	return c.send(func(batch *pgx.Batch) {
		queueNote(batch, longterm.Add, "imported")
		dbsqlc.InsertMemories.Queue(batch, dbsqlc.InsertMemoriesParams{Origin: string(origin), SourceSessionID: nullID(chatID), NewRows: encoded})
	})
}

// sources inserts where memories were said, for each at its place.
func (c *memoryChange) sources(imported []transfer.NewMemory, places []uuid.UUID) error {
	type row struct { // of InsertMemorySources
		MemoryID  uuid.UUID `json:"memory_id"`
		MessageID string    `json:"message_id"`
		Fact      *string   `json:"fact"`
		Quote     string    `json:"quote"`
	}
	rows := []row{}
	for n, memory := range imported {
		for _, source := range memory.Sources {
			rows = append(rows, row{places[n], source.MessageID, source.Fact, source.Quote})
		}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return failed("encode sources", err)
	}
	return dbsqlc.InsertMemorySources.Run(c.ctx, c.tx, encoded)
}

// fresh returns the records that are not remembered yet, with their new ids: neither they themselves, or an earlier import of
// them in other words, nor their words. A superseded memory is no twin of a true one. places has, for each
// record, the memory that stands for it in the end; uuid.Nil for one that has no room.
func (c *memoryChange) fresh(
	records []transfer.NewMemory, renamed map[string]uuid.UUID, room int,
) (fresh []bundle.Memory, places []uuid.UUID, err error) {
	contents := make([]string, len(records))
	for i, record := range records {
		contents[i] = record.Content
	}
	twins, err := c.twins(uuid.Nil, contents...)
	if err != nil {
		return nil, nil, err
	}
	there, err := c.there(records)
	if err != nil {
		return nil, nil, err
	}
	taken := map[string]uuid.UUID{}
	places = make([]uuid.UUID, len(records))
	for i, record := range records {
		past := record.Status == string(longterm.Superseded)
		key := twins[i].Key
		if past {
			key += "past"
		}
		known, again := taken[key]
		if own := there[i]; own != uuid.Nil {
			known, again = own, true
		} else if !again && twins[i].Status != "" && (past || twins[i].Status != string(longterm.Superseded)) {
			known, again = twins[i].ID, true
		}
		if places[i] = known; !again && len(fresh) < room {
			places[i] = record.ID
			fresh = append(fresh, record.Memory)
			fresh[len(fresh)-1].ID = record.ID.String()
		}
		taken[key] = places[i]
		renamed[record.Memory.ID] = places[i]
	}
	for i := range fresh {
		fresh[i].SupersededBy, fresh[i].ConflictsWith = rename(fresh[i].SupersededBy, renamed), rename(fresh[i].ConflictsWith, renamed)
	}
	return fresh, places, nil
}

// there returns, for each record, the memory that the user has under its own id or its new one; uuid.Nil for none.
func (c *memoryChange) there(records []transfer.NewMemory) ([]uuid.UUID, error) {
	candidates := make([]uuid.UUID, 0, 2*len(records))
	for _, record := range records {
		own, _ := uuid.Parse(record.Memory.ID) // uuid.Nil for those of other programs
		candidates = append(candidates, own, record.ID)
	}
	owned := map[uuid.UUID]uuid.UUID{}
	err := c.send(func(batch *pgx.Batch) {
		dbsqlc.FindOwnMemories.Read(batch, candidates, func(id uuid.UUID) { owned[id] = id })
	})
	found := make([]uuid.UUID, len(records))
	for i := range found {
		found[i] = cmp.Or(owned[candidates[2*i]], owned[candidates[2*i+1]])
	}
	return found, err
}

// rename returns the new id of a memory; nil for one that is not there.
func rename(id *string, renamed map[string]uuid.UUID) *string {
	if found := renamed[*cmp.Or(id, new(string))]; id != nil && found != uuid.Nil {
		return new(found.String())
	}
	return nil
}
