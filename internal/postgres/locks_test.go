package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// begin opens a transaction as the server. It ends with the test.
func (b *bed) begin() pgx.Tx {
	b.t.Helper()
	tx := must(b.pool.Begin(b.t.Context()))(b.t)
	b.t.Cleanup(func() { _ = tx.Rollback(b.t.Context()) }) // usually committed by then
	return tx
}

func mustExec(t *testing.T, tx pgx.Tx, sql string, args ...any) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// A message that commits while a fold waits for its lock is counted.
func TestFoldCountsMessageThatCommitsWhileItWaits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	change, won := b.claim(chatID, brief.KindFold), false
	tx := b.begin()
	mustExec(t, tx, "insert into messages (chat_id, user_id, role, content, token_count) values ($1, $2, 'user', 'late', 700)", chatID, b.user.UserID)
	noError(t, b.waitsFor(tx, func() (err error) { won, err = b.commit(change); return err }))
	got := b.brief(chatID)
	is(t, tuple(won, got.PendingTokens, got.PendingTurns), tuple(true, 700, 1), "won, and … tokens of … turns are pending")
	b.checkCounters()
}

// A turn holds the chat and needs the brief. A fold holds the brief, and its revision refers to the chat.
// Neither may block the other without end.
func TestFoldAndTurnDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	change := b.claim(chatID, brief.KindFold)
	tx := b.begin()
	mustExec(t, tx, "select from conversation_briefs where chat_id = $1 for update", chatID) // stands for a fold between its statements
	noError(t, b.waitsFor(tx, func() error { return errOf(b.turns.StartTurn(t.Context(), b.user, turnIn(chatID, "meanwhile"))) }, func() {
		mustExec(t, tx, insertRevision, chatID)
		mustExec(t, tx, "delete from conversation_brief_revisions where kind = 'rollback'")
	}))
	b.mustCommit(change)
	b.checkCounters()
}

// insertRevision stores a revision of a chat's brief.
const insertRevision = `insert into conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, input_tokens, output_tokens,
	prompt_mode, prompt_ref, model, duration_ms, input_sha256) select id, user_id, 99, 'rollback', 1, 1, 0, 0, 0, 'none', '', '', 0, '' from chats where id = $1`

// Deleting a chat locks its row and then needs its brief. A fold that commits meanwhile waits for the chat
// before it locks anything, and then finds that the chat was deleted.
func TestFoldWaitsForDeletionAndLoses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	change, won := b.claim(chatID, brief.KindFold), true
	tx := b.begin()
	mustExec(t, tx, "select from chats where id = $1 for update", chatID) // as a delete does first
	noError(t, b.waitsFor(tx, func() (err error) { won, err = b.commit(change); return err }, func() {
		mustExec(t, tx, "delete from chats where id = $1", chatID)
	}))
	is(t, won, false, "the fold of a deleted chat won")
}

// deleteUser deletes the bed's user as the auth server does, and returns the error.
func (b *bed) deleteUser() <-chan error {
	b.t.Helper()
	admin := must(pgx.Connect(b.t.Context(), b.db.AdminDSN))(b.t)
	noError(b.t, errOf(admin.Exec(b.t.Context(), "set role supabase_auth_admin")))
	done := make(chan error, 1)
	go func() {
		defer func() { _ = admin.Close(context.WithoutCancel(b.t.Context())) }() // there may be hundreds in one test
		_, err := admin.Exec(b.t.Context(), "delete from auth.users where id = $1", b.user.UserID)
		done <- err
	}()
	return done
}

// Deleting a user locks the user and then needs the chats. Turns and folds lock a chat. If their rows
// referred to the user, this would be a deadlock.
func TestUserDeletionWaitsForWhoWorksInAChat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	admin := testkit.NewPool(t, b.db.AdminDSN) // others are not told what the auth server waits for
	for name, work := range map[string]struct{ hold, write string }{
		"turn": {"select from chats where id = $1 for no key update", "insert into messages (chat_id, role, content) values ($1, 'user', 'while the account goes')"},
		"fold": {"select from chats where id = $1 for key share", insertRevision},
		"file": {"select from chats where id = $1 for no key update",
			"insert into chat_files (chat_id, user_id, sha256, content, token_count) select id, user_id, sha256('x'), 'x', 1 from chats where id = $1"},
	} {
		b.user = b.newUser()
		chatID := b.newChat(2)
		tx := b.begin()
		mustExec(t, tx, work.hold, chatID)
		deleted := b.deleteUser()
		testkit.Eventually(t, "the deletion waits", func() bool {
			return testkit.Ask[int](t, admin, `select count(*) from pg_stat_activity where datname = current_database() and usename <> 'postgres'
				and wait_event_type = 'Lock'`) == 1
		})
		mustExec(t, tx, work.write, chatID)
		noError(t, tx.Commit(t.Context()))
		fine(t, testkit.Receive(t, "the user is deleted", deleted), "%s: deleting the user", name)
		is(t, ask[int](b, `select (select count(*) from chats) + (select count(*) from messages) + (select count(*) from conversation_brief_revisions) +
			(select count(*) from chat_files)`), 0, "%s: rows are left", name)
	}
}
