package page

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/demo"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// TestRemembers looks at what a chat of 24 turns remembers, which was folded several times and keeps a pinned message, and at
// one of 2000 turns, which the script makes.
func TestRemembers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{
		"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "900", "MEMORY_SUMMARY_TOKEN_CAP": "250", "MEMORY_K_RAW_TURNS": "2", "MEMORY_PROMPT_TOKEN_BUDGET": "1200",
		"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "10h", "RECALL_DEADLINE": "1m", // a late part on a slow machine would be missing
	})
	r.Call(http.MethodPost, "/v1/memories", testkit.Body{"content": "Rents a cello from Kessler."})
	chat := r.converse(24)
	late := testkit.Ask[uuid.UUID](t, r.pool, `update messages set metadata = jsonb_set(metadata, '{memory,sections}',
		'[{"name": "recall", "tokens": 0, "items": 0, "left_out": 0, "failure": "late"}]') where chat_id = $1 and seq = 6 returning id`, chat)
	r.inBrowser("remembers.mjs", env{"CHAT": chat, "LATE": late.String()})
}

// converse plays so many turns of the demo's conversation to a chat that keeps pinned messages, and returns the chat's id. Each
// turn's folds and indexes are done before the next one, so that the briefs are the same on every machine.
func (r *rig) converse(turns int) string {
	r.t.Helper()
	lines, err := demo.BuiltinConversation()
	require.NoError(r.t, err)
	chat := ""
	for _, line := range lines {
		if line.Role != "user" {
			continue
		}
		if turns--; turns < 0 {
			break
		}
		if chat == "" {
			chat = r.Send("", testkit.Body{"content": line.Content, "title": "The cello", "memory_strategy": "hybrid"}).Rest().ChatID
			continue
		}
		r.Say(chat, line.Content)
		testkit.Eventually(r.t, "all jobs are done", func() bool {
			return testkit.Ask[bool](r.t, r.pool, `select not exists (select from river.river_job
				where kind in ('fold_brief', 'index_turns') and state <> 'completed')`)
		})
	}
	return chat
}
