package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// races is how often a race is run: less in short mode. RACES in the environment multiplies it.
func races(t *testing.T, usual int) int {
	t.Helper()
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
	for n := range races(t, 1000) {
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
	b.awaitBehind()
	mustBe(b.t, ask[int64](b, "select max(seq) from messages where chat_id = $1", chatID), next-1, "round %d: a reader sees", n)
	end := txs[first].Commit
	if rollsBack {
		end = txs[first].Rollback
	}
	noError(b.t, end(b.t.Context()))
	noError(b.t, testkit.Receive(b.t, "the other one has its number", behind))
	noError(b.t, txs[1-first].Commit(b.t.Context()))
	want := next + 1
	if rollsBack {
		want = next
	}
	mustBe(b.t, tuple(early, late), tuple(next, want), "round %d: the numbers are … and … and", n)
	return want + 1
}

// awaitBehind is awaitBlocked without pauses, for tests that wait a thousand times.
func (b *bed) awaitBehind() {
	b.t.Helper()
	for deadline := time.Now().Add(testkit.Patience); b.count("pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 0; {
		if time.Now().After(deadline) {
			b.t.Fatal("in vain: the second one waits")
		}
	}
}

// Two workers compete for one chat, in every order of their steps. One claims while the other holds the
// lease, or takes it over because it ran out; then both commit at once. The version goes up by one, and the
// late worker is refused.
func TestTwoWorkersWriteOneVersion(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	random := seeded(t)
	for n := range races(t, 200) {
		chatID := b.newChat(2)
		first := b.claim(chatID, brief.KindFold)
		if claimed, _, err := b.work.Claim(t.Context(), foldLease(chatID)); err != nil || claimed != work.Occupied {
			t.Fatalf("round %d: the second one claimed: %v, %v", n, claimed, err)
		}
		changes := []brief.Change{first, first} // the same job, delivered twice
		if outlived := random.IntN(2) == 0; outlived {
			b.exec("update throughline.work set lease_until = now() - interval '1 second' where key = $1", chatID)
			changes[1] = b.claim(chatID, brief.KindFold)
		}
		won, lost := b.commitAll(random, changes...)
		mustBe(t, tuple(won, lost), tuple(1, 1), "round %d: commits won, … lost", n)
		b.checkVersion(chatID, 1)
	}
	b.checkCounters()
}

// commitAll commits changes at once, in any order, and returns how many succeeded.
func (b *bed) commitAll(random *rand.Rand, changes ...brief.Change) (won, lost int) {
	b.t.Helper()
	outcomes := make(chan bool, len(changes))
	for _, i := range random.Perm(len(changes)) {
		go func() {
			ok, err := b.commit(changes[i])
			if err != nil {
				b.t.Error(err)
			}
			outcomes <- ok
		}()
	}
	for range changes {
		if testkit.Receive(b.t, "a commit", outcomes) {
			won++
		} else {
			lost++
		}
	}
	return won, lost
}

// checkVersion checks that a brief has a version, one revision for each, and no lease.
func (b *bed) checkVersion(chatID uuid.UUID, version int64) {
	b.t.Helper()
	got := b.brief(chatID)
	mustBe(b.t, tuple(got.Version, got.Leased), tuple(version, false), "the brief is %+v, want version", got)
	mustBe(b.t, ask[int64](b, "select count(*) from conversation_brief_revisions where chat_id = $1", chatID), version, "revisions of … versions")
}

// A message is edited, deleted or pinned, or the chat cleared, after its fold or rebuild has read the
// messages and before it writes. What was deleted, changed or cleared does not reappear; a pin changes no
// text.
func TestChangesDuringFoldsAndRebuilds(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for name, c := range map[string]struct {
		change func(chatID, messageID uuid.UUID) error
		wins   bool // the fold
	}{
		"edit": {func(_, id uuid.UUID) error {
			_, err := s.pool.Exec(t.Context(), "update messages set content = 'Never mind.' where id = $1", id)
			return err
		}, false},
		"delete": {func(_, id uuid.UUID) error { return s.DeleteMessage(t.Context(), s.user, id) }, false},
		"clear": {func(chatID, _ uuid.UUID) error {
			_, err := s.ClearChat(t.Context(), s.user, chatID)
			return err
		}, false},
		"pin": {func(_, id uuid.UUID) error {
			_, err := s.ChangeMessage(t.Context(), s.user, id, history.MessageChange{Pinned: new(true)})
			return err
		}, true},
	} {
		for _, kind := range []brief.Kind{brief.KindFold, brief.KindRebuild} {
			chatID := s.newChat(3)
			if kind == brief.KindRebuild {
				s.mustCommit(s.claim(chatID, brief.KindFold))
				s.exec("update messages set content = 'Corrected.' where chat_id = $1 and seq = 1", chatID)
			}
			version := s.brief(chatID).Version
			late := s.claim(chatID, kind)
			if err := c.change(chatID, late.Planned.Messages[2].ID); err != nil {
				t.Fatalf("%s during a %s: %v", name, kind, err)
			}
			won, err := s.commit(late)
			got := s.brief(chatID)
			if err != nil || won != c.wins || won && got.Version != version+1 || !won && got.Summary == late.Summary && kind == brief.KindFold {
				t.Errorf("%s during a %s: won %v, %v, %+v", name, kind, won, err, got)
			}
			is(t, kind == brief.KindRebuild && !c.wins, got.Stale, "%s during a %s: stale", name, kind)
		}
	}
	s.checkCounters()
}

// Turns, folds, edits, deletions, pins and clears at once in one chat. Each happens wholly or not at all: the counters agree,
// ranges are contiguous, no brief that was cleared last says anything, and every other one can be made again.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	s, random := newShelf(t), seeded(t)
	for n := range races(t, 40) {
		chatID := s.newChat(3)
		change := s.claim(chatID, brief.KindFold)
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
				return errOf(s.ChangeMessage(t.Context(), s.user, said(4), history.MessageChange{Pinned: new(true)}))
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
			mustBe(t, got, briefRow{Version: got.Version, CoveredSeq: got.CoveredSeq, Stale: got.Stale, Leased: got.Leased}, "after the last clear")
			continue
		}
		if s.brief(chatID).Stale {
			s.mustCommit(s.takeOver(chatID, brief.KindRebuild))
		}
		s.mustCommit(s.takeOver(chatID, brief.KindFold))
		if got := s.brief(chatID); got.Stale || got.PendingTurns != 0 || got.Leased {
			t.Fatalf("%+v", got)
		}
	}
	is(t, s.count(`(select seq_from, lag(seq_to) over (partition by chat_id order by version) as before
		from conversation_brief_revisions where kind in ('fold', 'clear')) r where seq_from <> coalesce(before, 0) + 1`), 0, "ranges with a gap before them")
	s.checkCounters()
}

// takeOver claims a chat, whoever holds its lease.
func (b *bed) takeOver(chatID uuid.UUID, kind brief.Kind) brief.Change {
	b.t.Helper()
	b.exec("delete from throughline.work where key = $1", chatID)
	return b.claim(chatID, kind)
}

// A hundred messages without an id reach one chat, on two servers at once: one reply is generated, and all
// other calls report which.
func TestHundredTurnsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	second, _, err := Open(t.Context(), b.db.DSN, 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	servers := []*Turns{b.turns, NewTurns(second, b.limits, Enqueue{Fold: func(context.Context, pgx.Tx, uuid.UUID) error { return nil }})}
	started := make([]chat.StartedTurn, 100)
	failed := make([]error, len(started))
	turns := make([]chat.NewTurn, len(started))
	var all sync.WaitGroup
	for i := range started {
		turns[i] = turnIn(chatID, "Me first.")
		all.Go(func() { started[i], failed[i] = servers[i%2].StartTurn(t.Context(), b.user, turns[i]) })
	}
	all.Wait()
	noError(t, errors.Join(failed...))
	running := ask[uuid.UUID](b, "select id from messages where status = 'streaming'")
	winners := 0
	for i, got := range started {
		if got.Started && turns[i].MessageID == running {
			winners++
		} else if got.Started || got.Running != running {
			t.Errorf("turn %d: %+v", i, got)
		}
	}
	n := b.count("messages")
	is(t, tuple(winners, n), tuple(1, 4), "turns began, %d messages are stored", n)
}

// However many insert at once, in whatever order their transactions end, and though some are rolled back: the
// messages of a chat are numbered 1, 2, 3 … without a gap, in the order of the commits.
func TestSeqIsGaplessInCommitOrder(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
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
	noError(t, errors.Join(failed...))
	for _, chatID := range chats {
		// The place is drawn as the last thing of a transaction that still holds the chat, so it follows its commit.
		wrong := b.count(`(select m.seq, row_number() over (order by c.place) as n
			from messages m join committed c on c.message = m.id where m.chat_id = $1) s where seq <> n`, chatID)
		is(t, wrong, 0, "messages are out of order")
		is(t, ask[bool](b, "select count(*) = max(m.seq) and max(m.seq) = max(c.last_seq) from messages m join chats c on c.id = m.chat_id where c.id = $1",
			chatID), true, "there are gaps")
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
