package postgres

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// However many insert at once, in whatever order their transactions end, and though some are rolled back: the
// messages of a chat are numbered 1, 2, 3 … without a gap, in the order of the commits.
func TestSeqIsGaplessInCommitOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const writers, each = 10, 100
	chats := []uuid.UUID{
		ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", b.user.UserID),
		ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", b.user.UserID),
	}
	b.exec("create table committed (place bigserial, message uuid)")
	failed := make([]error, writers)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			for range each {
				failed[i] = errors.Join(failed[i], b.insertOne(chats[rand.IntN(2)], rand.IntN(5) == 0))
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	for _, chatID := range chats {
		// The place is drawn as the last thing of a transaction that still holds the chat, so it follows its commit.
		wrong := ask[int](b, `select count(*) from (select m.seq, row_number() over (order by c.place) as n
			from messages m join committed c on c.message = m.id where m.chat_id = $1) s where seq <> n`, chatID)
		if wrong != 0 {
			t.Errorf("%d messages are out of order", wrong)
		}
		if got := ask[bool](b, "select count(*) = max(m.seq) and max(m.seq) = max(c.last_seq) from messages m join chats c on c.id = m.chat_id where c.id = $1", chatID); !got {
			t.Error("there are gaps")
		}
	}
	b.checkCounters()
}

var errRollBack = errors.New("roll back")

// insertOne adds a message in its own transaction, with yields between the statements.
func (b *bed) insertOne(chatID uuid.UUID, rollBack bool) error {
	ctx := b.t.Context()
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select 1"); err != nil {
			return err
		}
		id := uuid.New()
		if _, err := tx.Exec(ctx, "insert into messages (id, chat_id, role, content) values ($1, $2, 'user', 'x')", id, chatID); err != nil {
			return err
		}
		if rollBack {
			return errRollBack
		}
		_, err := tx.Exec(ctx, "insert into committed (message) values ($1)", id)
		return err
	})
	if errors.Is(err, errRollBack) {
		return nil
	}
	return err
}

// One statement with many rows, and one whose rows are skipped, leave no gap either.
func TestSeqOfManyRowsAndOfSkippedOnes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	b.exec("insert into messages (chat_id, role, content) select $1, 'user', 'line ' || n from generate_series(1, 50) n order by n", chatID)
	b.exec("insert into messages (id, chat_id, role, content) select id, chat_id, role, content from messages on conflict do nothing")
	b.exec("insert into messages (chat_id, role, content) values ($1, 'user', 'the last')", chatID)
	if got := ask[int](b, "select seq from messages where content = 'the last'"); got != 53 {
		t.Errorf("the last one is %d", got)
	}
	if wrong := ask[int](b, "select count(*) from messages where content like 'line %' and seq <> 2 + substr(content, 6)::int"); wrong != 0 {
		t.Errorf("%d rows are out of order", wrong)
	}
	b.checkCounters()
}
