package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// inTxAs runs work in a transaction with a user's rights.
func (b *bed) inTxAs(user auth.Principal, work func(tx pgx.Tx) error) error {
	return inTx(b.t.Context(), b.pool, func(tx pgx.Tx) error {
		if err := dbsqlc.New(tx).ActAsUser(b.t.Context(), user.Claims); err != nil {
			return err
		}
		return work(tx)
	})
}

var userTables = []string{"chats", "messages", "conversation_briefs", "conversation_brief_revisions"}

// In statements without a where clause the policies alone keep users apart.
func TestPoliciesKeepUsersApart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	mine := b.newChat(3)
	b.mustCommit(b.claim(mine, brief.KindFold))
	stranger := b.newUser()
	for _, table := range userTables {
		for who, want := range map[*auth.Principal]bool{&b.user: true, &stranger: false} {
			err := b.inTxAs(*who, func(tx pgx.Tx) error {
				var seen, foreign int
				err := tx.QueryRow(t.Context(), "select count(*), count(*) filter (where user_id <> $1) from "+table, who.UserID).Scan(&seen, &foreign)
				if (seen > 0) != want || foreign > 0 {
					t.Errorf("%s: sees %d rows, %d of others", table, seen, foreign)
				}
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", table, err)
			}
		}
	}
	for _, statement := range []string{
		"update chats set title = 'mine now'", "delete from chats", "update messages set content = 'mine now'",
		"delete from messages", "update conversation_briefs set version = 99", "update conversation_brief_revisions set global_summary = ''",
		"select from chats for update",
	} {
		err := b.inTxAs(stranger, func(tx pgx.Tx) error {
			tag, err := tx.Exec(t.Context(), statement)
			if tag.RowsAffected() != 0 {
				t.Errorf("%s touched %d rows of another user", statement, tag.RowsAffected())
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if got := b.brief(mine); got.Version != 1 {
		t.Errorf("the brief is %+v", got)
	}
}

// Without claims, with broken ones, or with those of a user who does not exist, no row is visible.
func TestNobodySeesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.newChat(1)
	for _, claims := range []string{"", "{}", `{"sub": null}`, `{"sub": "` + uuid.NewString() + `"}`} {
		for _, table := range userTables {
			err := b.inTxAs(auth.Principal{Claims: claims}, func(tx pgx.Tx) error {
				var seen int
				err := tx.QueryRow(t.Context(), "select count(*) from "+table).Scan(&seen)
				if seen != 0 {
					t.Errorf("%s with the claims %q: %d rows", table, claims, seen)
				}
				return err
			})
			if err != nil {
				t.Errorf("%s with the claims %q: %v", table, claims, err)
			}
		}
	}
}

// The claims decide, whatever user id the Go code passes and whosever chat it names.
func TestClaimsDecide(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	theirs := b.newChat(2)
	before := ask[string](b, "select count(*) || '/' || sum(length(content)) from messages")
	stranger := b.newUser()
	confused := auth.Principal{UserID: b.user.UserID, Claims: stranger.Claims} // a mistake of ours

	started, err := b.turns.StartTurn(t.Context(), confused, turnIn(theirs, "Let me in."))
	if err != nil || started.Started || started.SystemPrompt != "" || len(started.Buffer) != 0 || started.Brief.Version != 0 || started.PendingTurns > 0 {
		t.Errorf("a turn in another user's chat: %+v, %v", started, err)
	}
	if _, err := b.turns.StartTurn(t.Context(), confused, firstTurn("A chat in their name.")); fault.CodeOf(err) != fault.ForbiddenByPolicy {
		t.Errorf("a chat in another user's name: %v", err)
	}
	running := turnIn(theirs, "Mine.")
	b.start(running)
	if saved, err := b.turns.SaveReply(t.Context(), confused, finished(running, "Not theirs to write.")); err != nil || saved {
		t.Errorf("saved another user's reply: %v, %v", saved, err)
	}
	if err := b.turns.RequestCancel(t.Context(), confused, running.MessageID); err != nil {
		t.Fatal(err)
	}
	if ask[bool](b, "select cancel_requested from messages where id = $1", running.MessageID) {
		t.Error("cancelled another user's reply")
	}
	b.reply(running, "")
	b.exec("delete from messages where id in ($1, $2)", running.MessageID, running.UserMessageID)
	if after := ask[string](b, "select count(*) || '/' || sum(length(content)) from messages"); after != before {
		t.Errorf("the messages were %s and are %s", before, after)
	}
}

// A client message id that another user has used already does not matter.
func TestClientMessageIDsAreOfOneUser(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := b.startWithID("Hello.")
	again := firstTurn("Hello.")
	again.ClientMessageID = turn.ClientMessageID
	if got, err := b.turns.StartTurn(t.Context(), b.newUser(), again); err != nil || !got.Started {
		t.Errorf("%+v, %v", got, err)
	}
}

// No user's settings stay on a pooled connection: thousands of requests of many users on four connections,
// cancelled at any moment.
func TestNoRoleOrClaimsAreLeftBehind(t *testing.T) {
	t.Parallel()
	b := newBedWith(t, memory.DefaultLimits(), 4)
	type owned struct {
		user   auth.Principal
		chatID uuid.UUID
	}
	users := make([]owned, 50)
	for i := range users {
		users[i].user = b.newUser()
		first := firstTurn("Hello.")
		users[i].chatID = first.ChatID
		if got, err := b.turns.StartTurn(t.Context(), users[i].user, first); err != nil || !got.Started {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	each := races(t, 5000) / 16
	for worker := range 16 {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		all.Go(func() {
			for range each {
				who := users[random.IntN(len(users))]
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(3) == 0 {
					time.AfterFunc(time.Duration(random.IntN(3000))*time.Microsecond, cancel)
				}
				if err := b.anyRequest(ctx, random.IntN(4), who.user, who.chatID); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	b.checkConnectionsAreClean()
}

func (b *bed) anyRequest(ctx context.Context, kind int, user auth.Principal, chatID uuid.UUID) error {
	var err error
	switch kind {
	case 0:
		_, _, err = b.turns.FindReply(ctx, user, chatID, uuid.Nil, 0)
	case 1:
		turn := turnIn(chatID, "More.")
		turn.Lease = time.Millisecond
		_, err = b.turns.StartTurn(ctx, user, turn)
	case 2:
		found, ok, findErr := b.turns.FindReply(ctx, user, chatID, uuid.Nil, 0)
		if err = findErr; err == nil && ok {
			_, err = b.turns.SaveReply(ctx, user, finished(chat.NewTurn{ChatID: chatID, MessageID: found.MessageID}, "Yes."))
		}
	default:
		lease := brief.Lease{Token: uuid.New(), Duration: time.Millisecond}
		_, _, err = b.briefs.Claim(ctx, chatID, brief.KindFold, lease, 2000)
	}
	return err
}

// checkConnectionsAreClean checks every connection of the pool.
func (b *bed) checkConnectionsAreClean() {
	b.t.Helper()
	total := int(b.pool.Config().MaxConns)
	for i := range total {
		conn, err := b.pool.Acquire(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		defer conn.Release() // all of them are held until the last was looked at
		var role, claims string
		err = conn.QueryRow(b.t.Context(), "select current_setting('role') || '/' || current_user, concat(current_setting('request.jwt.claims', true), current_setting('request.jwt.claim.sub', true))").Scan(&role, &claims)
		if err != nil || role != "none/postgres" || claims != "" {
			b.t.Errorf("connection %d has the role %s and the claims %q, %v", i, role, claims, err)
		}
	}
}

// Ten thousand random attempts of users at each other's chats read nothing and write nothing.
func TestRandomCrossTenantRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	users := make([]auth.Principal, 20)
	chats := make([]uuid.UUID, len(users))
	for i := range users {
		users[i] = b.newUser()
		b.user = users[i]
		chats[i] = b.newChat(1)
		b.exec(`with me as materialized (select set_config('request.jwt.claim.sub', $1::uuid::text, true)) select throughline.index_turns($2, null) from me`, b.user.UserID, chats[i])
	}
	if n := ask[int](b, "select count(*) from turn_index"); n != len(chats) {
		t.Fatalf("%d turns are indexed", n)
	}
	before := ask[string](b, "select md5(string_agg(m::text, '' order by id)) from messages m")
	failed := make([]error, 8)
	each := races(t, 10_000) / len(failed)
	var all sync.WaitGroup
	for worker := range failed {
		random := rand.New(rand.NewPCG(2, uint64(worker)))
		all.Go(func() {
			for range each {
				a := random.IntN(len(users))
				z := (a + 1 + random.IntN(len(users)-1)) % len(users)
				failed[worker] = errors.Join(failed[worker], b.trespass(random, users[a], chats[z]))
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	if after := ask[string](b, "select md5(string_agg(m::text, '' order by id)) from messages m"); after != before {
		t.Error("somebody's messages changed")
	}
}

func (b *bed) trespass(random *rand.Rand, user auth.Principal, chatID uuid.UUID) error {
	switch random.IntN(4) {
	case 0:
		found, err := NewRecall(b.pool).Matches(b.t.Context(), user, recall.Scope{ChatID: chatID}, [][]string{{"question"}})
		if err == nil || len(found.Found) > 0 {
			return fmt.Errorf("recalled %+v, %w", found, err)
		}
	case 1:
		found, err := NewRecall(b.pool).Matches(b.t.Context(), user, recall.Scope{}, [][]string{{"question"}})
		if err != nil || len(found.Found) != 1 || found.Found[0].ChatID == chatID {
			return fmt.Errorf("recalled %+v, %w", found, err)
		}
		stolen := recall.Span{TurnID: recall.TurnID{ChatID: chatID, Seq: 1}, LastSeq: 2}
		if texts, _, err := NewRecall(b.pool).Texts(b.t.Context(), user, []recall.Span{stolen}, uuid.Nil); err != nil || len(texts) > 0 {
			return fmt.Errorf("read %+v, %w", texts, err)
		}
	case 2:
		got, err := b.turns.StartTurn(b.t.Context(), user, turnIn(chatID, "Let me in."))
		if err != nil || got.Started || len(got.Buffer) > 0 || got.Running != uuid.Nil || got.Earlier != nil {
			return fmt.Errorf("start: %+v, %w", got, err)
		}
	default:
		if got, ok, _ := b.turns.FindReply(b.t.Context(), user, chatID, uuid.Nil, 0); ok {
			return fmt.Errorf("found %+v", got)
		}
	}
	return nil
}

// auth.uid() reads the older variable of sub before the claims. One that somebody left on a pooled connection is not
// the user of our transactions, nor of a job's.
func TestUserLeftOnAConnectionDoesNotCount(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stranger := b.newUser()
	mine := b.newChat(1)
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for who, act := range map[string]func(tx pgx.Tx) error{
		"user":  func(tx pgx.Tx) error { return dbsqlc.New(tx).ActAsUser(t.Context(), b.user.Claims) },
		"owner": func(tx pgx.Tx) error { _, err := dbsqlc.New(tx).ActAsChatOwner(t.Context(), mine); return err },
	} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "select set_config('request.jwt.claim.sub', $1, false)", stranger.UserID.String()); err != nil {
				return err
			}
			if err := act(tx); err != nil {
				return err
			}
			var is uuid.UUID
			if err := tx.QueryRow(t.Context(), "select auth.uid()").Scan(&is); err != nil {
				return err
			}
			if is != b.user.UserID {
				t.Errorf("%s: acts as %s", who, is)
			}
			return errRolledBack
		})
		if !errors.Is(err, errRolledBack) {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// errRolledBack ends a transaction that must leave nothing behind.
var errRolledBack = errors.New("rolled back")
