package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// When two transactions wait for each other, Postgres ends one of them. It is tried again, and both succeed.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chats := []uuid.UUID{b.newChat(1), b.newChat(1)}
	var both, all sync.WaitGroup
	both.Add(2)
	tries := make([]int, 2)
	for i := range 2 {
		all.Go(func() {
			err := inTx(t.Context(), b.pool, func(tx pgx.Tx) error {
				tries[i]++
				if _, err := tx.Exec(t.Context(), "update chats set title = title || '.' where id = $1", chats[i]); err != nil {
					return err
				}
				if tries[i] == 1 { // each holds its own before it asks for the other's
					both.Done()
					both.Wait()
				}
				_, err := tx.Exec(t.Context(), "update chats set title = title || '!' where id = $1", chats[1-i])
				return err
			})
			if err != nil {
				t.Errorf("transaction %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if n := tries[0] + tries[1]; n < 3 {
		t.Errorf("%d tries: there was no deadlock", n)
	}
	if n := ask[int](b, "select count(*) from chats where title ~ '[.]' and title ~ '!' and length(title) = length('question number 1') + 2"); n != 2 {
		t.Errorf("%d of 2 chats were changed by both, once", n)
	}
}

// A transaction that read what another one changed meanwhile is tried again from its beginning.
func TestSerializationFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID, tries := b.newChat(1), 0
	err := inTx(t.Context(), b.pool, func(tx pgx.Tx) error {
		if tries++; tries > 2 {
			t.Fatal("tried again without a conflict")
		}
		var title string
		if _, err := tx.Exec(t.Context(), "set transaction isolation level repeatable read"); err != nil {
			return err
		}
		if err := tx.QueryRow(t.Context(), "select title from chats where id = $1", chatID).Scan(&title); err != nil {
			return err
		}
		if tries == 1 {
			b.exec("update chats set title = 'theirs' where id = $1", chatID)
		}
		_, err := tx.Exec(t.Context(), "update chats set title = $2 || ' and ours' where id = $1", chatID, title)
		return err
	})
	if got := ask[string](b, "select title from chats where id = $1", chatID); err != nil || tries != 2 || got != "theirs and ours" {
		t.Errorf("%q after %d tries, %v", got, tries, err)
	}
}

// queueError queues a statement that fails with a SQLSTATE code.
func queueError(batch *pgx.Batch, code string) {
	batch.Queue("do $$ begin raise exception using errcode = '" + code + "'; end $$")
}

// lockNotAvailable is a SQLSTATE code that is not worth another try.
const lockNotAvailable = "55P03"

// An error that stays is returned after some tries. One that another try cannot help is returned at once.
func TestRetryEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for code, want := range map[string]int{
		deadlockDetected: maxTries, serializationFailure: maxTries, uniqueViolation: 1, checkViolation: 1, queryCanceled: 1, lockNotAvailable: 1,
	} {
		n := 0
		err := send(t.Context(), b.pool, func(batch *pgx.Batch) {
			n++
			queueError(batch, code)
		})
		if sqlState(err) != code || n != want {
			t.Errorf("%s: %d tries, want %d, and %v", code, n, want, err)
		}
	}
}

// A retry ends when its context does.
func TestRetryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := retry(ctx, b.pool, func() error {
		n++
		batch := &pgx.Batch{}
		queueError(batch, deadlockDetected)
		err := b.pool.SendBatch(t.Context(), batch).Close()
		cancel()
		return err
	})
	if n != 1 || sqlState(err) != deadlockDetected {
		t.Errorf("%d tries, %v", n, err)
	}
	err = send(ctx, b.pool, func(*pgx.Batch) { n++ })
	if n > 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d tries, %v", n, err)
	}
}

// A connection that Postgres ended is replaced. If Postgres stays away the error is fault.NotReady.
func TestLostConnectionIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	n := 0
	err := send(t.Context(), b.pool, func(batch *pgx.Batch) {
		if n++; n == 1 {
			batch.Queue("select pg_terminate_backend(pg_backend_pid())")
		}
		batch.Queue("select 1")
	})
	if err != nil || n != 2 {
		t.Errorf("%d tries, %v", n, err)
	}
	gone, _, err := Open(t.Context(), "postgres://nobody@127.0.0.1:1/nothing", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	n = 0
	err = send(t.Context(), gone, func(batch *pgx.Batch) {
		n++
		queueError(batch, "00000")
	})
	if fault.CodeOf(err) != fault.NotReady || n != maxTries {
		t.Errorf("%d tries, %v", n, err)
	}
	testkit.Eventually(t, "the pool works on", func() bool { return ask[int](b, "select 1") == 1 })
}
