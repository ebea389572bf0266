package supabase_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// These tests need more than pgTAP's one connection as postgres.

func newChat(t *testing.T, conn *pgx.Conn, user uuid.UUID) uuid.UUID {
	chat := uuid.New()
	testkit.Exec(t, conn, "insert into public.chats (id, user_id) values ($1, $2)", chat, user)
	return chat
}

// asAuthServer returns the database's DSN for the role of Supabase's auth server, which does not connect
// through a pooler.
func asAuthServer(t *testing.T, database testkit.Database) string {
	address, err := url.Parse(database.Direct())
	require.NoError(t, err)
	address.User = url.User("supabase_auth_admin")
	return address.String()
}

func TestAccountDeletionByTheAuthServerLeavesNothing(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	user, other := testkit.NewUser(t, database), testkit.NewUser(t, database)
	conn := connect(t, database.DSN)
	for _, owner := range []uuid.UUID{user, user, other} {
		chat := newChat(t, conn, owner)
		testkit.Exec(t, conn, `insert into public.messages (chat_id, role, content)
			select $1, (array['user', 'assistant'])[1 + n % 2], 'word ' || n from generate_series(1, 1000) n`, chat)
	}
	_, err := connect(t, asAuthServer(t, database)).Exec(t.Context(), "delete from auth.users where id = $1", user)
	require.NoError(t, err, "the auth server cannot delete an account")
	for table, want := range map[string]int{"chats": 1, "messages": 1000, "conversation_briefs": 1} {
		for owner, want := range map[uuid.UUID]int{user: 0, other: want} {
			testkit.Want(t, conn, want, "select count(*)::int from public."+table+" where user_id = $1", owner)
		}
	}
}

// With concurrent writers, some of which roll back, seq follows the order of commits without gaps, and the
// counters are right.
func TestSeqFollowsTheOrderOfCommitsWithoutGaps(t *testing.T) {
	t.Parallel()
	const writers, each = 6, 20
	database := testkit.NewDatabase(t)
	conn := connect(t, database.DSN)
	chat := newChat(t, conn, testkit.NewUser(t, database))
	var conns [writers]*pgx.Conn
	for writer := range conns {
		conns[writer] = connect(t, database.DSN)
	}
	var wait sync.WaitGroup
	for writer := range writers {
		wait.Go(func() {
			assert.NoError(t, writeInTurns(t.Context(), conns[writer], chat, writer, each))
		})
	}
	wait.Wait()
	seqs := testkit.Ask[[]int](t, conn, "select array_agg(seq order by content::bigint) from public.messages where chat_id = $1", chat)
	const kept = writers * each * 3 / 4 * 2
	assert.Truef(t, len(seqs) == kept && slices.IsSorted(seqs) && seqs[0] == 1 && seqs[kept-1] == kept,
		"%d messages, want %d; in the order in which they got hold of the chat: %v", len(seqs), kept, seqs)
	testkit.Want(t, conn, fmt.Sprintf("%d %d true", kept, kept), `select concat_ws(' ', c.message_count, c.last_seq, b.counters_agree::text)
		from public.chats c join inspect.buffers b on b.chat_id = c.id where c.id = $1`, chat)
}

// writeInTurns writes two messages per transaction, whose contents are numbers in the order in which
// the transactions held the chat, and takes every fourth transaction back.
func writeInTurns(ctx context.Context, conn *pgx.Conn, chat uuid.UUID, writer, turns int) error {
	for turn := range turns {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		// The clock is read after seq is assigned, so while the chat is locked.
		_, err = tx.Exec(ctx, "select from throughline.accounts for key share") // for several changes of a chat in one transaction
		if err == nil {
			_, err = tx.Exec(ctx, "insert into public.messages (chat_id, role) values ($1, 'user')", chat)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `insert into public.messages (chat_id, role, client_message_id, content) values ($1, 'assistant', $2, ''), ($1, 'assistant', $2, '')
				on conflict do nothing`, chat, uuid.New())
		}
		if err == nil {
			_, err = tx.Exec(ctx, `update public.messages set content = (select (extract(epoch from clock_timestamp()) * 1000000)::bigint) * 1000 + seq
				where chat_id = $1 and content = ''`, chat)
		}
		if err != nil {
			return fmt.Errorf("writer %d: %w", writer, err)
		}
		end := tx.Commit
		if turn%4 == 3 {
			end = tx.Rollback
		}
		if err := end(ctx); err != nil {
			return err
		}
	}
	return nil
}
