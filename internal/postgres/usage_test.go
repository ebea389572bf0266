package postgres

import (
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// plan replaces the app's function; body is a query for its four columns.
func (b *bed) plan(body string) {
	b.exec(`create or replace function throughline.allow_turn(user_id uuid, purpose text, model_variant text)
		returns table (verdict text, reason text, resets_at timestamptz, variant text) language sql stable set search_path = '' as $$` + body + `$$`)
}

// tenADay is the plan of an app that allows ten turns a day, and names the next one as the time.
const tenADay = `select case when u.turns < 10 then 'allow' else 'deny' end, 'ten a day', date_trunc('day', now()) + interval '1 day', null
	from throughline.used(allow_turn.user_id, now() - interval '1 day') u`

// charged is a reply that is over, with what it has cost.
func charged(user uuid.UUID, turn chat.NewTurn) chat.FinishedReply {
	reply := finished(turn, "Noted.")
	reply.Spent = &work.Spent{
		Purpose: work.PurposeReply, Model: "test-1", Variant: turn.Variant, UserID: user, ChatID: turn.ChatID, MessageID: turn.MessageID,
		InputTokens: 90, CachedTokens: 64, OutputTokens: 7, MicroUSD: 21,
	}
	return reply
}

// Of turns at once on two servers, exactly those are stored that the quota has room for, while replies run and after they were
// charged and their chats deleted. Nothing is stored of the others.
func TestQuotaIsExactOnAllServers(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	b.plan(tenADay)
	other := openPool(t, b.db, b.db.ServerDSN, 10)
	t.Cleanup(other.Close)
	servers := []*Turns{b.turns, NewTurns(other, b.limits, Enqueue{Fold: b.turns.enqueue.Fold, Index: b.turns.enqueue.Index})}
	var stored atomic.Int64
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			turn := firstTurn("Me first.")
			turn.ClientMessageID = uuid.New()
			started, err := servers[n%2].StartTurn(t.Context(), b.user, turn)
			if err == nil && started.Started {
				stored.Add(1)
				if stored.Load()%2 == 0 { // some end at once, and are deleted
					must(servers[n%2].SaveReply(t.Context(), b.user, charged(b.user.UserID, turn)))(t)
					b.exec("delete from chats where id = $1", turn.ChatID)
				}
				return
			}
			if assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(err)) {
				refused, _ := errors.AsType[*fault.Error](err)
				assert.Equal(t, "ten a day", refused.Details["reason"])
				assert.WithinRange(t, refused.Details["resets_at"].(time.Time), time.Now(), time.Now().Add(24*time.Hour))
				assert.Positive(t, refused.RetryAfter)
			}
		})
	}
	all.Wait()
	is(t, stored.Load(), 10, "turns that were stored")
	is(t, b.count("chats")+ask[int](b, "select count(*) from usage_events"), 10, "chats, or charged replies of those that were deleted")
	is(t, ask[int](b, "select turns from throughline.used($1, now() - interval '1 day')", b.user.UserID), 10, "turns that count")
	is(t, must(b.turns.StartTurn(t.Context(), b.newUser(), firstTurn("And me.")))(t).Started, true, "another user's")
}

// A turn that is stored is not asked about again: neither when its client sends it again, nor when its reply failed.
func TestStoredTurnsAreNotDenied(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	turn := b.startWithID("Only this one.")
	b.plan("select 'deny', 'none', null::timestamptz, null")
	again := must(b.turns.StartTurn(t.Context(), b.user, turn))(t)
	is(t, tuple(again.Started, again.Variant), tuple(true, "arco"), "its answer was lost: %+v", again)
	resent := firstTurn(turn.Content)
	resent.ClientMessageID = turn.ClientMessageID
	got := must(b.turns.StartTurn(t.Context(), b.user, resent))(t)
	is(t, got.Earlier != nil && got.Earlier.MessageID == turn.MessageID, true, "sent again: %+v", got)
	b.fail(turn, "")
	b.start(b.repeatOf(turn))
	_, err := b.turns.StartTurn(t.Context(), b.user, turnIn(turn.ChatID, "Another one."))
	is(t, faultOf(t, err, fault.QuotaExceeded)["resets_at"], nil, "%v", err)
}

// A turn may be downgraded to another variant that there is. The reply says so, and remembers which one was asked for.
func TestTurnIsDowngraded(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	b.plan("select 'downgrade', 'plan', null::timestamptz, 'small'")
	turn := firstTurn("Think deeply.")
	turn.ClientMessageID, turn.Variants = uuid.New(), []string{"arco", "small"}
	is(t, b.start(turn).Variant, "small", "the variant")
	const stored = "select concat_ws(' ', metadata ->> 'model_variant', metadata ->> 'asked_variant') from messages where id = $1"
	is(t, ask[string](b, stored, turn.MessageID), "small arco", "stored")
	resent := firstTurn(turn.Content)
	resent.ClientMessageID, resent.Variants = turn.ClientMessageID, turn.Variants
	earlier := must(b.turns.StartTurn(t.Context(), b.user, resent))(t).Earlier
	is(t, tuple(earlier.Variant, earlier.Asked), tuple("small", "arco"), "%+v", earlier)
	turn = firstTurn("Another.")
	turn.Variants = []string{"arco"}
	_, err := b.turns.StartTurn(t.Context(), b.user, turn)
	is(t, fault.CodeOf(err), fault.ForbiddenByPolicy, "to a variant that there is not: %v", err)
	b.plan("select 'maybe', null, null::timestamptz, null")
	_, err = b.turns.StartTurn(t.Context(), b.user, turn)
	is(t, fault.CodeOf(err), fault.ForbiddenByPolicy, "no verdict: %v", err)
}

// What a reply has cost is charged once, with it, however often it is saved, and also if its chat was deleted. An account that
// was deleted has nothing to pay.
func TestReplyIsChargedOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	kept, deleted := b.startTwo()
	reply := charged(b.user.UserID, kept)
	for range 2 {
		is(t, must(b.turns.SaveReply(t.Context(), b.user, reply))(t), true, "saved")
	}
	const row = `select concat_ws(' ', id = message_id, chat_id, purpose, model_variant, model, input_tokens, cached_tokens, output_tokens, micro_usd, estimated)
		from usage_events where message_id = $1`
	is(t, ask[string](b, row, kept.MessageID), "t "+kept.ChatID.String()+" reply arco test-1 90 64 7 21 f", "the row")
	b.exec("delete from chats where id = $1", deleted.ChatID)
	is(t, must(b.turns.SaveReply(t.Context(), b.user, charged(b.user.UserID, deleted)))(t), false, "saved though deleted")
	found := must(NewHistory(b.server, memory.DefaultLimits(), Enqueue{}).ReadUsage(t.Context(), b.user, api.UsageQuery{By: "variant"}))(t)
	is(t, found, api.Spending{
		Usage: []api.UsageSum{{Key: "arco", Calls: 2, InputTokens: 180, CachedTokens: 128, OutputTokens: 14, Cost: 42}}, Quota: api.Quota{Verdict: "allow"},
	}, "summed up")
	gone := firstTurn("I leave.")
	b.start(gone)
	b.exec("delete from auth.users where id = $1", b.user.UserID)
	is(t, must(b.turns.SaveReply(t.Context(), b.user, charged(b.user.UserID, gone)))(t), false, "saved without an account")
	is(t, ask[int](b, "select count(*) from usage_events where user_id = $1", b.user.UserID), 0, "charged to nobody")
}

// What the server does by itself for a user has a limit of tokens in 24 hours, and a time when there is room again. Replies and
// folds do not count.
func TestUpkeepHasALimit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	usage := &Usage{Pool: b.server, Logger: (&testkit.Log{}).Logger()}
	spend := func(purpose string, tokens int, hoursAgo int) {
		b.exec(`insert into usage_events (user_id, purpose, input_tokens, created_at) values ($1, $2, $3, now() - make_interval(hours => $4))`,
			b.user.UserID, purpose, tokens, hoursAgo)
	}
	allowed := func() error { return usage.Allow(t.Context(), b.user.UserID, "extract") }
	spend("reply", 900_000, 1)
	spend("fold", 900_000, 1)
	spend("extract", 900_000, 25)
	spend("embed", 300_000, 3)
	noError(t, allowed())
	spend("topic", 150_000, 10)
	spend("extract", 60_000, 20)
	denied, ok := errors.AsType[*work.DeniedError](allowed())
	mustBe(t, ok, true, "denied")
	assert.WithinDuration(t, time.Now().Add(4*time.Hour), denied.Until, time.Minute, "the oldest is a day old")
	is(t, fault.CodeOf(denied), fault.QuotaExceeded, "as a client is told")
	is(t, b.start(firstTurn("A reply.")).Started, true, "a reply")
}

// The plan that the documentation shows does what it says, with the rights that the server has.
func TestDocumentedPlan(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	page := string(must(os.ReadFile("../../docs/usage.md"))(t))
	_, example, _ := strings.Cut(page, "```sql\n")
	example, _, _ = strings.Cut(example, "```")
	b.exec(example)
	deep := firstTurn("Think.")
	deep.Variant, deep.Variants = "deep-dive", []string{"arco", "deep-dive"}
	is(t, b.start(deep).Variant, "arco", "without a plan")
	for range 9 {
		is(t, b.start(firstTurn("Hello.")).Variant, "arco", "ten messages a day")
	}
	_, err := b.turns.StartTurn(t.Context(), b.user, firstTurn("One more."))
	is(t, faultOf(t, err, fault.QuotaExceeded)["reason"], "ten messages a day", "%v", err)
	b.exec("insert into public.plans values ($1, 'paid')", b.user.UserID)
	deep = firstTurn("Think again.")
	deep.Variant, deep.Variants = "deep-dive", []string{"arco", "deep-dive"}
	is(t, b.start(deep).Variant, "deep-dive", "with a plan")
	b.exec("insert into usage_events (user_id, purpose, input_tokens) values ($1, 'fold', 1000001)", b.user.UserID)
	is(t, fault.CodeOf((&Usage{Pool: b.server, Logger: nil}).Allow(t.Context(), b.user.UserID, "embed")), fault.QuotaExceeded, "upkeep")
}
