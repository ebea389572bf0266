package brief_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// inTurns makes an engine give its worker up after each piece, and the pieces small.
func inTurns(c *brief.Config) { c.Limits.FoldInputTokens, c.Turn = 600, time.Nanosecond }

const sentences = 200

func sentence(n int) string { return fmt.Sprintf("Sentence number %04d tells of etude %d.", n, n) }

// longChat stores a chat whose first message takes several pieces.
func (r *rig) longChat() uuid.UUID {
	chatID := testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	var long []string
	for n := range sentences {
		long = append(long, sentence(n))
	}
	r.say(chatID, "user", strings.Join(long, " "))
	r.say(chatID, "assistant", "I read all of it.")
	for range 3 {
		r.say(chatID, "user", "Go on.")
	}
	return chatID
}

// checkReadOnce checks that the calls from the given one on read every sentence once, each summary the start of the next.
func (r *rig) checkReadOnce(from int) {
	var read strings.Builder
	for n, request := range r.model.Requests()[from:] {
		existing, turns, _ := strings.Cut(request.Text, "=== NEW_TURNS ===")
		assert.Equalf(r.t, strings.Contains(existing, "\nNONE\n"), (n == 0), "call %d starts from %.200q", n, existing)
		read.WriteString(turns)
	}
	for n := range sentences {
		require.Equalf(r.t, 1, strings.Count(read.String(), sentence(n)), "how often %q was read", sentence(n))
	}
}

func (r *rig) drafts() int {
	return testkit.Ask[int](r.t, r.pool, "select count(*) from conversation_brief_drafts")
}

// finish works on a change in turns until it is done, and returns the last report and the number of turns.
func (r *rig) finish(change func(*testing.T) (brief.Report, error)) (brief.Report, int) {
	for turn := 1; ; turn++ {
		report, err := change(r.t)
		require.Truef(r.t, err == nil && (report.Result == work.Paused || report.Result == work.Done), "turn %d: %+v, %v", turn, report, err)
		if report.Result == work.Done {
			return report, turn
		}
		require.Truef(r.t, report.PiecesDone == turn && r.drafts() == 1, "after turn %d there are %d drafts, %+v", turn, r.drafts(), report)
		require.False(r.t, testkit.Ask[bool](r.t, r.pool, "select coalesce(bool_or(lease_token is not null), false) from throughline.work"),
			"a fold that has had its turn keeps the lease")
	}
}

// A change of several pieces gives its worker up after its turn and goes on at the next piece, on any worker. Only the
// last piece moves the cursor, and the revision counts what all of them cost.
func TestFoldGoesOnAtTheNextPiece(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, inTurns)
	chatID := r.longChat()
	covered := r.covered(chatID)
	report, turns := r.finish(func(t *testing.T) (brief.Report, error) {
		require.Equal(t, covered, r.covered(chatID), "the cursor moved before the end")
		return brief.New(r.config).Fold(t.Context(), chatID, work.Attempt{}) // a worker of its own
	})
	assert.Truef(t, turns >= 4 && report.Pieces == turns && report.Calls == turns && len(r.model.Requests()) == turns,
		"%d turns, %d calls, %+v", turns, len(r.model.Requests()), report)
	r.checkReadOnce(0)
	assert.Equal(t, 0, r.drafts(), "the draft is left")
	testkit.Want(t, r.pool, fmt.Sprintf("fold %d %d", report.InputTokens, turns),
		"select concat_ws(' ', kind, input_tokens, details ->> 'calls') from conversation_brief_revisions")
	assert.Truef(t, report.InputTokens >= turns*100, "%+v", report)
}

// Any change of the chat ends the progress of its fold: it may hold words that are gone.
func TestProgressIsForgottenWithWhatItWasMadeFrom(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"an edit of what was read":      "update messages set content = 'Nothing of note.' where chat_id = $1 and seq = 1",
		"an edit of another message":    "update messages set content = 'Stop.' where chat_id = $1 and seq = 4",
		"a deletion":                    "delete from messages where chat_id = $1 and seq = 1",
		"a deletion by its owner":       "delete from chats where id = $1",
		"the context is cleared":        "",
		"a brief that is written again": "update conversation_briefs set version = version + 1 where chat_id = $1",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, inTurns)
			chatID := r.longChat()
			if report, err := r.fold(chatID); err != nil || report.Result != work.Paused || r.drafts() != 1 {
				t.Fatalf("%+v, %v, %d drafts", report, err, r.drafts())
			}
			if sql == "" {
				r.clear(chatID)
			} else {
				testkit.Exec(t, r.pool, sql, chatID)
			}
			assert.Equal(t, 0, r.drafts(), "the progress is kept")
			asked := len(r.model.Requests())
			report, err := r.fold(chatID)
			assert.Truef(t, err == nil && report.PiecesDone <= 1, "%+v, %v", report, err)
			if requests := r.model.Requests(); len(requests) > asked && !strings.Contains(requests[asked].Text, "\nNONE\n") {
				t.Errorf("the next fold began with %.200s", requests[asked].Text)
			}
		})
	}
}

// A message that is edited while a piece is summarized: the progress is not stored, and the fold stops there.
func TestEditDuringAPieceEndsTheFold(t *testing.T) {
	t.Parallel()
	var r *rig
	edit := testkit.InOrder(offline.Answer{}, offline.Answer{})
	r = newRig(t, func(request *offline.Request) offline.Answer {
		if strings.Contains(request.Text, sentence(0)) {
			testkit.Exec(t, r.pool, "update messages set content = 'Never mind.' where seq = 3")
		}
		return edit(request)
	}, func(c *brief.Config) { c.Limits.FoldInputTokens = 600 })
	chatID := r.longChat()
	report, err := r.fold(chatID)
	assert.Truef(t, err == nil && report.Result == work.Conflict && report.Calls == 1 && r.drafts() == 0, "%+v, %v, %d drafts", report, err, r.drafts())
}

// A server with other settings plans other pieces, and begins again.
func TestProgressOfAnotherPlanIsNotUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, inTurns)
	chatID := r.longChat()
	r.wantFold(chatID, work.Paused)
	other := r.config
	other.Limits.FoldInputTokens, other.Turn = 900, time.Hour
	report, err := brief.New(other).Fold(t.Context(), chatID, work.Attempt{})
	assert.Truef(t, err == nil && report.Result == work.Done && report.Calls == report.Pieces, "%+v, %v", report, err)
	r.checkReadOnce(1)
}
