package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
)

// topicOf makes a topic of all turns of a chat, with vectors.
func (b *bed) topicOf(chatID uuid.UUID) uuid.UUID {
	b.t.Helper()
	id := uuid.New()
	b.exec(`insert into topics (id, chat_id, user_id, number, title, title_seq, created_at, last_active_at, first_seq, last_seq, message_count)
		select $1, c.id, c.user_id, 1, 'Words', 1, now(), now(), 1, c.last_seq, c.message_count from chats c where c.id = $2`, id, chatID)
	b.exec("update turn_index set topic_id = $1, topic_model = 'm', embedding = $3, embedding_model = 'm' where chat_id = $2", id, chatID, vectorText(axis(1)))
	return id
}

// asOwner does work as an assignment does it: with the rights of the chat's owner, after the lock of the brief.
func (b *bed) asOwner(chatID uuid.UUID, work func(*pgx.Batch)) {
	b.t.Helper()
	batch := &pgx.Batch{}
	dbsqlc.ActAsChatOwner.Queue(batch, chatID)
	dbsqlc.LockOwnBrief.Queue(batch, chatID)
	work(batch)
	noError(b.t, b.pool.SendBatch(b.t.Context(), batch).Close())
}

// packed is what tests compare of a topic.
type packed struct {
	State        string
	CompactedSeq int64
	Archived     int
	Rehydrated   bool
	// Vectors and Resting count turns.
	Vectors, Resting int
	Summary          string
}

func (b *bed) wantPacked(topicID uuid.UUID, want packed) {
	b.t.Helper()
	got := rowsOf[packed](b, `select state, compacted_seq, compacted_messages, rehydrated,
		(select count(*) from turn_index i where i.topic_id = t.id and embedding is not null), (select count(*) from turn_index i where i.topic_id = t.id
		  and resting),
		coalesce(summary, '') from topics t where id = $1`, topicID)
	is(b.t, got, []packed{want}, "the topic")
}

func TestTopicIsArchivedAndUnpacked(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.indexedTurns(5)
	topicID := b.topicOf(chatID)
	b.exec("update topics set summary = 'They talked.', summary_seq = 4, summary_tokens = 3, rehydrated = true where id = $1", topicID)
	b.asOwner(chatID, func(batch *pgx.Batch) { queueArchive(batch, chatID, topicID) })
	b.wantPacked(topicID, packed{State: "archived", CompactedSeq: 10, Archived: 10, Resting: 5, Summary: "They talked."})
	s, _, err := NewPacks(b.pool).Read(t.Context(), chatID, topicID)
	mustBe(t, tuple(err, len(s.Messages), s.State, s.Current), tuple(nil, 10, topics.Archived, false), "%+v", s)

	b.asOwner(chatID, func(batch *pgx.Batch) { queueRehydrate(batch, chatID, topicID) })
	b.wantPacked(topicID, packed{State: "active", Rehydrated: true, Summary: "They talked."})
	is(t, ask[int64](b, "select summary_seq from topics where id = $1", topicID), 4, "the summary is of the messages up to")
}

func TestPacksAreOfTheChatsOwner(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.indexedTurns(3)
	topicID := b.topicOf(chatID)
	other := b.newUser()
	otherChat := ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", other.UserID)
	packs := NewPacks(b.pool)
	if s, found, err := packs.Read(t.Context(), otherChat, topicID); err != nil || found || len(s.Messages) != 0 {
		t.Errorf("another's topic: %+v, %v, %v", s, found, err)
	}
	held := work.Lease{Kind: work.Compact, Key: topicID, ChatID: chatID, Token: uuid.New(), Duration: time.Minute}
	claim, _, err := b.work.Claim(t.Context(), held)
	mustBe(t, tuple(err, claim), tuple(nil, work.Taken), "claim")
	s, found, err := packs.Read(t.Context(), chatID, topicID)
	mustBe(t, tuple(err, found, s.UserID, len(s.Messages), s.Current), tuple(nil, true, b.user.UserID, 6, true), "%+v", s)
	change := pack.Change{ChatID: otherChat, TopicID: topicID, Lease: held, Planned: s, Summary: "Stolen.", SummarySeq: 6}
	is(t, must(packs.Commit(t.Context(), change, nil))(t), false, "written by another")
	change.ChatID, change.Lease.Token = chatID, uuid.New()
	is(t, must(packs.Commit(t.Context(), change, nil))(t), false, "written without the lease")
	b.wantPacked(topicID, packed{State: "active", Vectors: 3})
}
