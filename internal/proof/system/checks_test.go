package system

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// count returns the number that a query returns.
func (r *rig) count(query string, args ...any) int {
	return testkit.Ask[int](r.t, r.pool, query, args...)
}

// messageRow is the part of a stored message that tests compare.
type messageRow struct {
	role, status, content, failure string
}

func (r *rig) stored(messageID string) messageRow {
	var row messageRow
	err := r.pool.QueryRow(r.t.Context(), `select role, status, content, coalesce(metadata -> 'failure' ->> 'code', '') from messages where id = $1`,
		uuid.MustParse(messageID)).Scan(&row.role, &row.status, &row.content, &row.failure)
	require.NoError(r.t, err)
	return row
}

// awaitEnded waits until a reply is no longer streaming, and returns it.
func (r *rig) awaitEnded(messageID string) messageRow {
	testkit.Eventually(r.t, "the reply is stored", func() bool { return r.stored(messageID).status != "streaming" })
	return r.stored(messageID)
}

// checkStored checks that a reply is stored whole.
func (r *rig) checkStored(messageID, text string) {
	row := r.awaitEnded(messageID)
	assert.Truef(r.t, row == (messageRow{role: "assistant", status: "complete", content: text}),
		"stored %.200v, want %.100q", row, text)
}

// awaitNoDeltas waits until the recorded text of all replies is removed.
func (r *rig) awaitNoDeltas() {
	testkit.Eventually(r.t, "the spent deltas are gone", func() bool {
		return r.count("select count(*) from message_deltas where start_char >= 0") == 0
	})
}

// checkNoneStreaming checks that all replies have ended.
func (r *rig) checkNoneStreaming() {
	n := r.count("select count(*) from messages where status = 'streaming'")
	assert.Truef(r.t, n == 0, "%d replies stream for ever", n)
}

// checkNothingRuns checks that all replies have ended, that nothing is left of their recorded text, and that the
// counters are right.
func (r *rig) checkNothingRuns() {
	r.checkNoneStreaming()
	r.awaitNoDeltas()
	r.checkCounters()
}

// checkCounters compares the counters of each brief with the messages.
func (r *rig) checkCounters() {
	wrong := r.count(`select count(*) from conversation_briefs b cross join lateral (
		select coalesce(sum(token_count), 0) as tokens, count(*) filter (where role = 'user' and token_count > 0) as turns
		  from messages m where m.chat_id = b.chat_id and m.seq > b.covered_seq) counted
		where (b.pending_tokens, b.pending_turns) is distinct from (counted.tokens, counted.turns)`)
	assert.Truef(r.t, wrong == 0, "the counters of %d briefs are wrong", wrong)
}

// checkSuperseded checks that a failed reply was superseded by another one.
func (r *rig) checkSuperseded(failed, again testkit.Said) {
	t := r.t
	got := testkit.Ask[string](t, r.pool, "select concat_ws(' ', superseded_by, token_count, content) from messages where id = $1",
		uuid.MustParse(failed.MessageID))
	want := again.MessageID + " 0 " + failed.Text
	assert.Equal(t, want, got, "the old reply")
	users := r.count("select count(*) from messages where role = 'user' and id = $1", uuid.MustParse(failed.UserMessageID))
	replies := r.count("select count(*) from messages where reply_to = $1 and superseded_by is null", uuid.MustParse(failed.UserMessageID))
	assert.Truef(t, users == 1 && replies == 1, "%d user messages, %d replies that count", users, replies)
	r.checkCounters()
}

// checkAskedOnce checks that a message made one model call and one turn, in one chat.
func (r *rig) checkAskedOnce(content, chatID string) {
	t := r.t
	calls := 0
	for _, request := range r.model.Asked(offline.KindReply) {
		if strings.Contains(request.Current, content) {
			calls++
		}
	}
	users := r.count("select count(*) from messages where role = 'user' and content = $1", content)
	replies := r.count("select count(*) from messages a join messages u on a.reply_to = u.id where u.content = $1", content)
	chats := r.count("select count(*) from chats")
	assert.Truef(t, calls == 1 && users == 1 && replies == 1 && chats == 1,
		"%d model calls, %d user messages, %d replies, %d chats", calls, users, replies, chats)
	assert.True(t, chatID == "" || testkit.Ask[string](t, r.pool, "select id::text from chats") == chatID,
		"it went to another chat")
}

// awaitFirstFold waits until a brief is written.
func (r *rig) awaitFirstFold() {
	testkit.Eventually(r.t, "the chat is folded", func() bool {
		return testkit.Ask[int64](r.t, r.pool, "select version from conversation_briefs") > 0
	})
}

// awaitFolds waits until no fold is left to do.
func (r *rig) awaitFolds() {
	testkit.Eventually(r.t, "all folds are done", func() bool {
		return testkit.Ask[bool](r.t, r.pool, `select not exists (select from river.river_job where state <> 'completed' and kind = 'fold_brief')`)
	})
}

// restOfAll reads streams to their ends, all at once.
func restOfAll(t *testing.T, streams []*testkit.Stream) []testkit.Said {
	t.Helper()
	type result struct {
		n    int
		said testkit.Said
		err  error
	}
	results := make(chan result, len(streams))
	for n, s := range streams {
		go func() {
			said, err := s.TryRest()
			results <- result{n, said, err}
		}()
	}
	said := make([]testkit.Said, len(streams))
	for range streams {
		got := testkit.Receive(t, "a stream ends", results)
		require.NoErrorf(t, got.err, "stream %d", got.n)
		said[got.n] = got.said
	}
	return said
}
