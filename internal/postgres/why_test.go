package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// why reads what a reply was made of.
func (b *bed) why(messageID uuid.UUID) history.Why {
	b.t.Helper()
	return must(b.searches().WhyReply(b.t.Context(), b.user, messageID))(b.t)
}

// remembered is a chat of twelve turns, with a brief, and a reply to a thirteenth question. By its receipt it was
// shown a brief of ten turns, the two turns after those, and of the ten the third and the fifth.
func (b *bed) remembered() (chatID uuid.UUID, turn chat.NewTurn) {
	b.t.Helper()
	chatID = b.newChat(12)
	b.mustCommit(b.claim(chatID, brief.KindFold))
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
		if len(why.Recent) != 4 || why.Recent[0].Seq != 21 || why.Recent[3].Seq != 24 || why.Recent[0].Content != nil || why.Topic != nil {
			t.Errorf("%+v", why.Recent)
		}
	}
	topic := ask[uuid.UUID](b, `insert into topics (chat_id, user_id, number, title, summary, created_at, last_active_at, first_seq, last_seq)
		values ($1, $2, 1, 'Strings', 'One broke.', now(), now(), 5, 10) returning id`, chatID, b.user.UserID)
	b.exec("update messages set metadata = jsonb_set(metadata, '{memory,topic}', to_jsonb($1::text)) where id = $2", topic.String(), turn.MessageID)
	found := b.why(turn.MessageID).Topic
	is(t, tuple(found.ID, found.Title, *found.Summary, found.State), tuple(topic, "Strings", "One broke.", "active"), "the topic")
	// Of what was deleted since nothing is left.
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
	why := func(user auth.Principal, id uuid.UUID) error { return errOf(b.searches().WhyReply(t.Context(), user, id)) }
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
