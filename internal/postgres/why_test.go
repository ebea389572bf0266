package postgres

import (
	"testing"

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
	alone := b.say(chatID, "user", "Nobody answers.")
	for _, c := range []struct {
		user auth.Principal
		id   uuid.UUID
		want fault.Code
	}{{b.user, alone, fault.MessageNotFound}, {b.user, uuid.New(), fault.MessageNotFound}, {b.newUser(), turn.MessageID, fault.MessageNotFound}} {
		wantFault(t, errOf(b.searches().WhyReply(t.Context(), c.user, c.id)), c.want, "…, want %s", c.want)
	}
	b.exec("update chats set ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours' where id = $1", chatID)
	if _, err := b.searches().WhyReply(t.Context(), b.user, turn.MessageID); fault.CodeOf(err) != fault.ChatExpired {
		t.Errorf("%v", err)
	}
}

func TestWhyNamesMemoriesAndTheirSources(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID, turn := b.remembered()
	ids := b.memorize(b.user, "Plays the cello.", "Eats no nuts.", "Is deleted soon.")
	message := ask[uuid.UUID](b, "select id from messages where chat_id = $1 and seq = 5", chatID)
	b.exec(`insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		values ($1, $2, $3, $4, 5, 'Plays the cello.', 'my cello', '2026-03-03')`, ids["Plays the cello."], message, b.user.UserID, chatID)
	b.exec(`update messages set metadata = jsonb_set(metadata, '{memory,memories}', jsonb_build_array($1::text, $2::text, $3::text)) where id = $4`,
		ids["Eats no nuts."].String(), ids["Is deleted soon."].String(), ids["Plays the cello."].String(), turn.MessageID)
	b.exec("delete from memories where id = $1", ids["Is deleted soon."])
	why := b.why(turn.MessageID)
	if len(why.Memories) != 2 || why.Memories[0].Content != "Eats no nuts." || why.Memories[0].Status != "active" || len(why.Memories[0].Sources) != 0 {
		t.Fatalf("%+v", why.Memories)
	}
	sources := why.Memories[1].Sources
	if len(sources) != 1 || sources[0].MessageID != message || sources[0].ChatID != chatID || sources[0].Seq != 5 || sources[0].Quote != "my cello" ||
		sources[0].SaidAt.IsZero() {
		t.Errorf("%+v", sources)
	}
}
