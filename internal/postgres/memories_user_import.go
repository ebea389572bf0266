package postgres

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// exportedMemories is how many memories one page of an export holds.
const exportedMemories = 200

// ExportMemories reads a page.
func (u *UserMemories) ExportMemories(ctx context.Context, user auth.Principal, after *history.MemoryCursor) (page []bundle.Memory, err error) {
	params := dbsqlc.ExportMemoriesParams{Most: exportedMemories}
	if after != nil {
		params.AfterCreatedAt, params.AfterID = &after.CreatedAt, after.ID
	}
	err = sendAs(ctx, u.pool, user, "export memories", func(batch *pgx.Batch) {
		queue(batch, queries.ExportMemories, params).Query(all(&page))
	})
	return page, err
}

// ImportMemories stores those whose words are not there yet, in one transaction.
func (u *UserMemories) ImportMemories(ctx context.Context, user auth.Principal, records []bundle.Memory) (done history.ImportedMemories, err error) {
	if u.options.Off {
		return done, history.MemoryOff()
	}
	ids := make([]uuid.UUID, len(records))
	for i := range ids {
		ids[i] = uuid.New()
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

// insert inserts memories as the user's.
func (c *memoryChange) insert(fresh []bundle.Memory, origin memories.Origin, chatID uuid.UUID) error {
	rows, err := json.Marshal(fresh)
	if err != nil {
		return failed("encode memories", err)
	}
	return c.send(func(batch *pgx.Batch) {
		queueNote(batch, memories.Add, "imported")
		queueExec(batch, queries.InsertMemories, dbsqlc.InsertMemoriesParams{Origin: string(origin), SourceSessionID: nullID(chatID), NewRows: rows})
	})
}

// fresh returns the records whose words are not remembered yet, each words once, with their new ids. What was superseded
// is no twin of what is true. places has, for each record, the memory that has its words in the end.
func (c *memoryChange) fresh(records []bundle.Memory, ids []uuid.UUID) (fresh []bundle.Memory, places []uuid.UUID, err error) {
	contents := make([]string, len(records))
	for i, record := range records {
		contents[i] = record.Content
	}
	twins, err := c.twins(uuid.Nil, contents...)
	if err != nil {
		return nil, nil, err
	}
	taken := map[string]uuid.UUID{}
	renamed := map[string]uuid.UUID{}
	places = make([]uuid.UUID, len(records))
	for i, record := range records {
		past := record.Status == string(memories.Superseded)
		key := twins[i].key
		if past {
			key += "past"
		}
		known, again := taken[key]
		if !again && twins[i].status != "" && (past || twins[i].status != memories.Superseded) {
			known, again = twins[i].id, true
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
		fresh[i].SupersededBy = rename(fresh[i].SupersededBy, renamed)
	}
	return fresh, places, nil
}

// rename returns the new id of a memory; nil for one that is not there.
func rename(id *string, renamed map[string]uuid.UUID) *string {
	if found := renamed[*cmp.Or(id, new(string))]; id != nil && found != uuid.Nil {
		return new(found.String())
	}
	return nil
}
