package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// mark is what a message alone holds.
func mark(chat, turn int, role string) string {
	return fmt.Sprintf("<%s %d of chat %d>", role, turn, chat)
}

// fillChats stores chats that are due for one fold each, and gives their ids.
func (r *rig) fillChats(chats, turns int) []uuid.UUID {
	r.t.Helper()
	ids := make([]uuid.UUID, chats)
	for chat := range ids {
		ids[chat] = testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", testkit.NewUser(r.t, r.db))
		for turn := range turns {
			for _, role := range []string{"user", "assistant"} {
				content := mark(chat, turn, role) + fmt.Sprintf(" We decided to practise etude %d%s.", turn, strings.Repeat(fmt.Sprintf(" slowly%d", turn), 10))
				testkit.Ask[int](r.t, r.pool, "with said as (insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4) returning 1) select 1 from said",
					ids[chat], role, content, text.Tokens(content))
			}
		}
	}
	return ids
}

// Two worker processes race for twenty chats, and one of them is killed in the middle of its folds: all
// chats are folded, each once, and nothing is lost.
func TestKillOneOfTwoWorkersInMidFold(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Gate: gate} })
	const chats, turns = 20, 7
	ids := r.fillChats(chats, turns)
	small := env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "300", "MEMORY_K_RAW_TURNS": "2", "MEMORY_SUMMARY_TOKEN_CAP": "200", "WORKER_CONCURRENCY": "3"}
	killed, left := r.start(small, "work"), r.start(small, "work")
	testkit.Eventually(t, "both are in the middle of folds", func() bool { return len(r.model.Requests()) == 6 })
	killed.kill()
	close(gate)
	testkit.Eventually(t, "all chats are folded", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where version > 0 and lease_token is null") == chats
	})
	testkit.Eventually(t, "all jobs are done", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief' and state <> 'completed'") == 0
	})
	left.terminate()
	if got := testkit.Ask[int](t, r.pool, "select count(*) from conversation_brief_revisions"); got != chats {
		t.Errorf("%d folds of %d chats", got, chats)
	}
	if got := testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where version = 1 and covered_seq = $1 and pending_turns = 2", 2*(turns-2)); got != chats {
		t.Errorf("%d of %d chats are folded up to the right place", got, chats)
	}
	r.checkFolded(ids, turns)
}

// checkFolded wants each message that left the buffer in the input of the one fold that was written.
func (r *rig) checkFolded(ids []uuid.UUID, turns int) {
	r.t.Helper()
	whole := map[string]bool{}
	for _, request := range r.model.Requests() {
		if request.Ended && !request.HungUp {
			whole[request.PromptCacheKey+request.Text] = true
		}
	}
	for chat, id := range ids {
		read := ""
		for input := range whole {
			if strings.HasPrefix(input, id.String()) {
				read += input
			}
		}
		for turn := range turns {
			for _, role := range []string{"user", "assistant"} {
				want := 1
				if turn >= turns-2 {
					want = 0
				}
				if got := strings.Count(read, mark(chat, turn, role)); got != want {
					r.t.Errorf("%s was folded %d times, want %d", mark(chat, turn, role), got, want)
				}
			}
		}
	}
}
