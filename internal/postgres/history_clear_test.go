package postgres

import (
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

func (s shelf) clear(chatID uuid.UUID) history.Cleared {
	s.t.Helper()
	cleared, err := s.ClearChat(s.t.Context(), s.user, chatID)
	if err != nil {
		s.t.Fatal(err)
	}
	return cleared
}

// lastRevision returns kind, range, turns and summary of a chat's latest revision.
func (s shelf) lastRevision(chatID uuid.UUID) string {
	s.t.Helper()
	return ask[string](s.bed, `select concat_ws(' ', version, kind, seq_from, seq_to, turns, '"' || global_summary || '"', prompt_mode, prompt_ref, model = '')
		from conversation_brief_revisions where chat_id = $1 order by version desc limit 1`, chatID)
}

func TestClearedChatBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(2)
	s.mustCommit(s.claim(chatID, brief.KindFold))
	later := turnIn(chatID, "And a third.")
	s.start(later)
	s.reply(later, "Noted.")
	want := history.Cleared{ChatID: chatID, ClearedSeq: 6, BriefVersion: 2}
	for _, name := range []string{"at first", "a second time"} {
		if got := s.clear(chatID); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := s.brief(chatID); got != (briefRow{Version: 2, CoveredSeq: 6}) {
		t.Errorf("the brief is %+v", got)
	}
	if got := s.lastRevision(chatID); got != `2 clear 5 6 1 "" none none t` {
		t.Errorf("the revision is %s", got)
	}
	if got := ask[string](s.bed, "select concat_ws(' ', cleared_seq, brief_tokens, brief::text) from conversation_briefs"); got != `6 0 {"global_summary": "", "last_summarized_message_id": null}` {
		t.Errorf("the brief is %s", got)
	}
	next := turnIn(chatID, "Who are you?")
	if started := s.start(next); len(started.Buffer) != 0 || started.Brief.Summary != "" || started.PendingTurns != 0 {
		t.Errorf("the next turn begins with %+v", started)
	}
	s.reply(next, "A model.")
	s.mustCommit(s.claim(chatID, brief.KindFold))
	if got := s.lastRevision(chatID); got != `3 fold 7 8 1 "They talked." inline built-in@1 f` {
		t.Errorf("the next fold is %s", got)
	}
	if page, err := s.ListMessages(t.Context(), s.user, chatID, history.MessagesQuery{}); err != nil || len(page.Messages) != 8 {
		t.Errorf("%d messages are stored, %v", len(page.Messages), err)
	}
	s.checkCounters()
}

// When the brief covers all messages, a clear still empties the brief.
func TestClearRightAfterAFold(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	s.mustCommit(s.claim(chatID, brief.KindFold))
	if got := s.clear(chatID); got.ClearedSeq != 2 || got.BriefVersion != 2 || s.brief(chatID).Summary != "" {
		t.Errorf("%+v, %+v", got, s.brief(chatID))
	}
	if got := s.lastRevision(chatID); got != `2 clear 3 2 0 "" none none t` {
		t.Errorf("the revision is %s", got)
	}
}

func TestClearOfAnEmptyChat(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.create(history.NewChat{}).ID
	if got := s.clear(chatID); got != (history.Cleared{ChatID: chatID}) {
		t.Errorf("%+v", got)
	}
	if n := ask[int](s.bed, "select count(*) from conversation_brief_revisions"); n != 0 {
		t.Errorf("%d revisions", n)
	}
}

// A deleted message must still be removed from the revisions, which only a rebuild does.
func TestClearLeavesStaleness(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	s.mustCommit(s.claim(chatID, brief.KindFold))
	if err := s.DeleteMessage(t.Context(), s.user, ask[uuid.UUID](s.bed, "select id from messages where seq = 1")); err != nil {
		t.Fatal(err)
	}
	s.clear(chatID)
	if got := s.brief(chatID); !got.Stale || got.Summary != "" {
		t.Errorf("%+v", got)
	}
}

func TestClearDuringAReply(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	running := turnIn(chatID, "Go on.")
	s.start(running)
	before := s.brief(chatID)
	_, err := s.ClearChat(t.Context(), s.user, chatID)
	refused := new(fault.Error)
	if !asFault(err, &refused) || refused.Code != fault.GenerationInProgress || refused.Details["message_id"] != running.MessageID {
		t.Errorf("refused with %v", err)
	}
	if after := s.brief(chatID); after != before {
		t.Errorf("the brief is %+v, was %+v", after, before)
	}
	s.reply(running, "Done.")
	if got := s.clear(chatID); got.ClearedSeq != 4 {
		t.Errorf("%+v", got)
	}
}

// A fold that is running when its chat is cleared must not write the old text back.
func TestClearDuringAFold(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(3)
	change := s.claim(chatID, brief.KindFold)
	s.clear(chatID)
	if renewed, err := s.briefs.Renew(t.Context(), chatID, change.Lease); err != nil || renewed {
		t.Errorf("the fold still has its lease: %v, %v", renewed, err)
	}
	if won, err := s.commit(change); err != nil || won {
		t.Errorf("the fold was written: %v, %v", won, err)
	}
	if got := s.brief(chatID); got != (briefRow{Version: 1, CoveredSeq: 6}) {
		t.Errorf("%+v", got)
	}
}

// Folds, clears, turns and deletions of one chat at once: each happens wholly or not at all, none waits
// without end, and what the last clear removed stays removed.
func TestClearRacesWithEverything(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for range 25 {
		chatID := s.newChat(2)
		change := s.claim(chatID, brief.KindFold)
		victim := change.Planned.Messages[1].ID
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := s.commit(change); err != nil {
				t.Error(err)
			}
		})
		for range 2 {
			all.Go(func() {
				if _, err := s.ClearChat(t.Context(), s.user, chatID); err != nil && fault.CodeOf(err) != fault.GenerationInProgress {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			if err := s.DeleteMessage(t.Context(), s.user, victim); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			turn := turnIn(chatID, "Meanwhile.")
			started, err := s.turns.StartTurn(t.Context(), s.user, turn)
			if err == nil && started.Started {
				_, err = s.turns.SaveReply(t.Context(), s.user, finished(turn, "Meanwhile, too."))
			}
			if err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		s.clear(chatID)
		if got := s.brief(chatID); got.Summary != "" || got.PendingTokens != 0 || got.PendingTurns != 0 || got.Leased {
			t.Fatalf("%+v", got)
		}
	}
	gaps := ask[int](s.bed, `select count(*) from (select seq_from, lag(seq_to) over (partition by chat_id order by version) as before
		from conversation_brief_revisions) r where seq_from <> coalesce(before, 0) + 1`)
	if gaps != 0 {
		t.Errorf("%d revisions do not begin where the one before ends", gaps)
	}
	s.checkCounters()
}
