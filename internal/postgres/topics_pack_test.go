package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestPacksAreOfTheChatsOwner(t *testing.T) {
	t.Parallel()
	w := newWandering(t)
	packs, otherChat := NewPacks(w.pool), ask[uuid.UUID](w, "insert into chats (user_id) values ($1) returning id", w.newUser().UserID)
	if s, found, err := packs.Read(t.Context(), otherChat, w.bees); err != nil || found || len(s.Messages) != 0 {
		t.Errorf("another's topic: %+v, %v, %v", s, found, err)
	}
	held := work.Lease{Kind: work.Compact, Key: w.bees, ChatID: w.chatID, Token: uuid.New(), Duration: time.Minute}
	claim, _, err := w.work.Claim(t.Context(), held)
	mustBe(t, tuple(err, claim), tuple(nil, work.Taken), "claim")
	s, found, err := packs.Read(t.Context(), w.chatID, w.bees)
	mustBe(t, tuple(err, found, s.UserID, len(s.Messages), s.Current), tuple(nil, true, w.user.UserID, 6, false), "%+v", s)
	change := pack.Change{ChatID: otherChat, TopicID: w.bees, Lease: held, Planned: s, Summary: "Stolen.", SummarySeq: 12}
	is(t, must(packs.Commit(t.Context(), change, nil))(t), false, "written by another")
	change.ChatID, change.Lease.Token = w.chatID, uuid.New()
	is(t, must(packs.Commit(t.Context(), change, nil))(t), false, "written without the lease")
	is(t, w.count("topics where summary is not null"), 0, "topics with a summary")
}
