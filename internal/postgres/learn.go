package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/longterm"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Learning is the store of extractions.
type Learning struct {
	Pool   *pgxpool.Pool
	Insert Insert
}

var _ longterm.Store = (*Learning)(nil)

// Read reads what an extraction needs. It makes the row of the chat's user where there is none.
func (l *Learning) Read(ctx context.Context, chatID uuid.UUID, mostTurns int) (longterm.Snapshot, bool, error) {
	s, found, known, err := l.read(ctx, chatID, mostTurns)
	if err != nil || !found || known {
		return s, found, err
	}
	err = retry(ctx, l.Pool, func() error { return dbsqlc.MakeMemoryUser.Run(ctx, l.Pool, chatID) })
	if sqlState(err) == pgerrcode.ForeignKeyViolation {
		return longterm.Snapshot{}, false, nil // the user was deleted meanwhile
	}
	if err != nil {
		return longterm.Snapshot{}, false, failed("make memory user", err)
	}
	s, found, _, err = l.read(ctx, chatID, mostTurns)
	return s, found, err
}

// read also reports whether the user has a row.
func (l *Learning) read(ctx context.Context, chatID uuid.UUID, mostTurns int) (s longterm.Snapshot, found, known bool, err error) {
	var user dbsqlc.ReadExtractionUserRow
	owner, err := sendAsOwner(ctx, l.Pool, chatID, "read extraction", func(batch *pgx.Batch) {
		s, found, known = longterm.Snapshot{}, false, false
		dbsqlc.ReadExtractionUser.Read(batch, struct{}{}, func(row dbsqlc.ReadExtractionUserRow) {
			known, user = true, row
			s.TimeZone, s.Language, s.Excluded = row.TimeZone, row.Language, row.Excluded
		})
		dbsqlc.ReadExtraction.Read(batch, chatID, func(row dbsqlc.ReadExtractionRow) {
			found = true
			s.Wanted = known && user.Enabled && row.Remember
			s.LastSeq, s.ExtractedSeq, s.ClearedSeq = row.LastSeq, row.ExtractedSeq, row.ClearedSeq
			s.Summary, s.DueNow, s.Rested = row.Summary, row.DueNow, seconds(row.Rested)
		})
		dbsqlc.ReadUnread.Read(batch, dbsqlc.ReadUnreadParams{ChatID: chatID, MostTurns: mostTurns}, messages(&s.Messages))
		dbsqlc.ReadBefore.Read(batch, dbsqlc.ReadBeforeParams{ChatID: chatID, Most: longterm.RecentMessages}, messages(&s.Before))
		dbsqlc.ReadShown.Read(batch, chatID, all(&s.Shown))
		dbsqlc.ReadOutputs.Read(batch, chatID, all(&s.Outputs))
	})
	s.UserID = owner
	slices.Reverse(s.Before)
	return s, found, known, err
}

// Settle notes that nothing is due if nothing was said since.
func (l *Learning) Settle(ctx context.Context, chatID uuid.UUID) error {
	_, err := sendAsOwner(ctx, l.Pool, chatID, "settle extraction", func(batch *pgx.Batch) {
		dbsqlc.SettleExtraction.Queue(batch, chatID)
	})
	return err
}

// Similar returns the memories that resemble each text. The version is read before them: what changes meanwhile is noticed.
func (l *Learning) Similar(ctx context.Context, chatID uuid.UUID, texts []longterm.Text, model string) (longterm.Knowledge, error) {
	params := dbsqlc.SimilarMemoriesParams{Model: model, Most: longterm.MostAlike}
	for _, text := range texts {
		params.Contents = append(params.Contents, text.Content)
		vector := ""
		if text.Vector != nil {
			vector = vectorText(text.Vector)
		}
		params.Embeddings = append(params.Embeddings, vector)
	}
	var known longterm.Knowledge
	_, err := sendAsOwner(ctx, l.Pool, chatID, "find similar memories", func(batch *pgx.Batch) {
		known = longterm.Knowledge{Alike: make([][]longterm.Known, len(texts))}
		dbsqlc.ReadMemoryVersion.Read(batch, struct{}{}, set(&known.Version))
		dbsqlc.SimilarMemories.Read(batch, params, func(row dbsqlc.SimilarMemoriesRow) {
			known.Alike[row.Candidate-1] = append(known.Alike[row.Candidate-1], row.Known)
		})
	})
	return known, err
}

// errOutdated rolls an extraction back, as errOvertaken does where somebody else has read the range.
var errOutdated = errors.New("the memories have changed since they were compared")

// Commit writes the memories, their sources and the entry in the ledger, completes the job and inserts the next one if
// something is left to read, all in one transaction. It locks the chat, the evidence, the brief and the user's row, in this order.
// Where something of it cannot be stored, all is written once more without that: the model would be asked for the same for ever.
func (l *Learning) Commit(ctx context.Context, change longterm.Change) (longterm.Outcome, longterm.Written, error) {
	outcome, written, err := l.commit(ctx, &learning{change: change})
	if unstorable(err) != "" {
		outcome, written, err = l.commit(ctx, &learning{change: change, apart: true})
	}
	return outcome, written, failed("commit extraction", explained(err))
}

func (l *Learning) commit(ctx context.Context, c *learning) (longterm.Outcome, longterm.Written, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	change := &c.change
	err := sendInTx(ctx, l.Pool, c.lock(), func(tx pgx.Tx) error {
		if err := c.check(); err != nil {
			return err
		}
		if err := c.write(ctx, tx); err != nil {
			return err
		}
		batch, output, err := c.ledger()
		if err != nil {
			return err
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		// Not in the batch: its statements are prepared before the first of them ends the worker's role.
		if held, err := dbsqlc.EndWork.One(ctx, tx, ended(change.Lease, true)); err != nil || !held {
			return cmp.Or(err, errOvertaken)
		}
		if err := dbsqlc.CompleteJob.Run(ctx, tx, dbsqlc.CompleteJobParams{Output: output, ID: change.JobID}); err != nil || !c.left.Due {
			return err
		}
		if c.left.DueNow {
			c.left.DueAt = time.Time{}
		}
		return l.Insert.Extract(ctx, tx, change.ChatID, c.left.DueAt)
	})
	switch {
	case err == nil:
		return longterm.Committed, c.written, nil
	case errors.Is(err, errOvertaken):
		return longterm.Overtaken, longterm.Written{}, nil
	case errors.Is(err, errOutdated), sqlState(err) == pgerrcode.UniqueViolation && len(change.Operations) > 0:
		return longterm.Outdated, longterm.Written{}, nil
	}
	return longterm.Overtaken, longterm.Written{}, err
}

// learning is the transaction of one extraction.
type learning struct {
	change  longterm.Change
	apart   bool // each memory is written by itself: one that cannot be stored is left out
	owner   uuid.UUID
	held    map[uuid.UUID]bool      // evidence
	unread  bool                    // the range
	cleared int64                   // up to which the chat is cleared
	user    *dbsqlc.LockMemoriesRow // nil: the account is gone
	left    dbsqlc.AdvanceExtractionRow
	written longterm.Written
}

func (c *learning) lock() *pgx.Batch {
	c.held = map[uuid.UUID]bool{}
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	dbsqlc.ActAsChatOwner.Read(batch, c.change.ChatID, func(row dbsqlc.ActAsChatOwnerRow) { c.owner = row.UserID })
	if evidence := c.evidence(); len(evidence.Ids) > 0 {
		dbsqlc.HoldEvidence.Read(batch, evidence, func(id uuid.UUID) { c.held[id] = true })
	}
	dbsqlc.LockExtraction.Read(batch, dbsqlc.LockExtractionParams{
		ChatID: c.change.ChatID, ExtractedSeq: c.change.Planned.ExtractedSeq,
	}, func(cleared int64) { c.cleared, c.unread = cleared, true })
	dbsqlc.FindReturned.Read(batch, dbsqlc.FindReturnedParams{
		ChatID: c.change.ChatID, ExtractedSeq: c.change.Planned.ExtractedSeq, SeqTo: c.change.Range.To, ReadIds: c.read(),
	}, func(returned bool) { c.unread = c.unread && !returned })
	dbsqlc.LockMemories.Read(batch, c.change.ChatID, perhaps(&c.user))
	return batch
}

func (c *learning) read() []uuid.UUID {
	ids := make([]uuid.UUID, len(c.change.Planned.Messages))
	for n, m := range c.change.Planned.Messages {
		ids[n] = m.ID
	}
	return ids
}

func (c *learning) evidence() dbsqlc.HoldEvidenceParams {
	var params dbsqlc.HoldEvidenceParams
	seen := map[uuid.UUID]bool{}
	for n := range c.change.Operations {
		for _, e := range c.change.Operations[n].From.Evidence {
			if !seen[e.MessageID] {
				seen[e.MessageID] = true
				params.Ids, params.Digests = append(params.Ids, e.MessageID), append(params.Digests, e.Digest)
			}
		}
	}
	return params
}

// check compares the rows read with the rows now: the range, and what the user wants to be remembered of it.
func (c *learning) check() error {
	planned := &c.change.Planned
	switch {
	case c.owner == uuid.Nil || !c.unread || c.user == nil:
		return errOvertaken
	case c.user.Wanted != planned.Wanted || c.cleared != planned.ClearedSeq || !slices.Equal(c.user.Excluded, planned.Excluded):
		return errOvertaken
	case len(c.change.Operations) > 0 && c.user.Version != c.change.Version:
		return errOutdated
	}
	return nil
}

// write writes what changes memories.
func (c *learning) write(ctx context.Context, tx pgx.Tx) error {
	operations := c.kept()
	batch := &pgx.Batch{}
	if len(operations) > 0 || len(c.change.Used) > 0 {
		dbsqlc.TouchOwnMemories.Queue(batch, struct{}{})
	}
	for n := range operations {
		queue := func(op *longterm.Operation) error { return c.queueOperation(batch, op) }
		if c.apart {
			queue = func(op *longterm.Operation) error { return c.alone(ctx, tx, op) }
		}
		if err := queue(&operations[n]); err != nil {
			return err
		}
	}
	if len(c.change.Used) > 0 {
		dbsqlc.TouchUsedMemories.Queue(batch, c.change.Used)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// alone writes what becomes of one candidate, unless it cannot be stored.
func (c *learning) alone(ctx context.Context, tx pgx.Tx, op *longterm.Operation) error {
	before, batch := c.written, &pgx.Batch{}
	if err := c.queueOperation(batch, op); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, tx, func(part pgx.Tx) error { return part.SendBatch(ctx, batch).Close() })
	why := unstorable(err)
	if why == "" {
		return err
	}
	if c.written = before; why == "full" {
		c.written.Full++
	} else {
		c.written.Unstorable++
	}
	return nil
}

// unstorable says why Postgres, or a rule of the app's owner, does not take a row because of its values; "" for any other error.
func unstorable(err error) string {
	sent, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return ""
	case sent.ConstraintName == memoriesFull:
		return "full"
	case pgerrcode.IsDataException(sent.Code), pgerrcode.IsProgramLimitExceeded(sent.Code),
		sent.Code == pgerrcode.CheckViolation, sent.Code == pgerrcode.RaiseException:
		return "unstorable"
	}
	return ""
}

// ledger queues the entry in the ledger. It also returns the output of the job.
func (c *learning) ledger() (batch *pgx.Batch, output []byte, err error) {
	batch = &pgx.Batch{}
	reasons := map[string]int{} // no null
	maps.Copy(reasons, c.change.Stats.Dropped)
	for reason, n := range map[string]int{"full": c.written.Full, "unstorable": c.written.Unstorable} {
		if n > 0 {
			reasons[reason] = n
		}
	}
	dropped, err := json.Marshal(reasons)
	output, errOutput := json.Marshal(c.change.Report(c.written))
	r, stats := c.change.Range, c.change.Stats
	dbsqlc.InsertExtraction.Queue(batch, dbsqlc.InsertExtractionParams{
		ID: c.change.ID, ChatID: c.change.ChatID, UserID: c.owner, SeqFrom: r.From, SeqTo: r.To, Turns: r.Turns, Result: string(c.change.Ledger),
		Candidates: stats.Candidates, Added: c.written.Added, Updated: c.written.Updated, Superseded: c.written.Superseded, Noops: c.written.Noops,
		Dropped: dropped, Calls: stats.Calls, InputTokens: int64(stats.InputTokens), OutputTokens: int64(stats.OutputTokens),
		Model: stats.Model, PromptRef: stats.PromptRef, DurationMs: int(stats.Duration.Milliseconds()),
	})
	dbsqlc.AdvanceExtraction.Read(batch, dbsqlc.AdvanceExtractionParams{
		SeqTo: r.To, DelaySeconds: c.change.Delay.Seconds(), ChatID: c.change.ChatID,
	}, set(&c.left))
	dbsqlc.NotifyRead.Queue(batch, c.change.ChatID)
	queueActAsServer(batch)
	return batch, output, errors.Join(err, errOutput)
}

// kept returns the operations whose evidence has not changed since it was read.
func (c *learning) kept() []longterm.Operation {
	var kept []longterm.Operation
	for _, op := range c.change.Operations {
		from, ok := op.From.Keep(func(id uuid.UUID) bool { return c.held[id] })
		if !ok {
			c.written.Erased++
			continue
		}
		op.From = from
		kept = append(kept, op)
	}
	return kept
}

// queueOperation queues what becomes of one candidate, each change of a memory with its note.
func (c *learning) queueOperation(batch *pgx.Batch, op *longterm.Operation) error {
	target := op.Memory
	switch op.Action {
	case longterm.Add:
		target = op.ID
		c.written.Added++
		c.queueInsert(batch, op)
	case longterm.Delete:
		target = op.ID
		c.written.Added++
		superseded := append([]uuid.UUID{op.Memory}, op.Also...)
		c.written.Superseded += len(superseded)
		c.note(batch, longterm.Delete, op.Reason)
		dbsqlc.SupersedeMemories.Queue(batch, dbsqlc.SupersedeMemoriesParams{SupersededBy: op.ID, ValidTo: nullTime(op.ValidTo), Ids: superseded})
		c.queueInsert(batch, op)
	case longterm.Update:
		c.written.Updated++
		c.queueMerge(batch, op)
	default: // longterm.Noop, longterm.Unarchive
		c.written.Noops++
		c.queueMerge(batch, op)
	}
	c.queueSources(batch, op, target)
	return c.queueLinks(batch, op, target)
}

func (c *learning) note(batch *pgx.Batch, action longterm.Action, reason string) {
	stats := c.change.Stats
	dbsqlc.NoteChange.Queue(batch, dbsqlc.NoteChangeParams{
		Action: string(action), Reason: reason, Actor: "model", Model: &stats.Model, PromptRef: &stats.PromptRef,
	})
}

// queueMerge queues what a candidate changes of a memory, which gets new words from an update alone.
func (c *learning) queueMerge(batch *pgx.Batch, op *longterm.Operation) {
	c.note(batch, op.Action, op.Reason)
	params := dbsqlc.MergeMemoryParams{
		ID: op.Memory, Confidence: op.Confidence, Durable: op.From.Durable, Status: nullZero(string(op.Status)),
		ValidFrom: nullTime(op.From.ValidFrom), ValidPrecision: nullZero(string(op.From.Precision)),
	}
	if op.Action == longterm.Update {
		params.Content = &op.Content
		params.Embedding, params.EmbeddingModel = c.vector(op)
	}
	dbsqlc.MergeMemory.Queue(batch, params)
}

// queueInsert queues the memory that a candidate becomes.
func (c *learning) queueInsert(batch *pgx.Batch, op *longterm.Operation) {
	status := op.Status
	if status == "" {
		status = longterm.Active
	}
	if status == longterm.Inbox {
		c.written.Inbox++
	}
	validTo := op.From.ValidTo
	if op.SupersededBy != uuid.Nil {
		validTo = op.ValidTo
	}
	c.note(batch, longterm.Add, op.Reason)
	embedding, model := c.vector(op)
	dbsqlc.InsertMemory.Queue(batch, dbsqlc.InsertMemoryParams{
		ID: op.ID, UserID: c.owner, Content: op.Content, MemoryType: string(op.From.Type), Confidence: op.Confidence, Durable: op.From.Durable,
		Status: string(status), ChatID: c.change.ChatID, Embedding: embedding, EmbeddingModel: model, Lang: nullZero(op.From.Lang),
		ValidFrom: nullTime(op.From.ValidFrom), ValidTo: nullTime(validTo), ValidPrecision: nullZero(string(op.From.Precision)),
		SupersededBy: nullID(op.SupersededBy), ConflictsWith: nullID(op.ConflictsWith),
	})
}

// vector returns the vector of the written text, and its model; nil for none.
func (c *learning) vector(op *longterm.Operation) (embedding, model *string) {
	if op.Vector == nil || c.change.VectorModel == "" {
		return nil, nil
	}
	return new(vectorText(op.Vector)), &c.change.VectorModel
}

func (c *learning) queueSources(batch *pgx.Batch, op *longterm.Operation, memoryID uuid.UUID) {
	params := dbsqlc.InsertSourcesParams{MemoryID: memoryID, UserID: c.owner, ChatID: c.change.ChatID, ExtractionID: c.change.ID}
	for _, e := range op.From.Evidence {
		fact := ""
		if e.Alone {
			fact = op.From.Fact
		}
		params.MessageIds, params.Seqs, params.Facts = append(params.MessageIds, e.MessageID), append(params.Seqs, e.Seq), append(params.Facts, fact)
		params.Quotes, params.SaidAts = append(params.Quotes, e.Quote), append(params.SaidAts, e.SaidAt)
	}
	dbsqlc.InsertSources.Queue(batch, params)
}

// queueLinks queues what the graph learns of the candidate, after its words are written.
func (c *learning) queueLinks(batch *pgx.Batch, op *longterm.Operation, memoryID uuid.UUID) error {
	entities, err := json.Marshal(append([]longterm.Entity{}, op.From.Entities...))
	relationships, errRelationships := json.Marshal(append([]longterm.Relationship{}, op.From.Relationships...))
	dbsqlc.LinkMemory.Queue(batch, dbsqlc.LinkMemoryParams{MemoryID: memoryID, Entities: entities, Relationships: relationships})
	return errors.Join(err, errRelationships)
}

// nullTime is null for the zero time.
func nullTime(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
