package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

func TestStartTurnReadsWhatThePromptNeeds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := firstTurn("My cello teacher is called Ilse.")
	if started := b.start(first); len(started.Buffer) != 0 || started.PendingTurns != 0 || started.Brief.Version != 0 {
		t.Errorf("a new chat has %+v", started)
	}
	b.reply(first, "Noted.")
	b.exec("update chats set system_prompt = 'Be brief.' where id = $1", first.ChatID)
	second := turnIn(first.ChatID, "And a second.")
	started := b.start(second)
	if started.SystemPrompt != "Be brief." || started.PendingTurns != 1 || len(started.Buffer) != 2 {
		t.Fatalf("got %+v", started)
	}
	if a, z := started.Buffer[0], started.Buffer[1]; a.Content != first.Content || a.Seq != 1 || a.Tokens != first.ContentTokens ||
		z.Content != "Noted." || z.ReplyTo != first.UserMessageID || z.Role != memory.RoleAssistant || z.Status != memory.StatusComplete {
		t.Errorf("the buffer is %+v", started.Buffer)
	}
	b.reply(second, "Noted, too.")
	b.mustCommit(b.claim(first.ChatID, brief.KindFold))
	third := b.start(turnIn(first.ChatID, "And a third."))
	if third.Brief.Version != 1 || third.Brief.CoveredSeq != 4 || third.Brief.Summary != "They talked." ||
		third.Brief.LastSummarizedMessageID != second.MessageID || len(third.Buffer) != 0 || third.PendingTurns != 0 {
		t.Errorf("after a fold: %+v", third)
	}
	b.checkCounters()
}

// A first message makes its chat with all settings, which already hold for its own prompt, in one round trip.
func TestFirstMessageMakesAChatWithSettings(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	counted := b.countTrips()
	first := firstTurn("My cello teacher is called Ilse.")
	first.ClientMessageID = uuid.New()
	first.Settings = chat.Settings{
		Title: "Cello", SystemPrompt: new("Be brief."), Tags: []string{"cello", "b"}, Strategy: memory.StrategyHybrid, TTLHours: 5, MaxTurns: 7,
	}
	started := b.start(first)
	if batches, queries := counted.batches.Load(), counted.queries.Load(); batches != 1 || queries != 0 {
		t.Errorf("%d batches and %d queries", batches, queries)
	}
	if want := (memory.Settings{Strategy: memory.StrategyHybrid, MaxTurns: 7}); !started.Started || started.SystemPrompt != "Be brief." || started.Settings != want {
		t.Errorf("started with %+v", started)
	}
	stored := func() string {
		return ask[string](b, `select concat_ws(' ', title, system_prompt, tags::text, memory_strategy, ttl_hours, max_turns) from chats where id = $1`, first.ChatID)
	}
	if got := stored(); got != "Cello Be brief. {cello,b} hybrid 5 7" {
		t.Errorf("stored %s", got)
	}
	b.reply(first, "Noted.")
	again := firstTurn(first.Content)
	again.ClientMessageID, again.Settings = first.ClientMessageID, chat.Settings{Title: "Other"}
	if found, err := b.turns.StartTurn(t.Context(), b.user, again); err != nil || found.Started || found.Earlier == nil || found.Earlier.ChatID != first.ChatID {
		t.Errorf("sent again: %+v, %v", found, err)
	}
	if got, chats := stored(), ask[int](b, "select count(*) from chats"); got != "Cello Be brief. {cello,b} hybrid 5 7" || chats != 1 {
		t.Errorf("after sending it again: %s, %d chats", got, chats)
	}
}

// A turn is three round trips: one starts it, one saves the reply, one commits that. Whoever makes a statement or a trip
// of them more does so on purpose. Only a turn that stored nothing asks for the reason.
func TestRoundTripsOfATurn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(9)
	counted := b.countTrips()
	turn := turnIn(chatID, "And now?")
	turn.ClientMessageID = uuid.New()
	is := func(want, what string) {
		t.Helper()
		if got := counted.since(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	b.start(turn)
	is("1 batches of 5 statements, 0 queries", "start") // user, chat, turn, brief, buffer
	if again, err := b.turns.StartTurn(t.Context(), b.user, turn); err != nil || !again.Started || len(again.Buffer) != 18 {
		t.Errorf("the same turn again: %+v, %v", again, err)
	}
	is("2 batches of 13 statements, 0 queries", "start again")
	b.reply(turn, "Now this.")
	is("1 batches of 4 statements, 1 queries", "save") // begin, user, reply, counters; commit
	b.turns.limits.ChunkThreshold = 1
	b.reply(turn, "Now this.")
	is("1 batches of 4 statements, 2 queries", "save and enqueue") // and the role, beside River's insert
}

// A reply is saved in its chat only: the statement names the chat, which a divided table is searched by.
func TestReplyIsSavedInItsChat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.startTwo()
	elsewhere := finished(one, "Not here.")
	elsewhere.ChatID = two.ChatID
	if saved, err := b.turns.SaveReply(t.Context(), b.user, elsewhere); err != nil || saved {
		t.Errorf("saved in another chat: %v, %v", saved, err)
	}
	b.reply(one, "Here.")
}

func TestStartTurnOfNobodysChat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	started, err := b.turns.StartTurn(t.Context(), b.user, turnIn(uuid.New(), "Hello?"))
	if err != nil || started.Started || started.Earlier != nil || started.Running != uuid.Nil {
		t.Errorf("%+v, %v", started, err)
	}
	if n := ask[int](b, "select count(*) from messages"); n != 0 {
		t.Errorf("%d messages were stored", n)
	}
}

// Of many messages that reach a chat at once one is answered. The other calls report the running reply.
func TestOneGenerationPerChat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	got := make([]chat.StartedTurn, 50)
	turns := make([]chat.NewTurn, len(got))
	failed := make([]error, len(got))
	var all sync.WaitGroup
	for i := range got {
		turns[i] = turnIn(chatID, "Me first!")
		all.Go(func() { got[i], failed[i] = b.turns.StartTurn(t.Context(), b.user, turns[i]) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	winner := uuid.Nil
	for i, started := range got {
		if started.Started && winner != uuid.Nil {
			t.Error("two turns were started")
		}
		if started.Started {
			winner = turns[i].MessageID
		}
	}
	for _, started := range got {
		if !started.Started && started.Running != winner {
			t.Errorf("running is %s, the winner %s", started.Running, winner)
		}
	}
	if n := ask[int](b, "select count(*) from messages where content = 'Me first!'"); n != 1 {
		t.Errorf("%d messages were stored", n)
	}
	b.checkCounters()
}

// A message that arrives many times at once is stored once, whether it starts a chat or continues one, and
// every call reports the one reply.
func TestSameClientMessageAtOnce(t *testing.T) {
	t.Parallel()
	for _, newChat := range []bool{true, false} {
		t.Run(fmt.Sprintf("new chat %v", newChat), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			for range 20 {
				chatID := uuid.Nil
				if !newChat {
					chatID = b.newChat(1)
				}
				b.sendCopies(chatID)
			}
			if n := ask[int](b, "select count(*) from chats where message_count = 0"); n != 0 {
				t.Errorf("%d chats without messages are left behind", n)
			}
			if n := ask[int](b, "select count(*) from chats"); n != 20 {
				t.Errorf("%d chats", n)
			}
		})
	}
}

// sendCopies starts one turn fifty times at once, in a new chat for uuid.Nil.
func (b *bed) sendCopies(chatID uuid.UUID) {
	b.t.Helper()
	clientID := uuid.New()
	got := make([]chat.StartedTurn, 50)
	failed := make([]error, len(got))
	var all sync.WaitGroup
	for i := range got {
		turn := turnIn(chatID, "Once only.")
		if chatID == uuid.Nil {
			turn = firstTurn("Once only.")
		}
		turn.ClientMessageID = clientID
		all.Go(func() { got[i], failed[i] = b.turns.StartTurn(b.t.Context(), b.user, turn) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		b.t.Fatal(err)
	}
	started, earlier := 0, map[uuid.UUID]bool{}
	for _, one := range got {
		switch {
		case one.Started:
			started++
		case one.Earlier == nil || one.Earlier.Content != "Once only.":
			b.t.Errorf("neither started nor found: %+v", one)
		default:
			earlier[one.Earlier.MessageID] = true
		}
	}
	if started != 1 || len(earlier) != 1 {
		b.t.Errorf("%d were started, the others found %d", started, len(earlier))
	}
}

// Two requests that pass each other between read and insert meet at the unique index. The loser finds on its
// next try what the winner has stored.
func TestUniqueViolationIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := firstTurn("Once only.")
	turn.ClientMessageID = uuid.New()
	other := ask[uuid.UUID](b, "insert into chats (user_id, title) values ($1, '') returning id", b.user.UserID)
	tx := b.begin()
	mustExec(t, tx, "insert into messages (chat_id, user_id, role, content, client_message_id) values ($1, $2, 'user', 'Once only.', $3)", other, b.user.UserID, turn.ClientMessageID)
	done := make(chan chat.StartedTurn, 1)
	go func() {
		started, err := b.turns.StartTurn(t.Context(), b.user, turn)
		if err != nil {
			t.Error(err)
		}
		done <- started
	}()
	b.awaitBlocked(1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.Started || got.Earlier == nil || got.Earlier.ChatID != other {
		t.Errorf("got %+v", got)
	}
	if n := ask[int](b, "select count(*) from chats"); n != 1 {
		t.Errorf("%d chats: the one of the lost race is still there", n)
	}
}

// A reply whose lease ran out no longer blocks its chat. Its text stays, and if its server returns after all,
// that one's result counts.
func TestAbandonedReplyIsReleased(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	lost := firstTurn("First.")
	b.start(lost)
	second := turnIn(lost.ChatID, "Second.")
	if got, err := b.turns.StartTurn(t.Context(), b.user, second); err != nil || got.Started || got.Running != lost.MessageID {
		t.Fatalf("while the lease runs: %+v, %v", got, err)
	}
	b.exec("update messages set lease_until = now() - interval '1 second' where id = $1", lost.MessageID)
	started := b.start(second)
	if got := ask[string](b, "select status from messages where id = $1", lost.MessageID); got != "interrupted" {
		t.Errorf("the abandoned reply is %s", got)
	}
	if len(started.Buffer) != 2 || started.PendingTurns != 1 {
		t.Errorf("the buffer is %+v", started.Buffer)
	}
	b.reply(lost, "It was only slow.")
	b.reply(second, "Fine.")
	if got := ask[string](b, "select string_agg(status || ' ' || content, ', ' order by seq) from messages where role = 'assistant'"); got != "complete It was only slow., complete Fine." {
		t.Errorf("the replies are %s", got)
	}
	b.checkCounters()
}

// A reply that is saved after a fold covered its interrupted, empty row makes the brief stale.
func TestLateReplyBehindAFoldMakesTheBriefStale(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	lost := firstTurn("First.")
	b.start(lost)
	b.exec("update messages set lease_until = now() - interval '1 second' where id = $1", lost.MessageID)
	second := turnIn(lost.ChatID, "Second.")
	b.start(second)
	b.reply(second, "Fine.")
	b.mustCommit(b.claim(lost.ChatID, brief.KindFold))
	b.reply(lost, "It was only slow.")
	if got := b.brief(lost.ChatID); !got.Stale || got.PendingTokens != 0 {
		t.Errorf("the brief is %+v", got)
	}
	b.checkCounters()
}

func TestSaveReplyOfDeletedChat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := firstTurn("Gone soon.")
	b.start(turn)
	b.exec("delete from chats where id = $1", turn.ChatID)
	saved, err := b.turns.SaveReply(t.Context(), b.user, finished(turn, "Too late."))
	if err != nil || saved {
		t.Errorf("saved %v, %v", saved, err)
	}
	if len(b.folds) != 0 || ask[int](b, "select count(*) from messages") != 0 {
		t.Error("something of the chat came back")
	}
}

// A save whose answer was lost may be repeated with the same result. Another ending comes too late.
func TestSaveReplyAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := firstTurn("Hello.")
	b.start(turn)
	b.reply(turn, "The first word counts.")
	before := b.brief(turn.ChatID)
	b.reply(turn, "The first word counts.")
	if after := b.brief(turn.ChatID); after != before {
		t.Errorf("the brief was %+v and is %+v", before, after)
	}
	late := finished(turn, "Or does it?")
	late.Status = memory.StatusFailed
	if saved, err := b.turns.SaveReply(t.Context(), b.user, late); err != nil || saved {
		t.Errorf("saved %v, %v", saved, err)
	}
	if got := ask[string](b, "select status || ' ' || content from messages where id = $1", turn.MessageID); got != "complete The first word counts." {
		t.Errorf("stored %q", got)
	}
	b.checkCounters()
}

// The reply and its fold are one transaction: neither is stored without the other.
func TestSaveReplyAndFoldAreOneTransaction(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	limits.ChunkThreshold, limits.KRawTurns = 5, 1
	b := newBedWith(t, limits, 4)
	chatID := b.newChat(1)
	turn := turnIn(chatID, "One turn more than the tail keeps.")
	b.start(turn)
	broken := NewTurns(b.pool, limits, Enqueue{Fold: func(context.Context, pgx.Tx, uuid.UUID) error { return errors.New("no queue") }})
	if saved, err := broken.SaveReply(t.Context(), b.user, finished(turn, "Now.")); err == nil || saved {
		t.Errorf("saved %v without a job", saved)
	}
	if got := ask[string](b, "select status from messages where id = $1", turn.MessageID); got != "streaming" {
		t.Errorf("the reply is %s", got)
	}
	b.reply(turn, "Now.")
	if len(b.folds) != 1 || <-b.folds != chatID {
		t.Error("no fold was enqueued")
	}
}

// Metadata that the app wrote on a reply meanwhile stays.
func TestSaveReplyKeepsOtherMetadata(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := firstTurn("Hello.")
	b.start(turn)
	b.exec(`update messages set metadata = metadata || '{"mine": 1}' where id = $1`, turn.MessageID)
	b.reply(turn, "Hi.")
	if got := ask[string](b, "select metadata::text from messages where id = $1", turn.MessageID); got != `{"mine": 1, "model_variant": "arco"}` {
		t.Errorf("the metadata is %s", got)
	}
}

func TestFindReply(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := firstTurn("One.")
	b.start(first)
	b.reply(first, "Ein.")
	second := turnIn(first.ChatID, "Two.")
	b.start(second)
	latest, ok, err := b.turns.FindReply(t.Context(), b.user, first.ChatID, uuid.Nil, 0)
	if err != nil || !ok || latest.MessageID != second.MessageID || latest.Status != memory.StatusStreaming || latest.UserMessageID != second.UserMessageID {
		t.Errorf("the latest: %+v, %v, %v", latest, ok, err)
	}
	named, ok, err := b.turns.FindReply(t.Context(), b.user, first.ChatID, first.MessageID, 0)
	if err != nil || !ok || named.Content != "Ein." || named.Metadata.ModelVariant != "arco" {
		t.Errorf("by its id: %+v, %v, %v", named, ok, err)
	}
	if _, ok, err := b.turns.FindReply(t.Context(), b.user, first.ChatID, first.UserMessageID, 0); err != nil || ok {
		t.Errorf("a user's message is no reply: %v, %v", ok, err)
	}
	if _, _, err := b.turns.FindReply(t.Context(), b.user, uuid.New(), uuid.Nil, 0); fault.CodeOf(err) != fault.ChatNotFound {
		t.Errorf("no chat: %v", err)
	}
	if _, _, err := b.turns.FindReply(t.Context(), b.newUser(), first.ChatID, first.MessageID, 0); fault.CodeOf(err) != fault.ChatNotFound {
		t.Errorf("another user's chat: %v", err)
	}
}

func TestLeasesAndCancelRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.startTwo()
	if err := b.turns.RequestCancel(t.Context(), b.newUser(), one.MessageID); err != nil {
		t.Fatal(err)
	}
	ids := []uuid.UUID{one.MessageID, two.MessageID, uuid.New()}
	if cancelled, err := b.turns.CancelRequested(t.Context(), ids); err != nil || len(cancelled) != 0 {
		t.Errorf("another user's request counted: %v, %v", cancelled, err)
	}
	if err := b.turns.RequestCancel(t.Context(), b.user, one.MessageID); err != nil {
		t.Fatal(err)
	}
	cancelled, err := b.turns.CancelRequested(t.Context(), ids)
	if err != nil || len(cancelled) != 1 || cancelled[0] != one.MessageID {
		t.Errorf("cancelled %v, %v", cancelled, err)
	}
	if err := b.turns.RenewLeases(t.Context(), ids, time.Hour); err != nil {
		t.Error(err)
	}
	if n := ask[int](b, "select count(*) from messages where lease_until > now() + interval '50 minutes'"); n != 2 {
		t.Errorf("%d leases were renewed", n)
	}
	b.reply(one, "Done.")
	if n := ask[int](b, "select count(*) from messages where status <> 'streaming' and lease_until is not null"); n != 0 {
		t.Error("a reply that ended has a lease")
	}
}
