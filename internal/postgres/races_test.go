package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// races is how often a race is run: less in short mode. RACES in the environment multiplies it.
func races(usual int) int {
	if testing.Short() {
		return usual / 4
	}
	times, err := strconv.Atoi(os.Getenv("RACES"))
	if err != nil {
		return usual
	}
	return usual * times
}

// seeded returns random numbers. RACES_SEED in the environment repeats those of a failed test.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("RACES_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("RACES_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Of two transactions that write to one chat, the one with the lower seq commits first, in every order of
// their steps: the second does not get its number before the first has ended. A reader never sees a number
// without all before it.
func TestLowerSeqNeverCommitsLast(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	random := seeded(t)
	chatID := b.newChat(1)
	next := int64(3)
	for n := range races(1000) {
		wantsFirst, rollsBack := random.IntN(2), random.IntN(4) == 0
		next = b.interleave(n, chatID, next, wantsFirst, rollsBack)
	}
	is(t, ask[bool](b, "select count(*) = max(seq) from messages"), true, "there are gaps")
	b.checkCounters()
}

// interleave lets two open transactions insert one after the other, and returns the next number.
func (b *bed) interleave(n int, chatID uuid.UUID, next int64, first int, rollsBack bool) int64 {
	b.t.Helper()
	txs := []pgx.Tx{b.begin(), b.begin()}
	for _, tx := range txs { // both have begun, and have a snapshot behind them, before either writes
		mustExec(b.t, tx, "select count(*) from messages where chat_id = $1", chatID)
	}
	const insert = "insert into messages (chat_id, role, content) values ($1, 'user', $2) returning seq"
	var early, late int64
	noError(b.t, txs[first].QueryRow(b.t.Context(), insert, chatID, fmt.Sprint(n)).Scan(&early))
	behind := make(chan error, 1)
	go func() { behind <- txs[1-first].QueryRow(b.t.Context(), insert, chatID, fmt.Sprint(n)).Scan(&late) }()
	b.awaitBlocked(1)
	mustBe(b.t, ask[int64](b, "select max(seq) from messages where chat_id = $1", chatID), next-1, "round %d: a reader sees", n)
	end, want := txs[first].Commit, next+1
	if rollsBack {
		end, want = txs[first].Rollback, next
	}
	noError(b.t, end(b.t.Context()))
	noError(b.t, testkit.Receive(b.t, "the other one has its number", behind))
	noError(b.t, txs[1-first].Commit(b.t.Context()))
	mustBe(b.t, tuple(early, late), tuple(next, want), "round %d: the numbers are … and … and", n)
	return want + 1
}

// Two workers compete for one chat, in every order of their steps. One claims while the other holds the
// lease, or takes it over because it ran out; then both commit at once. The version goes up by one, and the
// late worker is refused.
func TestTwoWorkersWriteOneVersion(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	random := seeded(t)
	for n := range races(200) {
		chatID := b.newChat(2)
		first := b.claim(chatID)
		claimed, _, err := b.work.Claim(t.Context(), foldLease(chatID))
		mustBe(t, tuple(err, claimed), tuple(nil, work.Occupied), "round %d: the second one claimed", n)
		changes := []brief.Change{first, first} // the same job, delivered twice
		if outlived := random.IntN(2) == 0; outlived {
			b.exec("update throughline.work set lease_until = now() - interval '1 second' where key = $1", chatID)
			changes[1] = b.claim(chatID)
		}
		mustBe(t, b.commitAll(changes...), 1, "round %d: commits won", n)
		got := b.brief(chatID)
		mustBe(t, tuple(got.Version, got.Leased, b.count("conversation_brief_revisions where chat_id = $1", chatID)), tuple(1, false, 1),
			"round %d: version, leased, revisions", n)
	}
	b.checkCounters()
}

// commitAll commits changes at once, and returns how many succeeded.
func (b *bed) commitAll(changes ...brief.Change) (won int64) {
	var wins atomic.Int64
	together(b.t, len(changes), func(n int) error {
		ok, err := b.commit(changes[n])
		if ok {
			wins.Add(1)
		}
		return err
	})
	return wins.Load()
}

// Words change after a fold has read the messages and before it writes, in those that it brings in or in later ones, or in what the
// brief covers: the fold is discarded, and none of them comes back. A pin changes no words.
func TestChangesDuringFolds(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	execute := func(sql string, id uuid.UUID) error { return errOf(s.pool.Exec(t.Context(), sql, id)) }
	for name, change := range map[string]func(chatID, messageID uuid.UUID) error{
		"edit": func(_, id uuid.UUID) error {
			return execute("update messages set content = 'Never mind.' where id = $1", id)
		},
		"supersede": func(_, id uuid.UUID) error {
			return execute("update messages set superseded_by = id where id = $1", id)
		},
		"delete": func(_, id uuid.UUID) error { return s.DeleteMessage(t.Context(), s.user, id) },
		"clear":  func(chatID, _ uuid.UUID) error { return errOf(s.ClearChat(t.Context(), s.user, chatID)) },
		"pin": func(_, id uuid.UUID) error {
			return errOf(s.ChangeMessage(t.Context(), s.user, id, api.MessageChange{Pinned: new(true)}))
		},
	} {
		for _, seq := range []int{1, 3, 6} {
			chatID, wins := s.newChat(3), name == "pin"
			first := s.claim(chatID)
			first.Plan.SeqTo = 2
			s.mustCommit(first)
			late := s.claim(chatID)
			late.Plan.SeqTo, late.Summary = 4, "Too late."
			noError(t, change(chatID, s.message(chatID, seq)))
			won, err := s.commit(late)
			got := s.brief(chatID)
			assert.Truef(t, err == nil && won == wins && wins == (got.Summary == late.Summary) && (seq > 1 || wins || got.Summary == ""),
				"%s of %d: won %v, %v, %+v", name, seq, won, err, got)
		}
	}
	s.checkCounters()
}

// Turns, folds, edits, deletions, pins and clears at once in one chat. Each happens wholly or not at all: the counters agree,
// the ranges that stand are contiguous, no brief that was cleared last says anything, and every other one goes on.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	s, random := newShelf(t), seeded(t)
	for n := range races(40) {
		chatID := s.newChat(3)
		change := s.claim(chatID)
		said := func(i int) uuid.UUID { return change.Planned.Messages[i].ID }
		clearChat := func() error {
			if err := errOf(s.ClearChat(t.Context(), s.user, chatID)); fault.CodeOf(err) != fault.GenerationInProgress {
				return err
			}
			return nil
		}
		work := []func() error{
			func() error { return errOf(s.commit(change)) },
			func() error { return s.DeleteMessage(t.Context(), s.user, said(1)) },
			func() error {
				return errOf(s.pool.Exec(t.Context(), "update messages set content = 'Edited.' where id = $1", said(3)))
			},
			func() error {
				return errOf(s.ChangeMessage(t.Context(), s.user, said(4), api.MessageChange{Pinned: new(true)}))
			},
			func() error {
				turn := turnIn(chatID, "Meanwhile.")
				started, err := s.turns.StartTurn(t.Context(), s.user, turn)
				if err == nil && started.Started {
					_, err = s.turns.SaveReply(t.Context(), s.user, finished(turn, "Meanwhile, too."))
				}
				return err
			},
		}
		if n%2 == 0 {
			work = append(work, clearChat, clearChat)
		}
		s.atOnce(n, random, work)
		if n%2 == 0 {
			s.clear(chatID)
			got := s.brief(chatID)
			mustBe(t, got, briefRow{Version: got.Version, CoveredSeq: got.CoveredSeq, Leased: got.Leased}, "after the last clear")
			continue
		}
		s.mustCommit(s.takeOver(chatID))
		got := s.brief(chatID)
		require.Truef(t, got.PendingTurns == 0 && !got.Leased, "%+v", got)
	}
	is(t, s.count(`(select seq_from, lag(seq_to) over (partition by chat_id order by version) as before
		from conversation_brief_revisions where undone_by is null) r where seq_from <> coalesce(before, 0) + 1`), 0, "ranges with a gap before them")
	s.checkCounters()
}

// takeOver claims a chat, whoever holds its lease.
func (b *bed) takeOver(chatID uuid.UUID) brief.Change {
	b.t.Helper()
	b.exec("delete from throughline.work where key = $1", chatID)
	return b.claim(chatID)
}

// A hundred messages without an id reach one chat, on two servers at once: one reply is generated, and all
// other calls report which.
func TestHundredTurnsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	second := openPool(t, b.db, b.db.ServerDSN, 20)
	t.Cleanup(second.Close)
	servers := []*Turns{b.turns, NewTurns(second, b.limits, b.turns.enqueue)}
	turns := make([]chat.NewTurn, 100)
	for i := range turns {
		turns[i] = turnIn(chatID, "Me first.")
	}
	started := b.startAtOnce(turns, servers...)
	running := ask[uuid.UUID](b, "select id from messages where status = 'streaming'")
	for i, got := range started {
		assert.Truef(t, got.Started == (turns[i].MessageID == running) && (got.Started || got.Running == running),
			"turn %d: %+v", i, got)
	}
	is(t, b.count("messages"), 4, "messages are stored")
}

// startAtOnce starts turns at once, on servers that take them in turn: the bed's where none is named.
func (b *bed) startAtOnce(turns []chat.NewTurn, servers ...*Turns) []chat.StartedTurn {
	if len(servers) == 0 {
		servers = []*Turns{b.turns}
	}
	started := make([]chat.StartedTurn, len(turns))
	together(b.t, len(turns), func(n int) (err error) {
		started[n], err = servers[n%len(servers)].StartTurn(b.t.Context(), b.user, turns[n])
		return err
	})
	return started
}

// However many insert at once, in any order of commits, and though some are rolled back: the
// messages of a chat are numbered 1, 2, 3 … without a gap, in the order of the commits.
func TestSeqIsGaplessInCommitOrder(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	chats := []uuid.UUID{b.emptyChat(), b.emptyChat()}
	b.exec("create table committed (place bigserial, message uuid)")
	together(t, 10, func(int) (err error) {
		for range 100 {
			err = errors.Join(err, b.insertOne(chats[rand.IntN(2)], rand.IntN(5) == 0))
		}
		return err
	})
	for _, chatID := range chats {
		// The place is drawn as the last thing of a transaction that still holds the chat, so it follows its commit.
		is(t, b.count(`(select m.seq, row_number() over (order by c.place) as n
			from messages m join committed c on c.message = m.id where m.chat_id = $1) s where seq <> n`, chatID), 0, "messages are out of order")
		is(t, ask[bool](b, "select count(*) = max(m.seq) and max(m.seq) = max(c.last_seq) from messages m join chats c on c.id = m.chat_id where c.id = $1",
			chatID), true, "there are gaps")
	}
	b.checkCounters()
}

// insertOne adds a message in its own transaction, with yields between the statements.
func (b *bed) insertOne(chatID uuid.UUID, rollBack bool) error {
	ctx, id := b.t.Context(), uuid.New()
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		_, errBegun := tx.Exec(ctx, "select 1")
		_, errInsert := tx.Exec(ctx, "insert into messages (id, chat_id, role, content) values ($1, $2, 'user', 'x')", id, chatID)
		if err := errors.Join(errBegun, errInsert); err != nil {
			return err
		}
		if rollBack {
			return errRolledBack
		}
		return errOf(tx.Exec(ctx, "insert into committed (message) values ($1)", id))
	})
	if errors.Is(err, errRolledBack) {
		return nil
	}
	return err
}

// begin opens a transaction as the server. It ends with the test.
func (b *bed) begin() pgx.Tx {
	tx := must(b.pool.Begin(b.t.Context()))(b.t)
	b.t.Cleanup(func() { _ = tx.Rollback(b.t.Context()) }) // usually committed by then
	return tx
}

func mustExec(t *testing.T, tx pgx.Tx, sql string, args ...any) {
	_, err := tx.Exec(t.Context(), sql, args...)
	require.NoErrorf(t, err, "%s", sql)
}

// A message that commits while a fold waits for its lock is counted.
func TestFoldCountsMessageThatCommitsWhileItWaits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	change, won := b.claim(chatID), false
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
	change := b.claim(chatID)
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
	change, won := b.claim(chatID), true
	tx := b.begin()
	mustExec(t, tx, "select from chats where id = $1 for update", chatID) // as a delete does first
	noError(t, b.waitsFor(tx, func() (err error) { won, err = b.commit(change); return err }, func() {
		mustExec(t, tx, "delete from chats where id = $1", chatID)
	}))
	is(t, won, false, "the fold of a deleted chat won")
}

// deleteUser deletes the bed's user as the auth server does, and returns the error.
func (b *bed) deleteUser() <-chan error {
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
