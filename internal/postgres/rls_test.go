package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// The claims decide, whatever user id the Go code passes and whosever chat it names.
func TestClaimsDecide(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	theirs := b.newChat(2)
	before := ask[string](b, "select count(*) || '/' || sum(length(content)) from messages")
	stranger := b.newUser()
	confused := auth.Principal{UserID: b.user.UserID, Claims: stranger.Claims} // a mistake of ours
	for _, claims := range []string{"", "{}", `{"sub": null}`, `{"sub": "` + uuid.NewString() + `"}`} {
		tx := b.begin()
		noError(t, dbsqlc.ActAsUser.Run(t.Context(), tx, claims))
		is(t, testkit.Ask[int](t, tx, "select count(*) from messages"), 0, "messages with the claims %q", claims)
	}
	started, err := b.turns.StartTurn(t.Context(), confused, turnIn(theirs, "Let me in."))
	if err != nil || started.Started || started.SystemPrompt != "" || len(started.Buffer) != 0 || started.Brief.Version != 0 || started.PendingTurns > 0 {
		t.Errorf("a turn in another user's chat: %+v, %v", started, err)
	}
	wantFault(t, errOf(b.turns.StartTurn(t.Context(), confused, firstTurn("A chat in their name."))), fault.ForbiddenByPolicy, "a chat in another user's name")
	running := turnIn(theirs, "Mine.")
	running.ClientMessageID = uuid.New()
	b.start(running)
	is(t, must(b.turns.SaveReply(t.Context(), confused, finished(running, "Not theirs to write.")))(t), false, "saved another user's reply")
	noError(t, b.turns.RequestCancel(t.Context(), confused, running.MessageID))
	is(t, ask[bool](b, "select cancel_requested from messages where id = $1", running.MessageID), false, "cancelled another user's reply")
	again := firstTurn("Mine.") // a client message id that another user has used does not matter
	again.ClientMessageID = running.ClientMessageID
	is(t, must(b.turns.StartTurn(t.Context(), stranger, again))(t).Started, true, "a turn with another user's id of it")
	b.exec("delete from chats where id = $1", again.ChatID)
	is(t, must(b.turns.StartTurn(t.Context(), b.user, turnIn(uuid.New(), "Hello?")))(t), chat.StartedTurn{}, "a turn in no chat")
	b.reply(running, "")
	b.exec("delete from messages where id in ($1, $2)", running.MessageID, running.UserMessageID)
	is(t, ask[string](b, "select count(*) || '/' || sum(length(content)) from messages"), before, "the messages were … and")
}

// Thousands of requests of many users on four connections, cancelled at any moment, half of them for another's chat: they read
// and write nothing of others, and no user's settings stay on a connection.
func TestNoRoleOrClaimsAreLeftBehind(t *testing.T) {
	t.Parallel()
	b := newBedWith(t, memory.DefaultLimits(), 4)
	owner := b.user
	users, chats := make([]auth.Principal, 50), make([]uuid.UUID, 50)
	for i := range users {
		users[i] = b.newUser()
		b.user = users[i]
		chats[i] = b.newChat(1)
		noError(t, b.index.IndexTurns(t.Context(), chats[i]))
	}
	b.user = owner
	together(t, 16, func(worker int) (err error) {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		for range races(t, 10_000) / 16 {
			a := random.IntN(len(users))
			z := (a + 1 + random.IntN(len(users)-1)) % len(users)
			ctx, cancel := context.WithCancel(t.Context())
			if random.IntN(3) == 0 {
				time.AfterFunc(time.Duration(random.IntN(3000))*time.Microsecond, cancel)
			}
			failed := b.anyRequest(ctx, random.IntN(3), users[a], chats[a])
			if random.IntN(2) == 0 {
				failed = b.trespass(ctx, random.IntN(4), users[a], chats[z])
			}
			if ctx.Err() == nil || errors.Is(failed, errTrespassed) {
				err = errors.Join(err, failed)
			}
			cancel()
		}
		return err
	})
	b.checkConnectionsAreClean()
	is(t, b.count("messages m join chats c on c.id = m.chat_id where m.user_id <> c.user_id or content = 'Let me in.'"), 0, "messages of others")
	b.checkCounters()
}

// anyRequest is one of a user in their own chat.
func (b *bed) anyRequest(ctx context.Context, kind int, user auth.Principal, chatID uuid.UUID) error {
	switch kind {
	case 0:
		return errOf(b.turns.ReadChat(ctx, user, chatID))
	case 1:
		turn := turnIn(chatID, "More.")
		turn.Lease = time.Millisecond
		return errOf(b.turns.StartTurn(ctx, user, turn))
	default:
		found, ok, err := b.turns.FindReply(ctx, user, chatID, uuid.Nil, 0)
		if err != nil || !ok {
			return err
		}
		return errOf(b.turns.SaveReply(ctx, user, finished(chat.NewTurn{ChatID: chatID, MessageID: found.MessageID}, "Yes.")))
	}
}

// errTrespassed is that somebody reached another user's rows.
var errTrespassed = errors.New("trespassed")

// trespass is an attempt of a user at another's chat.
func (b *bed) trespass(ctx context.Context, kind int, user auth.Principal, chatID uuid.UUID) error {
	var got any
	var err error
	reached, store := false, NewRecall(b.pool)
	switch kind {
	case 0:
		found, errFound := store.Matches(ctx, user, recall.Scope{ChatID: chatID}, [][]string{{"question"}})
		got, reached = found, errFound == nil || len(found.Found) > 0
	case 1:
		found, errFound := store.Matches(ctx, user, recall.Scope{}, [][]string{{"question"}})
		stolen := recall.Span{TurnID: recall.TurnID{ChatID: chatID, Seq: 1}, LastSeq: 2}
		texts, _, errTexts := store.Texts(ctx, user, []recall.Span{stolen}, uuid.Nil)
		others := slices.ContainsFunc(found.Found, func(m recall.Match) bool { return m.ChatID == chatID })
		got, reached, err = found, others || len(texts) > 0 || errFound == nil && len(found.Found) == 0, errors.Join(errFound, errTexts)
	case 2:
		started, errStart := b.turns.StartTurn(ctx, user, turnIn(chatID, "Let me in."))
		got, reached, err = started, started.Started || len(started.Buffer) > 0 || started.Running != uuid.Nil || started.Earlier != nil, errStart
	default:
		got, reached, _ = b.turns.FindReply(ctx, user, chatID, uuid.Nil, 0)
	}
	if reached {
		return fmt.Errorf("%w: %+v", errTrespassed, got)
	}
	return err
}

// checkConnectionsAreClean checks every connection of the pool.
func (b *bed) checkConnectionsAreClean() {
	b.t.Helper()
	total := int(b.pool.Config().MaxConns)
	for i := range total {
		conn := must(b.pool.Acquire(b.t.Context()))(b.t)
		defer conn.Release() // all of them are held until the last was looked at
		var role, claims string
		err := conn.QueryRow(b.t.Context(), `select current_setting('role') || '/' || current_user, concat(current_setting('request.jwt.claims', true),
			current_setting('request.jwt.claim.sub', true))`).Scan(&role, &claims)
		is(b.t, tuple(err, role, claims), tuple(nil, "none/postgres", ""), "connection %d has the role … and the claims", i)
	}
}

// auth.uid() reads the older variable of sub before the claims. One that somebody left on a pooled connection is not
// the user of our transactions, nor of a job's.
func TestUserLeftOnAConnectionDoesNotCount(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stranger, mine := b.newUser(), b.newChat(1)
	conn := must(b.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	for who, act := range map[string]func(tx pgx.Tx) error{
		"user":  func(tx pgx.Tx) error { return dbsqlc.ActAsUser.Run(t.Context(), tx, b.user.Claims) },
		"owner": func(tx pgx.Tx) error { return errOf(dbsqlc.ActAsChatOwner.One(t.Context(), tx, mine)) },
	} {
		tx := must(conn.Begin(t.Context()))(t)
		mustExec(t, tx, "select set_config('request.jwt.claim.sub', $1, false)", stranger.UserID.String())
		noError(t, act(tx))
		is(t, testkit.Ask[uuid.UUID](t, tx, "select auth.uid()"), b.user.UserID, "%s: acts as", who)
		noError(t, tx.Rollback(t.Context()))
	}
}

// errRolledBack ends a transaction that must leave nothing behind.
var errRolledBack = errors.New("rolled back")
