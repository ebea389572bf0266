package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// UserTopics is the store of what a user sees of topics and changes.
type UserTopics struct {
	Pool    *pgxpool.Pool
	Options UserTopicsOptions
}

// UserTopicsOptions of a store. The functions insert a job in the caller's transaction.
type UserTopicsOptions struct {
	Settings topics.Settings
	// Index indexes a chat's turns, which then get their topics; nil where there are no topics.
	Index func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error
	// FromTheFirstTurn is set where chats have topics before they have a brief.
	FromTheFirstTurn bool
	// Compact makes the summary of a topic again; nil where there are no topics.
	Compact func(ctx context.Context, tx pgx.Tx, chatID, topicID uuid.UUID) error
}

var _ api.Topics = (*UserTopics)(nil)

// Contexts are short: the turns since the last one with a topic are assigned soon.
const mostUnassigned = 200

// ListTopics reads a page and one topic more, which shows that there is a next page.
func (u *UserTopics) ListTopics(ctx context.Context, user auth.Principal, chatID uuid.UUID, query api.TopicsQuery) (api.TopicPage, error) {
	var found []dbsqlc.UserTopicFindRow
	var unindexed bool
	err := sendAbout(ctx, u.Pool, user, chatID, "list topics", func(batch *pgx.Batch) {
		readTopics(batch, chatID, query, all(&found))
		if u.Options.Index != nil {
			asked := dbsqlc.UserTopicUnindexedParams{ChatID: chatID, FromTheFirstTurn: u.Options.FromTheFirstTurn}
			dbsqlc.UserTopicUnindexed.Read(batch, asked, set(&unindexed))
		}
	})
	if err == nil && unindexed {
		// The rights of who asks were checked. The job is inserted as the server.
		err = failed("have turns indexed", inTx(ctx, u.Pool, func(tx pgx.Tx) error { return u.Options.Index(ctx, tx, chatID) }))
	}
	page := api.TopicPage{Topics: []api.Topic{}}
	found, more := cut(found, query.Limit)
	if more && err == nil {
		last := found[query.Limit-1]
		page.Next = &api.TopicCursor{At: last.LastActiveAt, ID: last.ID}
	}
	for _, row := range found {
		page.Topics = append(page.Topics, u.shown(row).Topic)
	}
	return page, err
}

func readTopics(batch *pgx.Batch, chatID uuid.UUID, query api.TopicsQuery, take func(dbsqlc.UserTopicFindRow)) {
	if query.Text != "" {
		dbsqlc.UserTopicSearch.Read(batch, dbsqlc.UserTopicSearchParams{
			ChatID: chatID, Words: query.Text, State: query.State, Tag: query.Tag, Most: query.Limit,
		}, take)
		return
	}
	params := dbsqlc.UserTopicListParams{ChatID: chatID, State: query.State, Tag: query.Tag, Most: query.Limit + 1}
	if query.After != nil {
		params.AfterActiveAt, params.AfterID = &query.After.At, query.After.ID
	}
	dbsqlc.UserTopicList.Read(batch, params, take)
}

// shown is a topic as its owner sees it now.
func (u *UserTopics) shown(row dbsqlc.UserTopicFindRow) api.OneTopic {
	s, topic := u.Options.Settings, row.OneTopic
	topic.Summary = nullZero(zeroNull(topic.Summary))
	topic.MemoryType, topic.HalfLifeDays = string(s.MemoryTypeOf(topic.AccessCount)), days(s, topic.AccessCount)
	topic.Priority = s.Priority(float64(topic.Importance), topic.AccessCount, seconds(row.InactiveSeconds))
	return topic
}

func days(s topics.Settings, accesses int) float64 { return s.HalfLifeOf(accesses).Hours() / 24 }

// topicID is null for the current topic.
func topicID(ref api.TopicRef) uuid.NullUUID {
	return uuid.NullUUID{UUID: ref.ID, Valid: !ref.Current}
}

func queueTopic(batch *pgx.Batch, ref api.TopicRef, found *dbsqlc.UserTopicFindRow) {
	dbsqlc.UserTopicFind.Read(batch, dbsqlc.UserTopicFindParams{ChatID: ref.ChatID, TopicID: topicID(ref)}, set(found))
}

func (u *UserTopics) find(ctx context.Context, user auth.Principal, ref api.TopicRef) (found dbsqlc.UserTopicFindRow, err error) {
	err = sendAbout(ctx, u.Pool, user, ref.ChatID, "find topic", func(batch *pgx.Batch) { queueTopic(batch, ref, &found) })
	return found, cmp.Or(err, missing(found.ID, api.NoTopic))
}

// missing returns an error for an id that was not found.
func missing(id uuid.UUID, otherwise func() error) error {
	if id == uuid.Nil {
		return otherwise()
	}
	return nil
}

// FindTopic reads a topic.
func (u *UserTopics) FindTopic(ctx context.Context, user auth.Principal, ref api.TopicRef) (api.OneTopic, error) {
	found, err := u.find(ctx, user, ref)
	return u.shown(found), err
}

// ChangeTopic changes a topic and reads it.
func (u *UserTopics) ChangeTopic(ctx context.Context, user auth.Principal, ref api.TopicRef, change api.TopicChange) (api.OneTopic, error) {
	found, err := u.find(ctx, user, ref)
	if err != nil {
		return api.OneTopic{}, err
	}
	ref = api.TopicRef{ChatID: ref.ChatID, ID: found.ID} // the current one may be another in a moment
	params := dbsqlc.UserTopicChangeParams{
		ChatID: ref.ChatID, TopicID: found.ID, Title: change.Title, Tags: zeroNull(change.Tags), Importance: real32(change.Importance),
	}
	var changed bool
	err = sendAbout(ctx, u.Pool, user, ref.ChatID, "change topic", func(batch *pgx.Batch) {
		dbsqlc.UserTopicChange.Queue(batch, params).Exec(affects(1, &changed))
		queueTopic(batch, ref, &found)
	})
	return u.shown(found), cmp.Or(err, missing(found.ID, api.NoTopic), allowed(changed, "topics"))
}

// TopicStats counts a topic's messages.
func (u *UserTopics) TopicStats(ctx context.Context, user auth.Principal, ref api.TopicRef) (api.TopicStats, error) {
	var stats api.TopicStats
	err := sendAbout(ctx, u.Pool, user, ref.ChatID, "count a topic's messages", func(batch *pgx.Batch) {
		dbsqlc.UserTopicCounts.Read(batch, dbsqlc.UserTopicCountsParams{ChatID: ref.ChatID, TopicID: topicID(ref)}, set(&stats))
	})
	settings := u.Options.Settings
	stats.MemoryType, stats.HalfLifeDays = string(settings.MemoryTypeOf(stats.AccessCount)), days(settings, stats.AccessCount)
	return stats, cmp.Or(err, missing(stats.TopicID, api.NoTopic))
}

// messages reads the messages of a topic: the packed and the active ones, or the active ones alone.
func (u *UserTopics) messages(
	ctx context.Context, user auth.Principal, ref api.TopicRef, all bool,
) (packed, active []topics.Entry, err error) {
	var row dbsqlc.UserTopicMessagesRow
	err = sendAbout(ctx, u.Pool, user, ref.ChatID, "read a topic's messages", func(batch *pgx.Batch) {
		params := dbsqlc.UserTopicMessagesParams{ChatID: ref.ChatID, TopicID: topicID(ref), AllOfThem: all}
		dbsqlc.UserTopicMessages.Read(batch, params, set(&row))
	})
	if err = cmp.Or(err, missing(row.ID, api.NoTopic)); err != nil {
		return nil, nil, err
	}
	stored := make([]topics.Entry, len(row.Roles))
	for n := range stored {
		stored[n] = topics.NewEntry(row.Roles[n], row.Contents[n], row.SaidAt[n])
	}
	return stored[:row.Compressed], stored[row.Compressed:], nil
}

// TopicHistory reads messages of a topic.
func (u *UserTopics) TopicHistory(
	ctx context.Context, user auth.Principal, ref api.TopicRef, query api.TopicHistoryQuery,
) (api.TopicHistory, error) {
	packed, active, err := u.messages(ctx, user, ref, query.IncludeCompressed)
	said := api.TopicHistory{Messages: []api.TopicMessage{}}
	for _, entry := range slices.Concat(packed, active) {
		said.Messages = append(said.Messages, api.TopicMessage{Role: entry.Role, Content: entry.Content, Timestamp: entry.Timestamp})
	}
	return said, err
}

// TopicArchive makes the archive of a topic's packed messages.
func (u *UserTopics) TopicArchive(ctx context.Context, user auth.Principal, ref api.TopicRef) (api.TopicArchive, error) {
	packed, _, err := u.messages(ctx, user, ref, true)
	if err != nil || len(packed) == 0 {
		return api.TopicArchive{}, err
	}
	archive, err := topics.Archive(packed)
	return api.TopicArchive{CompressedMessages: &archive}, err
}

// TopicContext reads the summary and the active messages of a topic.
func (u *UserTopics) TopicContext(ctx context.Context, user auth.Principal, ref api.TopicRef) (api.TopicContext, error) {
	var found dbsqlc.UserTopicFindRow
	var said api.TopicContext
	err := sendAbout(ctx, u.Pool, user, ref.ChatID, "read a topic's context", func(batch *pgx.Batch) {
		queueTopic(batch, ref, &found)
		params := dbsqlc.UserTopicContextParams{ChatID: ref.ChatID, TopicID: topicID(ref), Most: mostUnassigned, MostWithout: u.Options.Settings.MaxMessages}
		dbsqlc.UserTopicContext.Read(batch, params, all(&said.Messages))
	})
	for n := range said.Messages {
		if message := &said.Messages[n]; message.Role == "system" {
			message.Content = api.SummaryPrefix + message.Content
		}
	}
	if err == nil && !ref.Current {
		err = missing(found.ID, api.NoTopic)
	}
	return said, err
}

// RateMessage stores a rating and moves the importance of the message's topic.
func (u *UserTopics) RateMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, feedback api.Feedback) (rated api.Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err = inTx(ctx, u.Pool, func(tx pgx.Tx) error {
		rated, err = rateMessage(ctx, tx, user, messageID, *feedback.Rating)
		return err
	})
	return rated, failed("rate message", err)
}

func rateMessage(ctx context.Context, tx pgx.Tx, user auth.Principal, messageID uuid.UUID, rating int) (api.Message, error) {
	var chat dbsqlc.ChatStateRow
	var rated api.Message
	var changed bool
	batch := &pgx.Batch{}
	queueActAs(batch, user)
	dbsqlc.FindMessagesChat.Read(batch, messageID, set(&chat))
	dbsqlc.ChangeMessage.Queue(batch, dbsqlc.ChangeMessageParams{MessageID: messageID, Rating: &rating}).Exec(affects(1, &changed))
	dbsqlc.FindMessage.Read(batch, messageID, set(&rated))
	err := tx.SendBatch(ctx, batch).Close()
	if err == nil && (chat.ID == uuid.Nil || rated.ID == uuid.Nil) {
		err = api.NoMessage()
	}
	err = cmp.Or(err, refusal(chat))
	switch {
	case err != nil:
		return api.Message{}, err
	case changed:
		return rated, rateTopic(ctx, tx, rated, rating)
	case rated.Rating == nil || int(*rated.Rating) != rating:
		return api.Message{}, notAllowed("messages")
	}
	return rated, nil
}

// rateTopic waits for who gives turns their topics at this moment: either that sees the rating, or this sees the topic.
func rateTopic(ctx context.Context, tx pgx.Tx, rated api.Message, rating int) error {
	var topic dbsqlc.UserTopicOfMessageRow
	batch := &pgx.Batch{}
	dbsqlc.LockBrief.Queue(batch, rated.ChatID)
	dbsqlc.UserTopicOfMessage.Read(batch, rated.ID, set(&topic))
	if err := tx.SendBatch(ctx, batch).Close(); err != nil || topic.ID == uuid.Nil {
		return err
	}
	const steps = 10_000 // a column of type real holds 0.9 as 0.8999999762, and ratings would add such remainders up
	importance := float32(math.Round(topics.Rate(float64(topic.Importance), rating)*steps) / steps)
	return dbsqlc.UserTopicChange.Run(ctx, tx, dbsqlc.UserTopicChangeParams{ChatID: rated.ChatID, TopicID: topic.ID, Importance: &importance})
}

// MergeTopic merges a topic into another of its chat, and has the summary made again.
func (u *UserTopics) MergeTopic(ctx context.Context, user auth.Principal, ref api.TopicRef, into uuid.UUID) (merged api.OneTopic, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err = inTx(ctx, u.Pool, func(tx pgx.Tx) error {
		merged, err = u.merge(ctx, tx, user, ref, into)
		return err
	})
	return merged, failed("merge topics", err)
}

func (u *UserTopics) merge(ctx context.Context, tx pgx.Tx, user auth.Principal, ref api.TopicRef, into uuid.UUID) (api.OneTopic, error) {
	var state dbsqlc.ChatStateRow
	var from, kept dbsqlc.UserTopicFindRow
	batch := &pgx.Batch{}
	queueActAs(batch, user)
	dbsqlc.ChatState.Read(batch, ref.ChatID, set(&state))
	dbsqlc.LockBrief.Queue(batch, ref.ChatID)
	queueTopic(batch, ref, &from)
	queueTopic(batch, api.TopicRef{ChatID: ref.ChatID, ID: into}, &kept)
	err := tx.SendBatch(ctx, batch).Close()
	if err = cmp.Or(err, refusal(state), missing(from.ID, api.NoTopic), missing(kept.ID, api.NoTopic), mergeable(from, kept)); err != nil {
		return api.OneTopic{}, err
	}
	locked, merged := false, false
	batch = &pgx.Batch{}
	dbsqlc.UserTopicLock.Queue(batch, dbsqlc.UserTopicLockParams{One: from.ID, Other: into}).Exec(affects(2, &locked))
	dbsqlc.AssignMerge.Read(batch, dbsqlc.AssignMergeParams{FromTopic: from.ID, IntoTopic: into}, set(&merged))
	queueTopic(batch, api.TopicRef{ChatID: ref.ChatID, ID: into}, &kept)
	queueActAsServer(batch)
	err = cmp.Or(tx.SendBatch(ctx, batch).Close(), allowed(locked && merged, "topics"))
	if err == nil && u.Options.Compact != nil {
		err = u.Options.Compact(ctx, tx, ref.ChatID, into)
	}
	return u.shown(kept), err
}

// mergeable returns why a topic cannot be merged into another, or nil.
func mergeable(from, into dbsqlc.UserTopicFindRow) error {
	wrong := ""
	switch {
	case from.ID == into.ID:
		wrong = "is the same topic"
	case into.State == string(topics.Merged):
		wrong = "is merged into another topic"
	case from.State == string(topics.Merged):
		wrong = "cannot have it: the topic in the path is merged already"
	}
	if wrong == "" {
		return nil
	}
	return fault.With(fault.ValidationFailed, "These topics cannot be merged.", map[string]any{"into": wrong})
}

// seconds is a time that has passed. Messages may be dated further back than a time.Duration reaches.
func seconds(passed float64) time.Duration {
	const century = 100 * 365 * 24 * 60 * 60
	return time.Duration(min(passed, century) * float64(time.Second))
}
