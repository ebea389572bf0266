package postgres

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// fail ends a turn's reply as failed, with the text so far.
func (b *bed) fail(turn chat.NewTurn, said string) {
	b.t.Helper()
	reply := finished(turn, said)
	reply.Status = memory.StatusFailed
	if saved, err := b.turns.SaveReply(b.t.Context(), b.user, reply); err != nil || !saved {
		b.t.Fatalf("save: %v, %v", saved, err)
	}
}

// repeatOf returns a turn that repeats another one.
func repeatOf(turn chat.NewTurn) chat.NewTurn {
	turn.NewChat, turn.InPlaceOf, turn.MessageID = false, turn.MessageID, uuid.New()
	return turn
}

func TestAFailedTurnIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.newChat(2)
	first := b.startWithID("What is a fugue?")
	b.fail(first, "A fugue is a mistaken thing")
	found, err := b.turns.StartTurn(t.Context(), b.user, first)
	if err != nil || found.Started || found.Earlier == nil || found.Earlier.Status != memory.StatusFailed {
		t.Fatalf("%+v, %v", found, err)
	}

	second := repeatOf(first)
	started := b.start(second)
	for _, m := range started.Buffer {
		if strings.Contains(m.Content, "fugue") {
			t.Errorf("the prompt would hold %q", m.Content)
		}
	}
	b.reply(second, "A fugue is a piece in several voices.")
	if n := ask[int](b, "select count(*) from messages where chat_id = $1 and role = 'user'", first.ChatID); n != 1 {
		t.Errorf("%d user rows", n)
	}
	old := ask[string](b, "select superseded_by || ' ' || token_count || ' ' || content || ' ' || status from messages where id = $1", first.MessageID)
	if want := second.MessageID.String() + " 0 A fugue is a mistaken thing failed"; old != want {
		t.Errorf("the old reply is %q, want %q", old, want)
	}
	b.checkCounters()

	found, err = b.turns.StartTurn(t.Context(), b.user, first)
	if err != nil || found.Earlier == nil || found.Earlier.MessageID != second.MessageID || found.Earlier.Status != memory.StatusComplete {
		t.Errorf("%+v, %v", found.Earlier, err)
	}
	if saved, err := b.turns.SaveReply(t.Context(), b.user, finished(first, "Too late.")); err != nil || saved {
		t.Errorf("a superseded reply was saved: %v, %v", saved, err)
	}
}

// Many repeats at once start one reply. A running reply, a later turn, or a reply that did not fail prevents
// a repeat.
func TestTryingAgainIsDoneOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.startWithID("What is a fugue?")
	if started, err := b.turns.StartTurn(t.Context(), b.user, repeatOf(first)); err != nil || started.Started {
		t.Errorf("over a running reply: %+v, %v", started, err)
	}
	b.fail(first, "")
	var all sync.WaitGroup
	var mu sync.Mutex
	var won []chat.NewTurn
	for range 20 {
		all.Go(func() {
			turn := repeatOf(first)
			started, err := b.turns.StartTurn(t.Context(), b.user, turn)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case started.Started:
				won = append(won, turn)
			case started.Earlier == nil || started.Earlier.MessageID == first.MessageID && started.Running == uuid.Nil:
				t.Errorf("neither started nor found: %+v", started)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d replies were started", len(won))
	}
	b.reply(won[0], "In voices.")
	if started, err := b.turns.StartTurn(t.Context(), b.user, repeatOf(won[0])); err != nil || started.Started {
		t.Errorf("over a complete reply: %+v, %v", started, err)
	}
	if started, err := b.turns.StartTurn(t.Context(), b.newUser(), repeatOf(first)); err != nil || started.Started {
		t.Errorf("as a stranger: %+v, %v", started, err)
	}
}

// Repeating a failed reply that the brief already covers makes the brief stale, so that it is rebuilt without
// it.
func TestTryingAgainTakesTheOldWordsOutOfTheBrief(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.startWithID("What is a fugue?")
	b.fail(first, "A mistaken thing")
	b.mustCommit(b.claim(first.ChatID, brief.KindFold))
	second := repeatOf(first)
	b.start(second)
	b.reply(second, "In voices.")
	if brief := b.brief(first.ChatID); !brief.Stale {
		t.Errorf("%+v", brief)
	}
	lease := brief.Lease{Token: uuid.New(), Duration: 1e9}
	snapshot, _, err := b.briefs.Claim(t.Context(), first.ChatID, brief.KindRebuild, lease, math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range snapshot.Messages {
		if strings.Contains(m.Content, "mistaken") {
			t.Errorf("the rebuild would read %q", m.Content)
		}
	}
	b.checkCounters()
}
