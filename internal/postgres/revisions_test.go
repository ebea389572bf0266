package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// revisions reads one page, as a line for each version, and whether there are more.
func (s shelf) revisions(chatID uuid.UUID, query history.BriefRevisionsQuery) (lines string, more bool) {
	s.t.Helper()
	page, err := s.ListBriefRevisions(s.t.Context(), s.user, chatID, query)
	if err != nil {
		s.t.Fatal(err)
	}
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
	turn := turnIn(chatID, "And a third.")
	s.start(turn)
	s.reply(turn, "Noted.")
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
	if err := s.DeleteMessage(t.Context(), s.user, turn.UserMessageID); err != nil {
		t.Fatal(err)
	}
	hidden := `2 fold 5-6 1 - built-in@1 test` + "\n" + `1 fold 1-4 2 - built-in@1 test`
	if lines, _ := s.revisions(chatID, history.BriefRevisionsQuery{Limit: 9}); lines != hidden {
		t.Errorf("after a deletion:\n%s", lines)
	}
	s.mustCommit(s.claim(chatID, brief.KindRebuild))
	s.clear(chatID)
	want := `4 clear 7-6 0 "" none ` + `
3 rebuild 1-6 2 "They talked." built-in@1 test
2 fold 5-6 1 - built-in@1 test
1 fold 1-4 2 - built-in@1 test`
	if lines, _ := s.revisions(chatID, history.BriefRevisionsQuery{Limit: 9}); lines != want {
		t.Errorf("after a deletion and a clear:\n%s", lines)
	}
}
