package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// UserMemories is the store of what a user does with the memories.
type UserMemories struct {
	Pool    *pgxpool.Pool
	Options UserMemoriesOptions
}

// UserMemoriesOptions of a store.
type UserMemoriesOptions struct {
	// Off is set where nothing new is remembered.
	Off bool
	// Embed inserts the job for the vectors of a user's memories that have none, in the caller's transaction; nil for no vectors.
	Embed func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error
}

var _ api.Memories = (*UserMemories)(nil)

// ListMemories reads a page and one memory more, which shows that there is a next page.
func (u *UserMemories) ListMemories(ctx context.Context, user auth.Principal, query api.MemoriesQuery) (api.MemoryPage, error) {
	if query.Text != "" {
		found, err := u.search(ctx, user, query)
		page := api.MemoryPage{Memories: []api.Memory{}}
		for _, row := range found {
			page.Memories = append(page.Memories, row.Memory)
		}
		return page, err
	}
	params := dbsqlc.ListMemoriesParams{
		MemoryType: query.Type, Status: query.Status, ChatID: query.ChatID, AsOf: query.Moment, Most: query.Limit + 1,
	}
	if query.After != nil {
		params.AfterCreatedAt, params.AfterID = &query.After.At, query.After.ID
	}
	page := api.MemoryPage{}
	err := sendAs(ctx, u.Pool, user, "list memories", func(batch *pgx.Batch) {
		dbsqlc.ListMemories.Read(batch, params, all(&page.Memories))
	})
	rows, more := cut(page.Memories, query.Limit)
	if page.Memories = rows; more {
		last := rows[query.Limit-1]
		page.Next = &api.MemoryCursor{At: last.CreatedAt, ID: last.ID}
	}
	return page, err
}

func (u *UserMemories) search(ctx context.Context, user auth.Principal, query api.MemoriesQuery) (found []dbsqlc.SearchMemoriesRow, err error) {
	params := dbsqlc.SearchMemoriesParams{
		Words: query.Text, MemoryType: query.Type, Status: query.Status, ChatID: query.ChatID, AsOf: query.Moment, Most: query.Limit,
		Model: query.Vector.Model, Least: query.LeastCosine,
	}
	if query.Vector.Values != nil {
		params.Question = new(vectorText(query.Vector.Values))
	}
	err = sendAs(ctx, u.Pool, user, "search memories", func(batch *pgx.Batch) {
		dbsqlc.SearchMemories.Read(batch, params, all(&found))
	})
	return found, err
}

// FindMemory reads a memory.
func (u *UserMemories) FindMemory(ctx context.Context, user auth.Principal, id uuid.UUID) (api.Memory, error) {
	var found api.Memory
	err := sendAs(ctx, u.Pool, user, "find memory", func(batch *pgx.Batch) {
		dbsqlc.FindMemory.Read(batch, id, set(&found))
	})
	return found, cmp.Or(err, missing(found.ID, api.NoMemory))
}

// MemoryHistory reads the revisions of a memory.
func (u *UserMemories) MemoryHistory(ctx context.Context, user auth.Principal, id uuid.UUID) (api.MemoryHistory, error) {
	var found api.Memory
	var made api.MemoryHistory
	err := sendAs(ctx, u.Pool, user, "read memory history", func(batch *pgx.Batch) {
		dbsqlc.FindMemory.Read(batch, id, set(&found))
		dbsqlc.MemoryRevisions.Read(batch, id, all(&made.Revisions))
	})
	return made, cmp.Or(err, missing(found.ID, api.NoMemory))
}

// change runs work in a transaction that may change the user's memories: it holds their lock.
func (u *UserMemories) change(ctx context.Context, user auth.Principal, doing string, work func(*memoryChange) error) error {
	return u.changeBeside(ctx, user, doing, nil, work)
}

// changeBeside is change with what has to be locked before the memories are.
func (u *UserMemories) changeBeside(ctx context.Context, user auth.Principal, doing string, before func(*pgx.Batch), work func(*memoryChange) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return failed(doing, inTx(ctx, u.Pool, func(tx pgx.Tx) error {
		c := &memoryChange{ctx: ctx, tx: tx, user: user.UserID, options: u.Options}
		err := c.send(func(batch *pgx.Batch) {
			queueActAs(batch, user)
			if before != nil {
				before(batch)
			}
			dbsqlc.TouchOwnMemories.Queue(batch, struct{}{})
		})
		if err != nil {
			return err
		}
		if err := work(c); err != nil {
			return err
		}
		return c.enqueue()
	}))
}

// memoryChange is a transaction that changes memories of a user.
type memoryChange struct {
	ctx     context.Context //nolint:containedctx // it lives as long as the transaction, which has the same
	tx      pgx.Tx
	user    uuid.UUID
	options UserMemoriesOptions
	// embed asks for the vectors that the change leaves to be made.
	embed bool
}

func (c *memoryChange) send(fill func(*pgx.Batch)) error {
	batch := &pgx.Batch{}
	fill(batch)
	return c.tx.SendBatch(c.ctx, batch).Close()
}

// enqueue inserts the job, as the server itself.
func (c *memoryChange) enqueue() error {
	if !c.embed || c.options.Embed == nil {
		return nil
	}
	if err := c.send(queueActAsServer); err != nil {
		return err
	}
	return c.options.Embed(c.ctx, c.tx, c.user)
}

func (c *memoryChange) find(id uuid.UUID) (found api.Memory, err error) {
	err = c.send(func(batch *pgx.Batch) { dbsqlc.FindMemory.Read(batch, id, set(&found)) })
	return found, cmp.Or(err, missing(found.ID, api.NoMemory))
}

// twins returns the memory that has each of the contents, except one memory. Its status is "" for none.
func (c *memoryChange) twins(but uuid.UUID, contents ...string) ([]dbsqlc.FindTwinsRow, error) {
	params := dbsqlc.FindTwinsParams{Contents: contents, But: but}
	for place := range contents {
		params.Places = append(params.Places, place)
	}
	var found []dbsqlc.FindTwinsRow
	err := c.send(func(batch *pgx.Batch) { dbsqlc.FindTwins.Read(batch, params, all(&found)) })
	return found, err
}

// AddMemory stores a memory, or changes the one that has its words. One that is proposed waits for the user and changes nothing.
func (u *UserMemories) AddMemory(ctx context.Context, user auth.Principal, memory api.NewMemory) (stored api.Memory, added bool, err error) {
	if u.Options.Off {
		return api.Memory{}, false, api.MemoryOff()
	}
	id := uuid.New()
	err = u.change(ctx, user, "add memory", func(c *memoryChange) error {
		found, err := c.twins(uuid.Nil, memory.Content)
		if err != nil {
			return err
		}
		if known := found[0]; known.ID != id && known.Status != "" && known.Status != string(longterm.Superseded) {
			added = false
			if memory.Proposed {
				stored, err = c.find(known.ID)
				return err
			}
			stored, err = c.apply(known.ID, api.MemoryChange{
				Type: memory.Type, Durable: memory.Durable, Pinned: memory.Pinned, Status: cmp.Or(memory.Status, new(string(longterm.Active))),
			}, true)
			return err
		}
		added = true
		c.embed = true
		origin, status, reason := longterm.FromUser, longterm.Active, "the user wrote it"
		if memory.Proposed {
			origin, status, reason = longterm.Proposed, longterm.Inbox, "a program wrote it in the user's name"
		}
		rows, err := json.Marshal([]bundle.Memory{{
			ID: id.String(), Content: memory.Content, MemoryType: *cmp.Or(memory.Type, new(string(longterm.Fact))), Confidence: new(1.0),
			Durable: durable(memory.Durable, memory.Content), Pinned: zeroNull(memory.Pinned), Status: *cmp.Or(memory.Status, new(string(status))),
		}})
		if err != nil {
			return err
		}
		return c.send(func(batch *pgx.Batch) {
			queueNote(batch, longterm.Add, reason)
			dbsqlc.InsertMemories.Queue(batch, dbsqlc.InsertMemoriesParams{Origin: string(origin), NewRows: rows})
			dbsqlc.FindMemory.Read(batch, id, set(&stored))
		})
	})
	return stored, added, err
}

func queueNote(batch *pgx.Batch, action longterm.Action, reason string) {
	dbsqlc.NoteChange.Queue(batch, dbsqlc.NoteChangeParams{Action: string(action), Reason: reason, Actor: "user"})
}

// ChangeMemory changes a memory and reads it.
func (u *UserMemories) ChangeMemory(ctx context.Context, user auth.Principal, id uuid.UUID, change api.MemoryChange) (changed api.Memory, err error) {
	err = u.change(ctx, user, "change memory", func(c *memoryChange) error {
		changed, err = c.apply(id, change, change.Content != nil || change.Pinned != nil && *change.Pinned)
		return err
	})
	return changed, err
}

// apply changes the fields that differ. Without any it makes no version. With own the memory is the user's own from then on: it
// outlives the messages and chats in which it was said.
func (c *memoryChange) apply(id uuid.UUID, change api.MemoryChange, own bool) (api.Memory, error) {
	before, err := c.find(id)
	if err != nil {
		return api.Memory{}, err
	}
	change = different(before, change)
	own = own && before.Origin != string(longterm.FromUser)
	if change == (api.MemoryChange{}) && !own {
		return before, nil
	}
	if err := c.checkTwin(before, change); err != nil {
		return api.Memory{}, err
	}
	c.embed = c.embed || change.Content != nil || change.Status != nil
	var changed bool
	var after api.Memory
	err = c.send(func(batch *pgx.Batch) {
		queueNote(batch, actionOf(before, change), reasonOf(before, change))
		dbsqlc.ChangeMemory.Queue(batch, dbsqlc.ChangeMemoryParams{
			ID: id, Content: change.Content, MemoryType: change.Type, Durable: change.Durable, Pinned: change.Pinned, Status: change.Status,
			Own: own,
		}).Exec(affects(1, &changed))
		if replaced := before.ConflictsWith; replaced != nil && *cmp.Or(change.Status, new("")) == string(longterm.Active) {
			queueNote(batch, longterm.Delete, "the user confirmed what contradicts it")
			dbsqlc.ReplaceMemory.Queue(batch, dbsqlc.ReplaceMemoryParams{ID: id, Replaced: *replaced})
		}
		if change.Content != nil {
			dbsqlc.OverwriteFacts.Queue(batch, dbsqlc.OverwriteFactsParams{ID: id, Content: *change.Content})
		}
		dbsqlc.FindMemory.Read(batch, id, set(&after))
	})
	return after, cmp.Or(err, allowed(changed, "memories"))
}

// different returns the fields that would change something.
func different(memory api.Memory, change api.MemoryChange) api.MemoryChange {
	return api.MemoryChange{
		Content: other(change.Content, memory.Content), Type: other(change.Type, memory.MemoryType), Status: other(change.Status, memory.Status),
		Durable: other(change.Durable, memory.Durable), Pinned: other(change.Pinned, memory.Pinned),
	}
}

func other[T comparable](wanted *T, is T) *T {
	if wanted == nil || *wanted == is {
		return nil
	}
	return wanted
}

// checkTwin returns an error if the change would make a second memory with the same words.
func (c *memoryChange) checkTwin(before api.Memory, change api.MemoryChange) error {
	content, status := *cmp.Or(change.Content, &before.Content), *cmp.Or(change.Status, &before.Status)
	if change.Content == nil && change.Status == nil || !live(status) {
		return nil
	}
	found, err := c.twins(before.ID, content)
	if err == nil && live(found[0].Status) {
		err = api.SameMemory(found[0].ID)
	}
	return err
}

// live reports whether a memory with that status is remembered.
func live(status string) bool {
	return status == string(longterm.Active) || status == string(longterm.Inbox)
}

func actionOf(before api.Memory, change api.MemoryChange) longterm.Action {
	switch status := zeroNull(change.Status); {
	case change.Content != nil || before.Status == string(longterm.Inbox):
		return longterm.Edit
	case status == string(longterm.Archived):
		return longterm.Archive
	case status != "":
		return longterm.Unarchive
	}
	return longterm.Edit
}

func reasonOf(before api.Memory, change api.MemoryChange) string {
	switch {
	case change.Content != nil:
		return "the user changed the words"
	case change.Status == nil:
		return "the user changed its settings"
	case before.Status == string(longterm.Inbox) && *change.Status == string(longterm.Active):
		return "the user confirmed it"
	case *change.Status == string(longterm.Archived):
		return "the user put it away"
	}
	return "the user brought it back"
}

// DeleteMemory deletes a memory; foreign keys delete what belongs to it.
func (u *UserMemories) DeleteMemory(ctx context.Context, user auth.Principal, id uuid.UUID, deletion api.MemoryDeletion) error {
	lock := func(batch *pgx.Batch) {
		if deletion.Also == api.AlsoSummaries {
			dbsqlc.LockMemorysChats.Queue(batch, id)
			dbsqlc.RollBackBriefs.Queue(batch, id)
		}
	}
	return u.changeBeside(ctx, user, "delete memory", lock, func(c *memoryChange) error {
		if _, err := c.find(id); err != nil {
			return err
		}
		var deleted bool
		err := c.send(func(batch *pgx.Batch) {
			dbsqlc.DeleteMemory.Queue(batch, id).Exec(affects(1, &deleted))
		})
		return cmp.Or(err, allowed(deleted, "memories"))
	})
}

// FindForgettable searches all statuses. A memory with a few of the words is no candidate beside one that has them all, and
// one with only function words of a text that has others is none at all.
func (u *UserMemories) FindForgettable(ctx context.Context, user auth.Principal, text string) ([]api.ForgetCandidate, error) {
	const least = 1.0 / 3 // of the best score
	var telling []string
	for _, word := range recall.Words(text) {
		telling = append(telling, word.Forms[0])
	}
	found, err := u.search(ctx, user, api.MemoriesQuery{Text: strings.Join(telling, " "), Status: api.StatusAll, Limit: api.MaxForgotten})
	candidates := []api.ForgetCandidate{}
	for _, row := range found {
		if row.Score >= least*found[0].Score {
			candidates = append(candidates, api.ForgetCandidate{ID: row.ID, Content: row.Content, Version: row.Version})
		}
	}
	return candidates, err
}

// ForgetMemories deletes the memories that have not changed.
func (u *UserMemories) ForgetMemories(ctx context.Context, user auth.Principal, those []api.MemoryVersion) (forgotten int, err error) {
	params := dbsqlc.ForgetMemoriesParams{}
	for _, memory := range those {
		params.Ids, params.Versions = append(params.Ids, memory.ID), append(params.Versions, int(memory.Version))
	}
	err = u.change(ctx, user, "forget memories", func(c *memoryChange) error {
		var deleted int64
		err := c.send(func(batch *pgx.Batch) { dbsqlc.ForgetMemories.Queue(batch, params).Exec(counts(&deleted)) })
		forgotten = int(deleted)
		return err
	})
	return forgotten, err
}

// DeleteMemories skips the messages not read yet, so that none of it comes back, and deletes all memories.
func (u *UserMemories) DeleteMemories(ctx context.Context, user auth.Principal) (api.DeletedMemories, error) {
	var deleted, left api.DeletedMemories
	skip := func(batch *pgx.Batch) {
		dbsqlc.MakeOwnMemoryUser.Queue(batch, struct{}{})
		dbsqlc.SkipUnread.Queue(batch, struct{}{})
	}
	err := u.changeBeside(ctx, user, "delete memories", skip, func(c *memoryChange) error {
		return c.send(func(batch *pgx.Batch) {
			dbsqlc.CountMemories.Read(batch, struct{}{}, set(&deleted))
			dbsqlc.DeleteMemories.Queue(batch, struct{}{})
			dbsqlc.CountMemories.Read(batch, struct{}{}, set(&left))
		})
	})
	return deleted, cmp.Or(err, allowed(left.Memories == 0, "memories"))
}

// MemorySettings reads the settings.
func (u *UserMemories) MemorySettings(ctx context.Context, user auth.Principal) (api.MemorySettings, error) {
	var settings api.MemorySettings
	err := sendAs(ctx, u.Pool, user, "read memory settings", func(batch *pgx.Batch) { queueSettings(batch, &settings) })
	return settings, err
}

func queueSettings(batch *pgx.Batch, settings *api.MemorySettings) {
	*settings = api.MemorySettings{Enabled: true, Excluded: []string{}}
	dbsqlc.ReadMemorySettings.Read(batch, struct{}{}, func(row api.MemorySettings) { *settings = row })
}

// ChangeMemorySettings changes the settings and reads them.
func (u *UserMemories) ChangeMemorySettings(ctx context.Context, user auth.Principal, change api.MemorySettingsChange) (api.MemorySettings, error) {
	var settings api.MemorySettings
	var changed bool
	err := sendAs(ctx, u.Pool, user, "change memory settings", func(batch *pgx.Batch) {
		dbsqlc.ChangeMemorySettings.Queue(batch, dbsqlc.ChangeMemorySettingsParams{
			Enabled: change.Enabled, Excluded: zeroNull(change.Excluded.Value),
			SetTimeZone: change.TimeZone.Set, TimeZone: change.TimeZone.Value, SetLanguage: change.Language.Set, Language: change.Language.Value,
		}).Exec(affects(1, &changed))
		queueSettings(batch, &settings)
	})
	return settings, cmp.Or(err, allowed(changed, "memory_users"))
}
