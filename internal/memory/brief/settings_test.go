package brief_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// setColumns sets columns of a chat.
func (r *rig) setColumns(chatID uuid.UUID, columns string) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, "update chats set "+columns+" where id = $1", chatID)
}

// covered is how far the brief reaches, and how many turns are not in it.
func (r *rig) covered(chatID uuid.UUID) string {
	r.t.Helper()
	return testkit.Ask[string](r.t, r.pool, "select covered_seq || ' ' || pending_turns from conversation_briefs where chat_id = $1", chatID)
}

// clear clears a chat's context.
func (r *rig) clear(chatID uuid.UUID) {
	r.t.Helper()
	store := postgres.NewHistory(r.pool, memory.Limits{}, postgres.Enqueue{}, func(context.Context, pgx.Tx, uuid.UUID) error { return nil })
	user := auth.Principal{UserID: r.user, Claims: fmt.Sprintf(`{"sub": "%s", "role": "authenticated"}`, r.user)}
	_, err := store.ClearChat(r.t.Context(), user, chatID)
	require.NoError(r.t, err)
}

// play adds eight questions without a reply.
func (r *rig) play(chatID uuid.UUID) {
	r.t.Helper()
	for turn := range 8 {
		r.say(chatID, "user", fmt.Sprintf("And then I decided to play suite %d%s.", turn, strings.Repeat(fmt.Sprintf(" gently%d", turn), 20)))
	}
}

// lastInput is what the summarizer read last.
func (r *rig) lastInput() string {
	r.t.Helper()
	asked := r.model.Requests()
	require.True(r.t, len(asked) != 0, "the model was not asked")
	return asked[len(asked)-1].Text
}

// More turns than max_turns are folded however short they are, down to the tail. Where the input is full, the chat stays due,
// and the next fold goes on.
func TestTurnLimitIsFolded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, func(c *brief.Config) { c.Limits.ChunkThreshold, c.Limits.FoldInputTokens = 6000, 300 })
	chatID := r.chat(12)
	r.setColumns(chatID, "max_turns = 2")
	folds := 0
	for again := true; again; again = r.again {
		r.mustFold(chatID)
		folds++
	}
	got := r.covered(chatID)
	assert.Truef(t, folds >= 2 && got == "20 2", "%d folds cover %s", folds, got)
}

// After a clear a fold begins from nothing, with what was said since.
func TestFoldAfterAClear(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(8)
	r.mustFold(chatID)
	r.clear(chatID)
	r.play(chatID)
	report := r.mustFold(chatID)
	assert.Truef(t, report.Version == 3 && report.SeqFrom == 17 && report.SeqTo == 22, "%+v", report)
	input := r.lastInput()
	assert.Truef(t, strings.HasPrefix(input, "=== EXISTING_SUMMARY ===\nNONE\n") && !strings.Contains(input, "etude") && strings.Contains(input, "suite 5"),
		"the summarizer read %s", input)
}

// A message from before the clear is deleted: what came after is summarized again, alone, and the older
// revisions lose their words.
func TestRebuildAfterAClear(t *testing.T) {
	t.Parallel()
	for _, foldedSince := range []bool{true, false} {
		t.Run(fmt.Sprintf("folded since %v", foldedSince), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, nil)
			chatID := r.chat(8)
			r.mustFold(chatID)
			r.clear(chatID)
			want, calls := "rebuild 17 16 0 none", 0
			if foldedSince {
				r.play(chatID)
				r.mustFold(chatID)
				want, calls = "rebuild 17 22 6 inline", 1
			}
			asked := len(r.model.Requests())
			testkit.Exec(t, r.pool, "delete from messages where chat_id = $1 and seq = 1", chatID)
			report, err := r.rebuild(chatID)
			require.Truef(t, err == nil && report.Result == work.Done, "%+v, %v", report, err)
			testkit.Want(t, r.pool, want,
				"select concat_ws(' ', kind, seq_from, seq_to, turns, prompt_mode) from conversation_brief_revisions where version = $1", report.Version)
			assert.Equal(t, calls, len(r.model.Requests())-asked, "calls")
			for _, request := range r.model.Requests()[asked:] {
				assert.Truef(t, !strings.Contains(request.Text, "etude") && strings.Contains(request.Text, "suite"), "the summarizer read %s", request.Text)
			}
			testkit.Want(t, r.pool, "",
				"select coalesce(string_agg(global_summary, ' '), '') from conversation_brief_revisions where version < $1", report.Version)
			got := r.summary(chatID)
			assert.Truef(t, !strings.Contains(got, "etude") && (got != "") == foldedSince, "the summary is %q", got)
			testkit.Want(t, r.pool, false, "select stale from conversation_briefs")
		})
	}
}

// A brief that cannot be read is not folded upon, and a rebuild writes it again, also one that covers nothing yet.
func TestUnreadableBriefIsRebuilt(t *testing.T) {
	t.Parallel()
	for _, foldedBefore := range []bool{true, false} {
		t.Run(fmt.Sprintf("folded before %v", foldedBefore), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, nil)
			chatID := r.chat(8)
			if foldedBefore {
				r.mustFold(chatID)
			}
			covered := r.covered(chatID)
			testkit.Exec(t, r.pool, "alter table conversation_briefs drop constraint conversation_briefs_valid")
			testkit.Exec(t, r.pool, `update conversation_briefs set brief = '{"global_summary": 5, "last_summarized_message_id": "?"}'`)
			r.wantFold(chatID, work.Nothing)
			report, err := r.rebuild(chatID)
			require.Truef(t, err == nil && report.Result == work.Done && r.covered(chatID) == covered,
				"%+v, %v, covered are %s", report, err, r.covered(chatID))
			assert.Equal(t, foldedBefore, strings.Contains(r.summary(chatID), "etude"), "the summary")
			again := r.again
			assert.Truef(t, again != foldedBefore, "due for a fold: %v", again)
			r.wantRebuild(chatID, work.Nothing)
		})
	}
}
