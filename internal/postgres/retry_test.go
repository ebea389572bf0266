package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// When two transactions wait for each other, Postgres ends one of them. It is tried again, and both succeed.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chats, tries := []uuid.UUID{b.newChat(1), b.newChat(1)}, make([]int, 2)
	var both sync.WaitGroup
	both.Add(2)
	together(t, 2, func(i int) error {
		return inTx(t.Context(), b.pool, func(tx pgx.Tx) error {
			tries[i]++
			if _, err := tx.Exec(t.Context(), "update chats set title = title || '.' where id = $1", chats[i]); err != nil {
				return err
			}
			if tries[i] == 1 { // each holds its own before it asks for the other's
				both.Done()
				both.Wait()
			}
			return errOf(tx.Exec(t.Context(), "update chats set title = title || '!' where id = $1", chats[1-i]))
		})
	})
	if n := tries[0] + tries[1]; n < 3 {
		t.Errorf("%d tries: there was no deadlock", n)
	}
	is(t, b.count("chats where title ~ '[.]' and title ~ '!' and length(title) = length('question number 1') + 2"), 2, "of 2 chats were changed by both, once")
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
	got := ask[string](b, "select title from chats where id = $1", chatID)
	is(t, tuple(err, tries, got), tuple(nil, 2, "theirs and ours"), "after … tries")
}

// queueError queues a statement that fails with a SQLSTATE code.
func queueError(batch *pgx.Batch, code string) {
	batch.Queue("do $$ begin raise exception using errcode = '" + code + "'; end $$")
}

// lockNotAvailable is a SQLSTATE code that is not worth another try.
const lockNotAvailable = "55P03"

// An error that stays is returned after some tries. One that another try cannot help is returned at once, and so is any when the
// context has ended.
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
		is(t, tuple(sqlState(err), n), tuple(code, want), "…: %d tries, and", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := retry(ctx, b.pool, func() error {
		n++
		batch := &pgx.Batch{}
		queueError(batch, deadlockDetected)
		defer cancel()
		return b.pool.SendBatch(t.Context(), batch).Close()
	})
	is(t, tuple(n, sqlState(err)), tuple(1, deadlockDetected), "tries until the context ended")
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
	is(t, tuple(err, n), tuple(nil, 2), "%d tries", n)
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
	is(t, tuple(fault.CodeOf(err), n), tuple(fault.NotReady, maxTries), "%d tries", n)
	testkit.Eventually(t, "the pool works on", func() bool { return ask[int](b, "select 1") == 1 })
}

// A query without a row leaves the zero value, and the error of a query is returned by send.
func TestQueuedQueriesPassOnWhatComes(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	chatID := b.newChat(1)
	read := func(chatID uuid.UUID) (one dbsqlc.ReadBriefRow, many uuid.UUID, err error) {
		err = send(t.Context(), b.pool, func(batch *pgx.Batch) {
			dbsqlc.ReadBrief.Read(batch, chatID, set(&one))
			dbsqlc.FindImported.Read(batch, dbsqlc.FindImportedParams{ID: chatID}, set(&many))
		})
		return one, many, err
	}
	if one, many, err := read(chatID); err != nil || one.PendingTurns != 1 || many != chatID {
		t.Errorf("a chat that is there: %+v, %s, %v", one, many, err)
	}
	if one, many, err := read(uuid.New()); err != nil || one != (dbsqlc.ReadBriefRow{}) || many != uuid.Nil {
		t.Errorf("a chat that is not there: %+v, %s, %v", one, many, err)
	}
	b.exec("alter table conversation_briefs rename to missing")
	if _, _, err := read(chatID); sqlState(err) != "42P01" {
		t.Errorf("a table that is not there: %v", err)
	}
}

// What a statement of ours lacks are migrations; what a trigger or function of the app lacks is the app's own mistake.
func TestMissingMigrationsAreToldFromTheAppsMistakes(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	testkit.Exec(t, testkit.Connect(t, b.db.AdminDSN), `
		create schema app;
		create table app.audited (id int);
		create function app.audit() returns trigger language plpgsql as $$ begin insert into app.gone values (1); return new; end $$;
		create trigger audit after insert on app.audited for each row execute function app.audit();
		create function app.asks() returns bigint language plpgsql as $$ begin return (select count(*) from app.gone); end $$;
		grant usage on schema app to public;
		grant insert on app.audited to public`)
	for statement, want := range map[string]fault.Code{
		"select from nothing.chats":                              fault.NotReady,
		"select from public.no_such_table":                       fault.NotReady,
		"select no_such_column from public.chats":                fault.NotReady,
		"select throughline.no_such_function()":                  fault.NotReady,
		"select to_tsvector('throughline.none', 'a')":            fault.NotReady,
		"select null::throughline.no_such_type":                  fault.NotReady,
		"select set_config('role', 'throughline_nobody', true)":  fault.NotReady,
		"select set_config('role', 'the_apps_own_role', true)":   fault.Internal,
		"select now() at time zone 'Nowhere'":                    fault.Internal,
		"insert into app.audited values (1)":                     fault.Internal,
		"select app.asks()":                                      fault.Internal,
		"insert into auth.users (id) values (gen_random_uuid())": fault.ForbiddenByPolicy,
	} {
		err := send(t.Context(), b.pool, func(batch *pgx.Batch) {
			if want != fault.NotReady {
				dbsqlc.ActAsUser.Queue(batch, b.user.Claims)
			}
			batch.Queue(statement)
		})
		is(t, fault.CodeOf(err), want, "%s: %v", statement, err)
	}
}
