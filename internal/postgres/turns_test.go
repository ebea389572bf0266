package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// A turn reads its chat's settings, its brief and the turns after it, and counts them without itself.
func TestStartTurnReadsWhatThePromptNeeds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := firstTurn("My cello teacher is called Ilse.")
	started := b.start(first)
	is(t, tuple(len(started.Buffer), started.PendingTurns, started.TotalTurns, started.Brief.Version), tuple(0, 0, 0, 0), "a new chat: %+v", started)
	b.reply(first, "Noted.")
	b.exec("update chats set memory_strategy = 'hybrid', max_turns = 7, system_prompt = 'Be brief.' where id = $1", first.ChatID)
	second := turnIn(first.ChatID, "And a second.")
	second.ClientMessageID = uuid.New()
	tried := b.start(second)
	b.fail(second, "")
	second = b.repeatOf(second)
	for _, started := range []chat.StartedTurn{tried, b.start(second)} {
		is(t, tuple(started.SystemPrompt, started.Settings, started.PendingTurns, started.TotalTurns, strings.TrimRight(contents(started.Buffer), "|")),
			tuple("Be brief.", memory.Settings{Strategy: memory.StrategyHybrid, MaxTurns: 7}, 1, 1, first.Content+"|Noted."), "started %+v", started)
		if a, z := started.Buffer[0], started.Buffer[1]; a.Seq != 1 || a.Tokens != first.ContentTokens || z.ReplyTo != first.UserMessageID ||
			z.Role != memory.RoleAssistant || z.Status != memory.StatusComplete {
			t.Errorf("the buffer is %+v", started.Buffer)
		}
	}
	b.reply(second, "Noted, too.")
	b.mustCommit(b.claim(first.ChatID))
	third := b.start(turnIn(first.ChatID, "And a third."))
	is(t, tuple(third.Brief.Version, third.Brief.CoveredSeq, third.Brief.Summary, third.Brief.LastSummarizedMessageID, len(third.Buffer), third.PendingTurns),
		tuple(1, 5, "They talked.", second.MessageID, 0, 0), "after a fold: %+v", third)
	b.checkCounters()
}

// A first message makes its chat with all settings, which already hold for its own prompt, in one round trip.
func TestFirstMessageMakesAChatWithSettings(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	counted := b.countTrips()
	first := firstTurn("My cello teacher is called Ilse.")
	first.Settings = chat.Settings{
		Title: "Cello", SystemPrompt: new("Be brief."), Tags: []string{"cello", "b"}, Strategy: memory.StrategyHybrid, TTLHours: 5, MaxTurns: 7,
	}
	started := b.start(first)
	is(t, tuple(counted.batches.Load(), counted.queries.Load()), tuple(1, 0), "batches, queries")
	is(t, tuple(started.SystemPrompt, started.Settings), tuple("Be brief.", memory.Settings{Strategy: memory.StrategyHybrid, MaxTurns: 7}), "%+v", started)
	is(t, ask[string](b, `select concat_ws(' ', title, system_prompt, tags::text, memory_strategy, ttl_hours, max_turns) from chats where id = $1`, first.ChatID),
		"Cello Be brief. {cello,b} hybrid 5 7", "stored")
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
	wantTrips := func(want, what string) {
		t.Helper()
		is(t, counted.since(), want, "%s", what)
	}
	b.start(turn)
	wantTrips("1 batches of 8 statements, 0 queries", "start")
	is(t, strings.Join(counted.sent, " "), "begin ActAsUser LockChat AdmitTurn InsertTurn ReadBrief ReadBuffer commit", "versions add nothing to it")
	again := must(b.turns.StartTurn(t.Context(), b.user, turn))(t)
	is(t, tuple(again.Started, len(again.Buffer)), tuple(true, 18), "the same turn again: %+v", again)
	wantTrips("2 batches of 19 statements, 0 queries", "start again")
	must(b.turns.SaveReply(t.Context(), b.user, charged(b.user.UserID, turn)))(t)
	wantTrips("1 batches of 5 statements, 1 queries", "save") // begin, cost, user, reply, counters; commit
	b.turns.limits.ChunkThreshold = 1
	b.reply(turn, "Now this.")
	wantTrips("1 batches of 4 statements, 2 queries", "save and enqueue") // and the role, beside River's insert
}

// Two requests that pass each other between read and insert meet at the unique index. The loser finds on its
// next try what the winner has stored.
func TestUniqueViolationIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn, other := firstTurn("Once only."), b.emptyChat()
	turn.ClientMessageID = uuid.New()
	tx := b.begin()
	mustExec(t, tx, "insert into messages (chat_id, user_id, role, content, client_message_id) values ($1, $2, 'user', 'Once only.', $3)", other,
		b.user.UserID, turn.ClientMessageID)
	var got chat.StartedTurn
	noError(t, b.waitsFor(tx, func() (err error) { got, err = b.turns.StartTurn(t.Context(), b.user, turn); return err }))
	assert.Truef(t, !got.Started && got.Earlier != nil && got.Earlier.ChatID == other, "got %+v", got)
	is(t, b.count("chats"), 1, "chats: the one of the lost race is still there")
}

// A reply whose lease ran out no longer blocks its chat. Its text stays, and if its server returns after all,
// that one's result counts.
func TestAbandonedReplyIsReleased(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	lost := firstTurn("First.")
	b.start(lost)
	second := turnIn(lost.ChatID, "Second.")
	got := must(b.turns.StartTurn(t.Context(), b.user, second))(t)
	mustBe(t, tuple(got.Started, got.Running), tuple(false, lost.MessageID), "while the lease runs: %+v", got)
	b.exec("update messages set lease_until = now() - interval '1 second' where id = $1", lost.MessageID)
	started := b.start(second)
	is(t, ask[string](b, "select status from messages where id = $1", lost.MessageID), "interrupted", "the abandoned reply")
	is(t, tuple(len(started.Buffer), started.PendingTurns), tuple(2, 1), "the buffer")
	b.reply(second, "Fine.")
	b.mustCommit(b.claim(lost.ChatID))
	b.reply(lost, "It was only slow.")
	is(t, b.brief(lost.ChatID).CoveredSeq, 0, "the brief, which covered the empty reply, covers")
	is(t, ask[string](b, "select string_agg(status || ' ' || content, ', ' order by seq) from messages where role = 'assistant'"),
		"complete It was only slow., complete Fine.", "the replies")
	b.checkCounters()
}

// A reply is saved in its chat, beside what the app wrote on it meanwhile. A save whose answer was lost may be repeated with the
// same result. Another ending comes too late.
func TestReplyIsSavedOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn, other := b.startTwo()
	b.exec(`update messages set metadata = metadata || '{"mine": 1}' where id = $1`, turn.MessageID)
	elsewhere, late := finished(turn, "Not here."), finished(turn, "Or does it?")
	elsewhere.ChatID, late.Status = other.ChatID, memory.StatusFailed
	is(t, must(b.turns.SaveReply(t.Context(), b.user, elsewhere))(t), false, "saved in another chat")
	b.reply(turn, "The first word counts.")
	before := b.brief(turn.ChatID)
	b.reply(turn, "The first word counts.")
	is(t, b.brief(turn.ChatID), before, "the brief after the second time")
	is(t, must(b.turns.SaveReply(t.Context(), b.user, late))(t), false, "saved with another ending")
	is(t, ask[string](b, "select concat_ws(' ', status, content, metadata) from messages where id = $1", turn.MessageID),
		`complete The first word counts. {"mine": 1, "model_variant": "arco"}`, "stored")
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
	broken := NewTurns(b.server, limits, Enqueue{Fold: func(context.Context, pgx.Tx, uuid.UUID) error { return errors.New("no queue") }})
	saved, err := broken.SaveReply(t.Context(), b.user, finished(turn, "Now."))
	assert.Truef(t, err != nil && !saved, "saved %v without a job", saved)
	is(t, ask[string](b, "select status from messages where id = $1", turn.MessageID), "streaming", "the reply")
	b.reply(turn, "Now.")
	assert.True(t, len(b.folds) == 1 && <-b.folds == chatID, "no fold was enqueued")
}

func TestFindReply(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.exchange(firstTurn("One."), "Ein.")
	second := turnIn(first.ChatID, "Two.")
	b.start(second)
	latest, ok, err := b.turns.FindReply(t.Context(), b.user, first.ChatID, uuid.Nil, 0)
	is(t, tuple(err, ok, latest.MessageID, latest.Status, latest.UserMessageID),
		tuple(nil, true, second.MessageID, memory.StatusStreaming, second.UserMessageID), "the latest: %+v", latest)
	named, ok, err := b.turns.FindReply(t.Context(), b.user, first.ChatID, first.MessageID, 0)
	is(t, tuple(err, ok, named.Content, named.Metadata.ModelVariant), tuple(nil, true, "Ein.", "arco"), "by its id: %+v", named)
	if _, ok, err := b.turns.FindReply(t.Context(), b.user, first.ChatID, first.UserMessageID, 0); err != nil || ok {
		t.Errorf("a user's message is no reply: %v, %v", ok, err)
	}
	wantFault(t, errOf2(b.turns.FindReply(t.Context(), b.user, uuid.New(), uuid.Nil, 0)), fault.ChatNotFound, "no chat")
	wantFault(t, errOf2(b.turns.FindReply(t.Context(), b.newUser(), first.ChatID, first.MessageID, 0)), fault.ChatNotFound, "another user's chat")
}

func TestLeasesAndCancelRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.startTwo()
	noError(t, b.turns.RequestCancel(t.Context(), b.newUser(), one.MessageID))
	ids := []uuid.UUID{one.MessageID, two.MessageID, uuid.New()}
	is(t, len(must(b.turns.CancelRequested(t.Context(), ids))(t)), 0, "another user's request counted")
	noError(t, b.turns.RequestCancel(t.Context(), b.user, one.MessageID))
	cancelled, err := b.turns.CancelRequested(t.Context(), ids)
	assert.Truef(t, err == nil && len(cancelled) == 1 && cancelled[0] == one.MessageID, "cancelled %v, %v", cancelled, err)
	b.reply(one, "Done.")
	is(t, b.count("messages where status <> 'streaming' and num_nonnulls(server_id, lease_until) > 0"), 0, "a reply that ended has a lease")
}

// fail ends a turn's reply as failed, with the text so far.
func (b *bed) fail(turn chat.NewTurn, said string) {
	b.t.Helper()
	reply := finished(turn, said)
	reply.Status = memory.StatusFailed
	mustBe(b.t, must(b.turns.SaveReply(b.t.Context(), b.user, reply))(b.t), true, "save")
}

// repeatOf returns a turn that repeats another one.
func (b *bed) repeatOf(turn chat.NewTurn) chat.NewTurn {
	asked := ask[int64](b, "select seq from messages where id = $1", turn.UserMessageID)
	turn.Last = new(turn.MessageID)
	turn.Replacement = &chat.Replacement{MessageID: turn.MessageID, FromSeq: asked + 1, Again: true, Retry: true}
	turn.NewChat, turn.MessageID = false, uuid.New()
	return turn
}

func TestAFailedTurnIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.newChat(2)
	first := b.startWithID("What is a fugue?")
	is(t, must(b.turns.StartTurn(t.Context(), b.user, b.repeatOf(first)))(t).Started, false, "over a running reply")
	b.fail(first, "A fugue is a mistaken thing")
	is(t, must(b.turns.StartTurn(t.Context(), b.newUser(), b.repeatOf(first)))(t).Started, false, "as a stranger")
	found := must(b.turns.StartTurn(t.Context(), b.user, first))(t)
	mustBe(t, tuple(found.Started, found.Earlier.Status), tuple(false, memory.StatusFailed), "%+v", found)
	b.mustCommit(b.claim(first.ChatID))

	second := b.repeatOf(first)
	is(t, contents(b.start(second).Buffer), "", "the buffer")
	b.reply(second, "A fugue is a piece in several voices.")
	is(t, must(b.turns.StartTurn(t.Context(), b.user, b.repeatOf(second)))(t).Started, false, "over a complete reply")
	is(t, b.count("messages where chat_id = $1 and role = 'user'", first.ChatID), 1, "user rows")
	is(t, ask[string](b, "select superseded_by || ' ' || token_count || ' ' || content || ' ' || status from messages where id = $1", first.MessageID),
		second.MessageID.String()+" 0 A fugue is a mistaken thing failed", "the old reply")
	b.checkCounters()
	found = must(b.turns.StartTurn(t.Context(), b.user, first))(t)
	is(t, tuple(found.Earlier.MessageID, found.Earlier.Status), tuple(second.MessageID, memory.StatusComplete), "%+v", found)
	is(t, must(b.turns.SaveReply(t.Context(), b.user, finished(first, "Too late.")))(t), false, "a superseded reply was saved")
	// The brief, which covered the failed reply, is folded again without it.
	is(t, contents(b.takeOver(first.ChatID).Planned.Messages), "What is a fugue?|A fugue is a piece in several voices.", "the next fold reads")
}

// A server that was frozen saves its reply while the message is tried again. That reply stands, and there is no other.
func TestALateReplyIsNotSuperseded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.startWithID("What is a fugue?")
	b.exec("update messages set status = 'interrupted' where id = $1", first.MessageID)
	tx := must(b.pool.Begin(t.Context()))(t)
	mustExec(t, tx, "update messages set status = 'complete', content = 'A piece in voices.' where id = $1", first.MessageID)
	var again chat.StartedTurn
	noError(t, b.waitsFor(tx, func() (err error) {
		again, err = b.turns.StartTurn(t.Context(), b.user, b.repeatOf(first))
		return err
	}))
	is(t, tuple(again.Started, b.count("messages where superseded_by is not null")), tuple(false, 0), "%+v", again)
}

// A message that arrives many times at once is stored once, and every call reports the one reply.
func TestSameClientMessageAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 20 {
		copies, clientID, started := make([]chat.NewTurn, 50), uuid.New(), 0
		for i := range copies {
			copies[i] = firstTurn("Once only.")
			copies[i].ClientMessageID = clientID
		}
		for _, one := range b.startAtOnce(copies) {
			if one.Started {
				started++
			} else if one.Earlier == nil || one.Earlier.Content != "Once only." {
				t.Errorf("neither started nor found: %+v", one)
			}
		}
		is(t, started, 1, "were started")
	}
	is(t, tuple(b.count("chats"), b.count("messages")), tuple(20, 40), "chats, messages")
}

// A request that is read after its message was sent again and deleted, alone or with its chat, brings no words back.
func TestADeletedMessageIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	for what, statement := range map[string]string{"message": "delete from messages where id = $1", "chat": "delete from chats where id = $2"} {
		b := newBed(t)
		sent := b.startWithID("My name is Ada.")
		late, here := firstTurn(sent.Content), turnIn(b.emptyChat(), sent.Content)
		late.ClientMessageID, here.ClientMessageID = sent.ClientMessageID, sent.ClientMessageID
		b.reply(sent, "Hello, Ada.")
		b.exec(statement+" and $1 <> $2", sent.UserMessageID, sent.ChatID)
		for _, again := range []chat.NewTurn{late, here} {
			_, err := b.turns.StartTurn(t.Context(), b.user, again)
			is(t, fault.CodeOf(err), fault.MessageNotFound, "after its %s: %v", what, err)
		}
		is(t, b.count("messages where content like '%name is%'"), 0, "stored after its %s", what)
		is(t, must(b.turns.StartTurn(t.Context(), b.newUser(), late))(t).Started, true, "with the same id, of another user")
		b.exec("update throughline.deleted_messages set deleted_at = now() - interval '25 hours'")
		noError(t, NewMaintenance(b.pool, b.limits).DeleteOldUsage(t.Context()))
		is(t, b.count("throughline.deleted_messages"), 0, "known after a day")
	}
}

// why reads what a reply was made of.
func (b *bed) why(messageID uuid.UUID) api.Why {
	return must(b.searches().WhyReply(b.t.Context(), b.user, messageID))(b.t)
}

// remembered is a chat of twelve turns, with a brief, and a reply to a thirteenth question. By its receipt it was
// shown a brief of ten turns, the two turns after those, and of the ten the third and the fifth.
func (b *bed) remembered() (chatID uuid.UUID, turn chat.NewTurn) {
	b.t.Helper()
	chatID = b.newChat(12)
	b.mustCommit(b.claim(chatID))
	turn = turnIn(chatID, "Which string broke?")
	b.start(turn)
	reply := finished(turn, "The A string.")
	reply.Metadata.Memory = &prompt.Receipt{
		BriefVersion: 1, CoveredThroughSeq: 20, TailTurns: 2, Sections: []prompt.Account{},
		Recalled: []int64{5, 9}, RecallTokens: new(7), Recall: "words",
	}
	mustBe(b.t, must(b.turns.SaveReply(b.t.Context(), b.user, reply))(b.t), true, "save")
	return chatID, turn
}

func TestWhyNamesWhatThePromptHeld(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID, turn := b.remembered()
	for _, id := range []uuid.UUID{turn.MessageID, turn.UserMessageID} {
		why := b.why(id)
		is(t, tuple(why.ChatID, why.MessageID, why.Seq, *why.UserMessageID, why.Status), tuple(chatID, turn.MessageID, 26, turn.UserMessageID, "complete"),
			"%+v", why)
		if why.Receipt == nil || why.Receipt.Recall != "words" || why.Brief == nil || why.Brief.Version != 1 || why.Brief.Kind != "fold" || why.Brief.Text == nil {
			t.Errorf("%+v, %+v", why.Receipt, why.Brief)
		}
		if len(why.Recalled) != 2 || why.Recalled[1].Seq != 9 || len(why.Recalled[1].Messages) != 2 || *why.Recalled[1].Messages[0].Content != "another question" {
			t.Errorf("%+v", why.Recalled)
		}
		assert.Truef(t, len(why.Recent) == 4 && why.Recent[0].Seq == 21 && why.Recent[3].Seq == 24 && why.Recent[0].Content == nil && why.Topic == nil,
			"%+v", why.Recent)
	}
	topic := ask[uuid.UUID](b, `insert into topics (chat_id, user_id, number, title, summary, created_at, last_active_at, first_seq, last_seq)
		values ($1, $2, 1, 'Strings', 'One broke.', now(), now(), 5, 10) returning id`, chatID, b.user.UserID)
	b.exec("update messages set metadata = jsonb_set(metadata, '{memory,topic}', to_jsonb($1::text)) where id = $2", topic.String(), turn.MessageID)
	found := b.why(turn.MessageID).Topic
	is(t, tuple(found.ID, found.Title, *found.Summary, found.State), tuple(topic, "Strings", "One broke.", "active"), "the topic")
	// Nothing is left of the messages deleted since.
	b.exec("delete from topics where id = $1", topic)
	b.exec("delete from messages where chat_id = $1 and seq in (5, 6, 9, 21)", chatID)
	why := b.why(turn.MessageID)
	is(t, tuple(why.Topic == nil, why.Receipt.Topic), tuple(true, topic), "the topic of the receipt")
	if len(why.Recalled) != 1 || why.Recalled[0].Seq != 9 || len(why.Recalled[0].Messages) != 1 || why.Recalled[0].Messages[0].Role != "assistant" {
		t.Errorf("%+v", why.Recalled)
	}
	is(t, tuple(len(why.Recent), why.Recent[0].Seq), tuple(2, 23), "%+v", why.Recent)
	b.exec("delete from messages where id = $1", turn.UserMessageID)
	why = b.why(turn.MessageID)
	is(t, tuple(why.UserMessageID == nil, len(why.Recent)), tuple(true, 2), "%+v", why)
}

func TestWhyOfOtherMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID, turn := b.remembered()
	imported := b.say(chatID, "assistant", "Imported.")
	if why := b.why(imported); why.Receipt != nil || why.Brief != nil || why.Recalled == nil || why.Recent == nil {
		t.Errorf("%+v", why)
	}
	alone := b.say(chatID, "user", "There is no answer.")
	why := func(user auth.Principal, id uuid.UUID) error {
		return errOf(b.searches().WhyReply(t.Context(), user, id))
	}
	wantFault(t, why(b.user, alone), fault.MessageNotFound, "without a reply")
	wantFault(t, why(b.user, uuid.New()), fault.MessageNotFound, "none")
	wantFault(t, why(b.newUser(), turn.MessageID), fault.MessageNotFound, "another user's")
	shelf{bed: b}.expire(chatID)
	wantFault(t, why(b.user, turn.MessageID), fault.ChatExpired, "of an expired chat")
}

func TestWhyNamesMemoriesAndTheirSources(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID, turn := b.remembered()
	ids := b.memorize(b.user, "Plays the cello.", "Eats no nuts.", "Is deleted soon.")
	message := b.message(chatID, 5)
	b.exec(`insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		values ($1, $2, $3, $4, 5, 'Plays the cello.', 'my cello', '2026-03-03')`, ids["Plays the cello."], message, b.user.UserID, chatID)
	b.exec(`update messages set metadata = jsonb_set(metadata, '{memory,memories}', jsonb_build_array($1::text, $2::text, $3::text)) where id = $4`,
		ids["Eats no nuts."].String(), ids["Is deleted soon."].String(), ids["Plays the cello."].String(), turn.MessageID)
	b.exec("delete from memories where id = $1", ids["Is deleted soon."])
	found := b.why(turn.MessageID).Memories
	mustBe(t, len(found), 2, "%+v", found)
	is(t, tuple(found[0].Content, found[0].Status, len(found[0].Sources), len(found[1].Sources)), tuple("Eats no nuts.", "active", 0, 1), "%+v", found)
	source := found[1].Sources[0]
	is(t, tuple(source.MessageID, source.ChatID, source.Seq, source.Quote, source.SaidAt.UTC().Format(time.DateOnly)),
		tuple(message, chatID, 5, "my cello", "2026-03-03"), "%+v", source)
}
