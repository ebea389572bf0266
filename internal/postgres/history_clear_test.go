package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

func (s shelf) clear(chatID uuid.UUID) history.Cleared {
	s.t.Helper()
	return must(s.ClearChat(s.t.Context(), s.user, chatID))(s.t)
}

// lastRevision returns kind, range, turns and summary of a chat's latest revision.
func (s shelf) lastRevision(chatID uuid.UUID) string {
	s.t.Helper()
	return ask[string](s, `select concat_ws(' ', version, kind, seq_from, seq_to, turns, '"' || global_summary || '"', prompt_mode, prompt_ref, model = '')
		from conversation_brief_revisions where chat_id = $1 order by version desc limit 1`, chatID)
}

func TestClearedChatBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(2)
	s.mustCommit(s.claim(chatID, brief.KindFold))
	running := turnIn(chatID, "And a third.")
	s.start(running)
	before := s.brief(chatID)
	_, err := s.ClearChat(t.Context(), s.user, chatID)
	is(t, faultOf(t, err, fault.GenerationInProgress)["message_id"], any(running.MessageID), "the reply that runs")
	is(t, s.brief(chatID), before, "the brief")
	s.reply(running, "Noted.")
	want := history.Cleared{ChatID: chatID, ClearedSeq: 6, BriefVersion: 2}
	for _, name := range []string{"at first", "a second time"} {
		is(t, s.clear(chatID), want, "%s", name)
	}
	is(t, s.brief(chatID), (briefRow{Version: 2, CoveredSeq: 6}), "the brief")
	is(t, s.lastRevision(chatID), `2 clear 5 6 1 "" none none t`, "the revision")
	is(t, ask[string](s, "select concat_ws(' ', cleared_seq, brief_tokens, brief::text) from conversation_briefs"),
		`6 0 {"global_summary": "", "last_summarized_message_id": null}`, "the brief")
	next := turnIn(chatID, "Who are you?")
	started := s.start(next)
	is(t, tuple(len(started.Buffer), started.Brief.Summary, started.PendingTurns), tuple(0, "", 0), "the next turn begins with %+v", started)
	s.reply(next, "A model.")
	s.mustCommit(s.claim(chatID, brief.KindFold))
	is(t, s.lastRevision(chatID), `3 fold 7 8 1 "They talked." inline built-in@1 f`, "the next fold")
	is(t, len(must(s.ListMessages(t.Context(), s.user, chatID, history.MessagesQuery{}))(t).Messages), 8, "messages are stored")
	s.checkCounters()
	// A clear empties a brief that covers all messages. A brief that is stale stays so: only a rebuild takes a deleted message out
	// of the revisions. An empty chat stays as it is.
	noError(t, s.DeleteMessage(t.Context(), s.user, s.message(chatID, 7)))
	is(t, s.clear(chatID), history.Cleared{ChatID: chatID, ClearedSeq: 8, BriefVersion: 4}, "of what is covered")
	is(t, s.lastRevision(chatID), `4 clear 9 8 0 "" none none t`, "the revision")
	is(t, s.brief(chatID), briefRow{Version: 4, CoveredSeq: 8, Stale: true}, "the brief")
	empty := s.emptyChat()
	is(t, s.clear(empty), history.Cleared{ChatID: empty}, "of an empty chat")
	is(t, s.count("conversation_brief_revisions where chat_id = $1", empty), 0, "revisions of it")
}

// revisions reads one page, as a line for each version, and whether there are more.
func (s shelf) revisions(chatID uuid.UUID, query history.BriefRevisionsQuery) (lines string, more bool) {
	s.t.Helper()
	page := must(s.ListBriefRevisions(s.t.Context(), s.user, chatID, query))(s.t)
	var all []string
	for _, r := range page.Revisions {
		text := "-"
		if r.Text != nil {
			text = fmt.Sprintf("%q", *r.Text)
		}
		if r.CreatedAt.IsZero() {
			s.t.Errorf("version %d has no date", r.Version)
		}
		all = append(all, fmt.Sprintf("%d %s %d-%d %d %s %s %s", r.Version, r.Kind, r.SeqFrom, r.SeqTo, r.Turns, text, r.PromptRef, r.Model))
	}
	return strings.Join(all, "\n"), page.HasMore
}

// Versions come the latest first, in pages that meet. An erasure takes the texts and leaves the rest.
func TestRevisionsOfABrief(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(2)
	if lines, more := s.revisions(chatID, history.BriefRevisionsQuery{Limit: 9}); lines != "" || more {
		t.Errorf("before the first fold: %q, %v", lines, more)
	}
	s.mustCommit(s.claim(chatID, brief.KindFold))
	turn := s.exchange(turnIn(chatID, "And a third."), "Noted.")
	s.mustCommit(s.claim(chatID, brief.KindFold))
	first, second := `1 fold 1-4 2 "They talked." built-in@1 test`, `2 fold 5-6 1 "They talked." built-in@1 test`
	for _, c := range []struct {
		query history.BriefRevisionsQuery
		want  string
		more  bool
	}{
		{history.BriefRevisionsQuery{Limit: 2}, second + "\n" + first, false},
		{history.BriefRevisionsQuery{Limit: 1}, second, true},
		{history.BriefRevisionsQuery{Limit: 1, BeforeVersion: new(int64(2))}, first, false},
		{history.BriefRevisionsQuery{Limit: 1, BeforeVersion: new(int64(1))}, "", false},
	} {
		if lines, more := s.revisions(chatID, c.query); lines != c.want || more != c.more {
			t.Errorf("%+v: more %v\n%s", c.query, more, lines)
		}
	}
	noError(t, s.DeleteMessage(t.Context(), s.user, turn.UserMessageID))
	hidden := `2 fold 5-6 1 - built-in@1 test` + "\n" + `1 fold 1-4 2 - built-in@1 test`
	if lines, _ := s.revisions(chatID, history.BriefRevisionsQuery{Limit: 9}); lines != hidden {
		t.Errorf("after a deletion:\n%s", lines)
	}
	rebuild := s.claim(chatID, brief.KindRebuild)
	is(t, len(rebuild.Planned.Messages), 5, "the rebuild reads … messages")
	s.mustCommit(rebuild)
	is(t, s.count("conversation_brief_revisions where global_summary is not null"), 1, "revisions still have their text")
	is(t, s.brief(chatID), briefRow{Version: 3, CoveredSeq: 6, Summary: "They talked."}, "the brief")
	s.clear(chatID)
	want := `4 clear 7-6 0 "" none ` + `
3 rebuild 1-6 2 "They talked." built-in@1 test
2 fold 5-6 1 - built-in@1 test
1 fold 1-4 2 - built-in@1 test`
	if lines, _ := s.revisions(chatID, history.BriefRevisionsQuery{Limit: 9}); lines != want {
		t.Errorf("after a deletion and a clear:\n%s", lines)
	}
}
