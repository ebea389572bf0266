package postgres

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/topics"
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
	queue(batch, queries.ActAsChatOwner, chatID)
	queueExec(batch, queries.LockOwnBrief, chatID)
	work(batch)
	if err := b.pool.SendBatch(b.t.Context(), batch).Close(); err != nil {
		b.t.Fatal(err)
	}
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
	rows, err := b.pool.Query(b.t.Context(), `select state, compacted_seq, compacted_messages, rehydrated,
		(select count(*) from turn_index i where i.topic_id = t.id and embedding is not null), (select count(*) from turn_index i where i.topic_id = t.id and resting),
		coalesce(summary, '') from topics t where id = $1`, topicID)
	if err != nil {
		b.t.Fatal(err)
	}
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[packed])
	if err != nil {
		b.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("the topic: (-want +got)\n%s", diff)
	}
}

func TestTopicIsArchivedAndUnpacked(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.indexedTurns(5)
	topicID := b.topicOf(chatID)
	b.exec("update topics set summary = 'They talked.', summary_seq = 4, summary_tokens = 3, rehydrated = true where id = $1", topicID)
	b.asOwner(chatID, func(batch *pgx.Batch) { queueArchive(batch, chatID, topicID) })
	b.wantPacked(topicID, packed{State: "archived", CompactedSeq: 10, Archived: 10, Resting: 5, Summary: "They talked."})
	s, _, err := NewPacks(b.pool).Claim(t.Context(), chatID, topicID, lease.Lease{Token: uuid.New(), Duration: time.Minute})
	if err != nil || len(s.Messages) != 10 || s.State != topics.Archived || s.Current {
		t.Fatalf("%+v, %v", s, err)
	}

	b.asOwner(chatID, func(batch *pgx.Batch) { queueRehydrate(batch, chatID, topicID) })
	b.wantPacked(topicID, packed{State: "active", Rehydrated: true, Summary: "They talked."})
	if seq := ask[int64](b, "select summary_seq from topics where id = $1", topicID); seq != 4 {
		t.Errorf("the summary is of the messages up to %d", seq)
	}
}

func TestPacksAreOfTheChatsOwner(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.indexedTurns(3)
	topicID := b.topicOf(chatID)
	other := b.newUser()
	otherChat := ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", other.UserID)
	held := lease.Lease{Token: uuid.New(), Duration: time.Minute}
	packs := NewPacks(b.pool)
	if s, claim, err := packs.Claim(t.Context(), otherChat, topicID, held); err != nil || claim != lease.Gone || len(s.Messages) != 0 {
		t.Errorf("another's topic: %+v, %v, %v", s, claim, err)
	}
	s, claim, err := packs.Claim(t.Context(), chatID, topicID, held)
	if err != nil || claim != lease.Taken || s.UserID != b.user.UserID || len(s.Messages) != 6 || !s.Current {
		t.Fatalf("%+v, %v, %v", s, claim, err)
	}
	if renewed, err := packs.Renew(t.Context(), otherChat, topicID, held); err != nil || renewed {
		t.Errorf("renewed by another: %v, %v", renewed, err)
	}
	if renewed, err := packs.Renew(t.Context(), chatID, topicID, held); err != nil || !renewed {
		t.Errorf("renewed: %v, %v", renewed, err)
	}
	change := pack.Change{ChatID: otherChat, TopicID: topicID, Lease: held, Planned: s, Summary: "Stolen.", SummarySeq: 6}
	if written, err := packs.Commit(t.Context(), change, nil); err != nil || written {
		t.Errorf("written by another: %v, %v", written, err)
	}
	change.ChatID, change.Lease.Token = chatID, uuid.New()
	if written, err := packs.Commit(t.Context(), change, nil); err != nil || written {
		t.Errorf("written without the lease: %v, %v", written, err)
	}
	if err := packs.PutOff(t.Context(), chatID, topicID, held, time.Hour); err != nil {
		t.Fatal(err)
	}
	if s, _, err := packs.Claim(t.Context(), chatID, topicID, held); err != nil || !s.PutOff {
		t.Errorf("put off: %+v, %v", s, err)
	}
	b.wantPacked(topicID, packed{State: "active", Vectors: 3})
}
