package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// An expired chat takes no message and reports since when. Once revived it continues with its brief, and one that lives is not
// changed by that.
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
	is(t, must(s.turns.StartTurn(t.Context(), s.newUser(), turn))(t), chat.StartedTurn{}, "another user learns of it")
	turn.Revive = true
	revived := s.start(turn)
	is(t, tuple(revived.Brief.Summary, revived.TotalTurns, revived.PendingTurns, revived.Expired.IsZero()), tuple("They talked.", 4, 1, true),
		"brought back it remembers %+v", revived.Chat)
	s.fail(turn, "")
	s.expire(chatID)
	retried := repeatOf(turn)
	is(t, s.start(retried).PendingTurns, 1, "a reply is tried again in a chat that expired")
	busy := turnIn(chatID, "Hello?")
	busy.Revive = true
	got := must(s.turns.StartTurn(t.Context(), s.user, busy))(t)
	is(t, tuple(got.Started, got.Running), tuple(false, retried.MessageID), "%+v", got)
	s.reply(retried, "I am.")
	s.start(busy)
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
