package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/topics"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Assignments is the store of the topics of turns.
type Assignments struct {
	Pool   *pgxpool.Pool
	Insert Insert
}

var _ topics.AssignStore = (*Assignments)(nil)

// Wanted reports whether a chat has topics, and turns for them.
func (a *Assignments) Wanted(ctx context.Context, chatID uuid.UUID, in topics.Scope) (bool, error) {
	rows, err := try(ctx, a.Pool, dbsqlc.AssignWanted.All, dbsqlc.AssignWantedParams{Mode: in.Mode, Model: in.Model, ChatID: chatID})
	return len(rows) > 0 && rows[0], failed("look for turns without topics", err)
}

// held is a chat whose topics this transaction alone changes.
type held struct {
	dbsqlc.AssignReadChatRow
	claimed bool
	cleared []*topics.Topic // that turns may leave, but not join
}

// hold reads the topics of a chat in a transaction that alone changes them, as the chat's owner, and then runs work. It may
// try again, so work must start from nothing each time.
func (a *Assignments) hold(ctx context.Context, chatID uuid.UUID, in topics.Scope, work func(pgx.Tx, *held, []*topics.Topic) error) error {
	return retry(ctx, a.Pool, func() error {
		var chat held
		var all []*topics.Topic
		batch := holdBatch(chatID, in, &chat, func(row dbsqlc.AssignReadTopicsRow) {
			if row.Cleared {
				chat.cleared = append(chat.cleared, &row.Topic)
			} else {
				all = append(all, &row.Topic)
			}
		})
		return sendInTx(ctx, a.Pool, batch, func(tx pgx.Tx) error {
			if !chat.claimed {
				return errOvertaken
			}
			return work(tx, &chat, all)
		})
	})
}

// holdBatch begins the transaction and queues what reads the chat.
func holdBatch(chatID uuid.UUID, in topics.Scope, chat *held, read func(dbsqlc.AssignReadTopicsRow)) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	dbsqlc.ActAsChatOwner.Queue(batch, chatID)
	dbsqlc.AssignClaim.Read(batch, chatID.String(), func(bool) { chat.claimed = true })
	dbsqlc.LockOwnBrief.Queue(batch, chatID)
	dbsqlc.AssignReadChat.Read(batch, dbsqlc.AssignReadChatParams{Mode: in.Mode, ChatID: chatID}, set(&chat.AssignReadChatRow))
	if in.Model != "" {
		dbsqlc.AssignRenew.Queue(batch, dbsqlc.AssignRenewParams{ChatID: chatID, Model: in.Model})
	}
	dbsqlc.AssignReadTopics.Read(batch, chatID, read)
	return batch
}

// Assign reads what a chat has, writes what decide makes of it, and inserts the jobs that come of that. It does nothing for a
// chat without topics.
func (a *Assignments) Assign(
	ctx context.Context, chatID uuid.UUID, in topics.Scope, most int, decide func(*topics.AssignSnapshot) *topics.Assignment,
) (bool, error) {
	err := a.hold(ctx, chatID, in, func(tx pgx.Tx, chat *held, all []*topics.Topic) error {
		snapshot := &topics.AssignSnapshot{Model: in.Model, Topics: all, Cleared: chat.cleared, LastNumber: chat.LastNumber}
		if chat.HasTopics {
			if err := errors.Join(readTurns(ctx, tx, chatID, snapshot, most), readGiven(chat.Imported, snapshot)); err != nil {
				return err
			}
		}
		change := decide(snapshot)
		left, err := writeAssignment(ctx, tx, chatID, chat, snapshot.Model, change, snapshot.Given)
		if err != nil {
			return err
		}
		return a.insertNext(ctx, tx, chatID, change, left)
	})
	return committed("assign topics", err)
}

// leftover is what an assignment leaves to do: topics that are to be compacted, and how many active ones there are.
type leftover struct {
	due    []uuid.UUID
	active int
}

// insertNext inserts the jobs that come of an assignment.
func (a *Assignments) insertNext(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, change *topics.Assignment, left leftover) error {
	if change.Report.More {
		if err := a.Insert(ctx, tx, work.Job{Name: work.AssignTopics, ChatID: chatID, Priority: work.Repair}); err != nil {
			return err
		}
	}
	for _, id := range left.due {
		if err := a.Insert.Compact(ctx, tx, chatID, id); err != nil {
			return err
		}
	}
	if len(change.New) > 0 && left.active > change.MaxTopics {
		return a.Insert(ctx, tx, work.Job{Name: work.DecayTopics})
	}
	return nil
}

// readTurns reads the turns for which a topic is to be chosen. While the vectors of active topics are made again after a
// change of the model, none is chosen by its vector.
func readTurns(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, s *topics.AssignSnapshot, most int) error {
	for _, t := range s.Topics {
		if t.State == topics.Active && t.Model != "" && t.Model != s.Model {
			s.Model = ""
		}
	}
	batch := &pgx.Batch{}
	params := dbsqlc.AssignReadTurnsParams{Model: s.Model, Most: most, ChatID: chatID}
	dbsqlc.AssignReadTurns.Read(batch, params, all(&s.Turns))
	err := tx.SendBatch(ctx, batch).Close()
	s.More = len(s.Turns) == most
	return err
}

// writeAssignment writes the decision, and completes the job. Afterwards the transaction acts as the server.
func writeAssignment(
	ctx context.Context, tx pgx.Tx, chatID uuid.UUID, chat *held, model string, change *topics.Assignment, given []*topics.Given,
) (left leftover, err error) {
	batch := &pgx.Batch{}
	for _, t := range change.New {
		dbsqlc.AssignInsertTopic.Queue(batch, newTopicParams(chatID, t))
	}
	for _, t := range change.Changed {
		dbsqlc.AssignUpdateTopic.Queue(batch, topicParams(chatID, t))
	}
	for _, t := range change.Retitled {
		dbsqlc.AssignRetitle.Queue(batch, dbsqlc.AssignRetitleParams{ID: t.ID, ChatID: chatID, Title: t.Title, TitleSeq: t.TitleSeq})
	}
	if len(change.Chosen) > 0 {
		dbsqlc.AssignTurns.Queue(batch, chosenParams(chatID, change.Chosen))
	}
	for _, id := range change.Recounted {
		dbsqlc.AssignRecount.Queue(batch, dbsqlc.AssignRecountParams{ChatID: chatID, TopicID: id})
	}
	if chat.HasTopics {
		advance := dbsqlc.AssignAdvanceParams{ChatID: chatID, IsAll: !change.Report.More, Model: model}
		if last := len(change.Chosen) - 1; last >= 0 {
			advance.AssignedSeq = change.Chosen[last].Seq
		}
		dbsqlc.AssignAdvance.Queue(batch, advance)
		if err := queueGiven(batch, chatID, change, given); err != nil {
			return left, err
		}
	} else {
		dbsqlc.AssignNothing.Queue(batch, chatID)
	}
	for _, id := range change.Returned {
		queueRehydrate(batch, chatID, id)
	}
	return left, finishAssignment(ctx, tx, batch, chatID, chat, change, &left)
}

// finishAssignment sends a batch, finds what comes of the change, and completes the job.
func finishAssignment(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, chatID uuid.UUID, chat *held, change *topics.Assignment, left *leftover) error {
	output, err := json.Marshal(change.Report)
	if err != nil {
		return err
	}
	if chat.HasTopics {
		dbsqlc.AssignReadDue.Read(batch, dbsqlc.AssignReadDueParams{ChatID: chatID, MaxMessages: change.MaxMessages}, func(id uuid.UUID) {
			left.due = append(left.due, id)
		})
		dbsqlc.AssignCountActive.Read(batch, chatID, set(&left.active))
	}
	queueActAsServer(batch)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil || change.JobID == 0 {
		return err
	}
	// Not in the batch: Postgres would prepare it with the rights of the chat's owner.
	return dbsqlc.CompleteJob.Run(ctx, tx, dbsqlc.CompleteJobParams{Output: output, ID: change.JobID})
}

// centroidOf returns the columns of a topic's centroid.
func centroidOf(t *topics.Topic) (vector, model *string, turns int) {
	if t.Centroid == nil {
		return nil, nil, 0
	}
	return new(vectorText(t.Centroid)), &t.Model, t.CentroidTurns
}

func newTopicParams(chatID uuid.UUID, t topics.Titled) dbsqlc.AssignInsertTopicParams {
	centroid, model, turns := centroidOf(t.Topic)
	return dbsqlc.AssignInsertTopicParams{
		ID: t.ID, ChatID: chatID, Number: t.Number, Title: t.Title, TitleSeq: t.TitleSeq, Importance: t.Importance, ImportanceRated: t.Rated,
		AccessCount: t.AccessCount, MessageCount: t.MessageCount, Centroid: centroid, EmbeddingModel: model, CentroidTurns: turns,
		CreatedAt: t.CreatedAt, LastActiveAt: t.LastActiveAt, FirstSeq: t.FirstSeq, LastSeq: t.LastSeq,
	}
}

func topicParams(chatID uuid.UUID, t *topics.Topic) dbsqlc.AssignUpdateTopicParams {
	centroid, model, turns := centroidOf(t)
	return dbsqlc.AssignUpdateTopicParams{
		ID: t.ID, ChatID: chatID, Importance: t.Importance, ImportanceRated: t.Rated, AccessCount: t.AccessCount, MessageCount: t.MessageCount,
		Centroid: centroid, EmbeddingModel: model, CentroidTurns: turns,
		CreatedAt: t.CreatedAt, LastActiveAt: t.LastActiveAt, FirstSeq: t.FirstSeq, LastSeq: t.LastSeq,
	}
}

func chosenParams(chatID uuid.UUID, chosen []topics.Chosen) dbsqlc.AssignTurnsParams {
	params := dbsqlc.AssignTurnsParams{ChatID: chatID}
	for _, c := range chosen {
		params.Seqs, params.TopicIds = append(params.Seqs, c.Seq), append(params.TopicIds, c.TopicID)
		params.TopicModels, params.Open = append(params.TopicModels, zeroNull(c.Model)), append(params.Open, c.Model == nil)
	}
	return params
}

// Fading looks at the next chats whose topics may have faded.
func (a *Assignments) Fading(ctx context.Context, after topics.Faded, maxTopics, most int) ([]topics.Faded, error) {
	params := dbsqlc.AssignLookAtFadingParams{AfterAt: after.At, After: after.ChatID, MaxTopics: maxTopics, Most: most}
	chats, err := dbsqlc.AssignLookAtFading.All(ctx, a.Pool, params)
	return chats, failed("find chats with many topics", err)
}

// Alike looks at the next chats whose topics have changed.
func (a *Assignments) Alike(ctx context.Context, after uuid.UUID, model string, cosine float64, most int) ([]topics.Compared, error) {
	chats, err := dbsqlc.AssignLookAtAlike.All(ctx, a.Pool, dbsqlc.AssignLookAtAlikeParams{Model: model, After: after, Cosine: cosine, Most: most})
	return chats, failed("find topics that are the same", err)
}

// Archive archives the topics of a chat that choose returns.
func (a *Assignments) Archive(ctx context.Context, chatID uuid.UUID, choose func([]topics.Topic) ([]uuid.UUID, *time.Time)) (archived int, err error) {
	err = a.change(ctx, chatID, func(tx pgx.Tx, all []topics.Topic) error {
		ids, next := choose(all)
		archived = len(ids)
		batch := &pgx.Batch{}
		for _, id := range ids {
			queueArchive(batch, chatID, id)
		}
		dbsqlc.AssignFadeAt.Queue(batch, dbsqlc.AssignFadeAtParams{ChatID: chatID, FadeAt: next})
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return 0, failed("archive topics", err)
	}
	return archived, nil
}

// Merge merges the topics of a chat that choose returns, and has those compacted that others were merged into.
func (a *Assignments) Merge(ctx context.Context, chatID uuid.UUID, choose func([]topics.Topic) []topics.Merge) (merged int, err error) {
	err = a.change(ctx, chatID, func(tx pgx.Tx, all []topics.Topic) error {
		merged = 0
		changed := map[uuid.UUID]bool{}
		if err := dbsqlc.AssignCompared.Run(ctx, tx, chatID); err != nil {
			return err
		}
		for _, m := range choose(all) {
			done, err := dbsqlc.AssignMerge.One(ctx, tx, dbsqlc.AssignMergeParams{FromTopic: m.From, IntoTopic: m.Into})
			if err != nil {
				return err
			}
			if done {
				merged++
				delete(changed, m.From)
				changed[m.Into] = true
			}
		}
		if err := dbsqlc.ActAsServer.Run(ctx, tx, struct{}{}); err != nil {
			return err
		}
		for id := range changed {
			if err := a.Insert.Compact(ctx, tx, chatID, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, failed("merge topics", err)
	}
	return merged, nil
}

// change runs work in a transaction that alone changes the topics of a chat, as its owner. It does nothing if somebody else
// does.
func (a *Assignments) change(ctx context.Context, chatID uuid.UUID, work func(tx pgx.Tx, all []topics.Topic) error) error {
	err := a.hold(ctx, chatID, topics.Scope{}, func(tx pgx.Tx, _ *held, found []*topics.Topic) error {
		all := make([]topics.Topic, len(found))
		for n := range found {
			all[n] = *found[n]
		}
		return work(tx, all)
	})
	if errors.Is(err, errOvertaken) {
		return nil
	}
	return err
}

// readGiven reads the topics of an imported file, and gives them to their turns.
func readGiven(imported json.RawMessage, s *topics.AssignSnapshot) error {
	if err := json.Unmarshal(imported, &s.Given); err != nil {
		return fmt.Errorf("read imported topics: %w", err)
	}
	by := map[int64]*topics.Given{}
	for _, given := range s.Given {
		for _, seq := range given.Turns {
			by[seq] = given
		}
	}
	for n := range s.Turns {
		s.Turns[n].Given = by[s.Turns[n].Seq]
	}
	return nil
}

// queueGiven gives the topics that were made now the person's choices for them, and keeps the rest of the work.
func queueGiven(batch *pgx.Batch, chatID uuid.UUID, change *topics.Assignment, given []*topics.Given) error {
	if len(given) == 0 {
		return nil
	}
	rows := make([]topics.Given, len(given))
	last := int64(0)
	for n, g := range given {
		rows[n] = *g
		last = max(last, slices.Max(append(g.Turns, 0)))
		if g.TopicID == nil {
			continue
		}
		rows[n].Title, rows[n].Tags = nil, []string{}
		if slices.ContainsFunc(change.New, func(t topics.Titled) bool { return t.ID == *g.TopicID }) {
			dbsqlc.AssignGive.Queue(batch, dbsqlc.AssignGiveParams{ID: *g.TopicID, ChatID: chatID, Title: g.Title, Tags: g.Tags})
		}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("keep imported topics: %w", err)
	}
	dbsqlc.AssignKeepImported.Queue(batch, dbsqlc.AssignKeepImportedParams{ChatID: chatID, LastSeq: last, Imported: encoded})
	return nil
}
