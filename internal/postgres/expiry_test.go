package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// An expired chat takes no message and reports since when. Once revived it continues with its brief.
func TestExpiredChatTakesNoTurn(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(3)
	s.mustCommit(s.claim(chatID, brief.KindFold))
	failing := turnIn(chatID, "This fails.")
	s.start(failing)
	s.fail(failing, "")
	s.expire(chatID)
	since := ask[time.Time](s, "select expires_at from chats where id = $1", chatID)
	turn := turnIn(chatID, "Are you there?")
	turn.Files = filesOf("a.txt", "alpha")
	for _, refused := range []chat.NewTurn{turn, repeatOf(failing)} {
		started, err := s.turns.StartTurn(t.Context(), s.user, refused)
		if err != nil || started.Started || !started.Expired.Equal(since) || time.Since(since) < 30*time.Minute {
			t.Fatalf("%+v, %v", started.Expired, err)
		}
	}
	is(t, ask[int](s, "select count(*) + (select count(*) from chat_files) from messages where chat_id = $1", chatID), 8, "rows after the refusals")
	if started, err := s.turns.StartTurn(t.Context(), s.newUser(), turn); err != nil || !started.Expired.IsZero() || started.Started {
		t.Errorf("another user learns of it: %+v, %v", started, err)
	}
	turn.Revive = true
	revived := s.start(turn)
	if revived.Brief.Summary != "They talked." || revived.TotalTurns != 4 || revived.PendingTurns != 1 || !revived.Expired.IsZero() {
		t.Errorf("brought back it remembers %+v", revived.Chat)
	}
	s.reply(turn, "I am.")
	s.start(turnIn(chatID, "Good."))
}

// Revive changes nothing in a chat that has not expired, and allows a reply to be repeated.
func TestReviveOfALivingChat(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	turn := turnIn(chatID, "Still here?")
	turn.Revive = true
	s.start(turn)
	s.fail(turn, "")
	s.expire(chatID)
	retried := repeatOf(turn)
	started := s.start(retried)
	is(t, started.PendingTurns, 1, "%+v", started.Chat)
	busy := turnIn(chatID, "Hello?")
	busy.Revive = true
	if started, err := s.turns.StartTurn(t.Context(), s.user, busy); err != nil || started.Started || started.Running != retried.MessageID {
		t.Errorf("%+v, %v", started, err)
	}
}

// More turns than max_turns make a fold due as soon as the reply is saved, however short they are.
func TestTurnLimitEnqueuesAFold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	b.exec("update chats set max_turns = 2 where id = $1", chatID)
	for turns := 2; turns <= 4; turns++ {
		b.exchange(turnIn(chatID, "Next."), "There.")
		folds, _, err := NewMaintenance(b.pool, b.limits).DueChats(t.Context())
		is(t, tuple(err, len(b.folds), slices.Contains(folds, chatID)), tuple(nil, max(0, turns-2), (turns > 2)), "%d turns: folds enqueued, the sweep finds", turns)
	}
	b.exec("update chats set memory_strategy = 'simple' where id = $1", chatID)
	b.exchange(turnIn(chatID, "Next."), "There.")
	is(t, len(b.folds), 2, "a simple chat is folded")
}
