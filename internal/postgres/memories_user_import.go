package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/extract"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// exportedMemories is how many memories one page of an export holds.
const exportedMemories = 200

// ExportMemories reads a page.
func (u *UserMemories) ExportMemories(ctx context.Context, user auth.Principal, after *history.MemoryCursor) (page []bundle.Memory, err error) {
	params := dbsqlc.ExportMemoriesParams{Most: exportedMemories}
	if after != nil {
		params.AfterCreatedAt, params.AfterID = &after.At, after.ID
	}
	err = sendAs(ctx, u.pool, user, "export memories", func(batch *pgx.Batch) {
		dbsqlc.ExportMemories.Read(batch, params, all(&page))
	})
	return page, err
}

// ImportMemories stores those whose words are not there yet, in one transaction.
func (u *UserMemories) ImportMemories(ctx context.Context, user auth.Principal, records []bundle.Memory) (done history.ImportedMemories, err error) {
	if u.options.Off {
		return done, history.MemoryOff()
	}
	ids := make([]uuid.UUID, len(records))
	for i, record := range records {
		if ids[i] = uuid.New(); record.ID != "" {
			ids[i] = transfer.MemoryID(user.UserID, record.ID)
		}
	}
	err = u.change(ctx, user, "import memories", func(c *memoryChange) error {
		fresh, _, err := c.fresh(records, ids)
		done = history.ImportedMemories{Imported: len(fresh), Skipped: len(records) - len(fresh)}
		if err != nil || len(fresh) == 0 {
			return err
		}
		c.embed = true
		return c.insert(fresh, memories.Imported, uuid.Nil)
	})
	return done, err
}

// durable returns what is said of a memory that its user gives, or whether it is of the kind that hardly ever changes.
func durable(said *bool, content string) *bool {
	return cmp.Or(said, new(extract.IsLasting(content)))
}

func (c *memoryChange) insert(fresh []bundle.Memory, origin memories.Origin, chatID uuid.UUID) error {
	for i, record := range fresh {
		fresh[i].Durable = durable(record.Durable, record.Content)
	}
	rows, err := json.Marshal(fresh)
	if err != nil {
		return failed("encode memories", err)
	}
	return c.send(func(batch *pgx.Batch) {
		queueNote(batch, memories.Add, "imported")
		dbsqlc.InsertMemories.Queue(batch, dbsqlc.InsertMemoriesParams{Origin: string(origin), SourceSessionID: nullID(chatID), NewRows: rows})
	})
}

// insertAsTheyWere inserts memories of an account, with their origin and the chat where each was first said.
func (c *memoryChange) insertAsTheyWere(fresh []bundle.Memory) error {
	type row struct {
		bundle.Memory
		SourceSessionID *string `json:"source_session_id"`
	}
	rows := make([]row, len(fresh))
	for i, memory := range fresh {
		memory.Durable = durable(memory.Durable, memory.Content)
		if rows[i].Memory = memory; len(memory.Sources) > 0 {
			rows[i].SourceSessionID = &memory.Sources[0].ChatID
		}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return failed("encode memories", err)
	}
	return c.send(func(batch *pgx.Batch) {
		queueNote(batch, memories.Add, "imported")
		dbsqlc.InsertMemories.Queue(batch, dbsqlc.InsertMemoriesParams{NewRows: encoded})
	})
}

// sources inserts where memories were said, for each at its place.
func (c *memoryChange) sources(imported []transfer.NewMemory, places []uuid.UUID) error {
	rows := []importedSource{}
	for n, memory := range imported {
		for _, source := range memory.Sources {
			rows = append(rows, importedSource{places[n], source.MessageID, source.Fact, source.Quote})
		}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return failed("encode sources", err)
	}
	return dbsqlc.InsertMemorySources.Run(c.ctx, c.tx, encoded)
}

// fresh returns the records that are not remembered yet, with their new ids: neither they themselves, or an earlier import of
// them, whatever its words are now, nor their words. What was superseded is no twin of what is true. places has, for each
// record, the memory that stands for it in the end.
func (c *memoryChange) fresh(records []bundle.Memory, ids []uuid.UUID) (fresh []bundle.Memory, places []uuid.UUID, err error) {
	contents := make([]string, len(records))
	for i, record := range records {
		contents[i] = record.Content
	}
	twins, err := c.twins(uuid.Nil, contents...)
	if err != nil {
		return nil, nil, err
	}
	there, err := c.there(records, ids)
	if err != nil {
		return nil, nil, err
	}
	taken := map[string]uuid.UUID{}
	renamed := map[string]uuid.UUID{}
	places = make([]uuid.UUID, len(records))
	for i, record := range records {
		past := record.Status == string(memories.Superseded)
		key := twins[i].Key
		if past {
			key += "past"
		}
		known, again := taken[key]
		if own := there[i]; own != uuid.Nil {
			known, again = own, true
		} else if !again && twins[i].Status != "" && (past || twins[i].Status != string(memories.Superseded)) {
			known, again = twins[i].ID, true
		}
		if places[i] = known; !again {
			places[i] = ids[i]
			record.ID = ids[i].String()
			fresh = append(fresh, record)
		}
		taken[key] = places[i]
		renamed[records[i].ID] = places[i]
	}
	for i := range fresh {
		fresh[i].SupersededBy, fresh[i].ConflictsWith = rename(fresh[i].SupersededBy, renamed), rename(fresh[i].ConflictsWith, renamed)
	}
	return fresh, places, nil
}

// there returns, for each record, the memory that the user has under its own id or its new one; uuid.Nil for none.
func (c *memoryChange) there(records []bundle.Memory, ids []uuid.UUID) ([]uuid.UUID, error) {
	originals := make([]uuid.UUID, len(records)) // uuid.Nil for those of other programs
	for i, record := range records {
		originals[i], _ = uuid.Parse(record.ID)
	}
	owned := map[uuid.UUID]bool{}
	err := c.send(func(batch *pgx.Batch) {
		dbsqlc.FindOwnMemories.Read(batch, slices.Concat(ids, originals), func(id uuid.UUID) { owned[id] = true })
	})
	found := make([]uuid.UUID, len(records))
	for i, id := range ids {
		switch {
		case owned[originals[i]]:
			found[i] = originals[i]
		case owned[id]:
			found[i] = id
		}
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
