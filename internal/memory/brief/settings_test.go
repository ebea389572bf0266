package brief_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
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
	testkit.Exec(r.t, r.pool, "update chats set "+columns+" where id = $1", chatID)
}

// covered is how far the brief reaches, and how many turns are not in it.
func (r *rig) covered(chatID uuid.UUID) string {
	return testkit.Ask[string](r.t, r.pool, "select covered_seq || ' ' || pending_turns from conversation_briefs where chat_id = $1", chatID)
}

// clear clears a chat's context.
func (r *rig) clear(chatID uuid.UUID) {
	store := postgres.NewHistory(r.pool, memory.Limits{}, postgres.Enqueue{})
	user := auth.Principal{UserID: r.user, Claims: fmt.Sprintf(`{"sub": "%s", "role": "authenticated"}`, r.user)}
	_, err := store.ClearChat(r.t.Context(), user, chatID)
	require.NoError(r.t, err)
}

// play adds eight questions without a reply.
func (r *rig) play(chatID uuid.UUID) {
	for turn := range 8 {
		r.say(chatID, "user", fmt.Sprintf("And then I decided to play suite %d%s.", turn, strings.Repeat(fmt.Sprintf(" gently%d", turn), 20)))
	}
}

// lastInput is what the summarizer read last.
func (r *rig) lastInput() string {
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

// A brief that cannot be read is not folded upon before it is restored.
func TestUnreadableBriefIsNotFoldedUpon(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(8)
	testkit.Exec(t, r.pool, "alter table conversation_briefs drop constraint conversation_briefs_valid")
	testkit.Exec(t, r.pool, `update conversation_briefs set brief = '{"global_summary": 5, "last_summarized_message_id": "?"}'`)
	r.wantFold(chatID, work.Nothing)
	testkit.Want(t, r.pool, 1, "select throughline.restore_briefs()")
	r.mustFold(chatID)
}
