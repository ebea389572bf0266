package system

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// The product's promise: for every reply, every turn of a long chat is in the brief or word for word in the prompt.
// Between two folds the memory only grows at its end. The first facts are still known at the end.
func TestLongChatFoldsAndNoTurnIsUnseen(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, smallMemory)
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	const turns = 40
	for n := 1; n < turns; n++ {
		r.Say(chatID, fmt.Sprintf("On day %d I practised the etude number %d for %d minutes, and my bow arm felt heavy in bar %d.", n, 1000+n, 20+n, 3*n))
	}
	r.awaitFolds()
	last := r.Say(chatID, "What is my cello teacher called?")
	assert.Containsf(t, last.Text, "Ilse", "forgotten: %q", last.Text)
	folds := testkit.Ask[int64](t, r.pool, "select version from conversation_briefs")
	assert.Truef(t, folds >= 3, "only %d folds", folds)
	r.checkCoverage(uuid.MustParse(chatID))
	r.checkPromptsGrow()
	if got := r.Call(http.MethodGet, "/metrics", nil).Text; !strings.Contains(got, `throughline_folds_total{result="done"}`) ||
		!strings.Contains(got, "throughline_dropped_turns_total 0") || !strings.Contains(got, `throughline_tokens_total{direction="input",purpose="fold"}`) {
		t.Error("the metrics do not tell of the folds")
	}
	if refused := r.model.Refused(); len(refused) > 0 {
		t.Errorf("the model refused %d calls as malformed, such as %s", len(refused), refused[0])
	}
}

// storedMessage is a message's position and text and, of a reply, what its prompt covered.
type storedMessage struct {
	seq, covered int64
	dropped      int
	text         string
}

func (r *rig) storedMessages(chatID uuid.UUID, role string) []storedMessage {
	rows, err := r.pool.Query(r.t.Context(), `select seq, coalesce((metadata -> 'memory' ->> 'covered_through_seq')::bigint, 0),
		coalesce((metadata -> 'memory' ->> 'dropped_turns')::int, 0), content from messages where chat_id = $1 and role = $2 order by seq`, chatID, role)
	require.NoError(r.t, err)
	defer rows.Close()
	var found []storedMessage
	for rows.Next() {
		var p storedMessage
		require.NoError(r.t, rows.Scan(&p.seq, &p.covered, &p.dropped, &p.text))
		found = append(found, p)
	}
	return found
}

// checkCoverage checks that every prompt of a chat covers all messages before it.
func (r *rig) checkCoverage(chatID uuid.UUID) {
	prompts := r.model.Asked(offline.KindReply)
	users, replies := r.storedMessages(chatID, "user"), r.storedMessages(chatID, "assistant")
	require.Truef(r.t, len(prompts) == len(replies), "%d prompts for %d replies", len(prompts), len(replies))
	for i, reply := range replies {
		assert.Truef(r.t, reply.dropped == 0,
			"the receipt of reply %d says %d turns were dropped", reply.seq, reply.dropped)
		for n := range i {
			for label, said := range map[string]storedMessage{"User: ": users[n], "Assistant: ": replies[n]} {
				assert.Truef(r.t, said.seq <= reply.covered || strings.Contains(prompts[i].Text, label+said.text),
					"message %d is in neither brief (up to %d) nor prompt of reply %d", said.seq, reply.covered, reply.seq)
			}
		}
	}
}

// checkPromptsGrow checks that a prompt begins with the memory of the one before, if both have the same brief.
func (r *rig) checkPromptsGrow() {
	background, memory := "", ""
	grew := 0
	for _, prompt := range r.model.Asked(offline.KindReply) {
		brief, _, _ := strings.Cut(prompt.Text, "RECENT CONVERSATION (oldest first):\n")
		if brief == background && memory != "" {
			grew++
			assert.Truef(r.t, strings.HasPrefix(prompt.Text, memory),
				"between two folds the memory changed:\n%s\n---\n%s", memory, prompt.Text)
		}
		background = brief
		memory, _, _ = strings.Cut(prompt.Text, "\n\nCURRENT MESSAGE:")
		if memory == prompt.Text {
			memory = "" // a first message has none
		}
		memory, _, _ = strings.Cut(memory, "\n\n"+recallHeading) // the recalled turns are for one question
	}
	assert.True(r.t, grew != 0, "no two prompts had the same brief")
}

// operate runs a script of sql/operate, as psql does.
func (r *rig) operate(script string) {
	r.t.Helper()
	text, err := os.ReadFile("../../../sql/operate/" + script)
	require.NoError(r.t, err)
	conn := testkit.Connect(r.t, r.db.Direct())
	if _, err := conn.PgConn().Exec(r.t.Context(), string(text)).ReadAll(); err != nil {
		r.t.Fatal(err)
	}
}

// checkPaused talks, and checks that replies go on, complete, while no fold is made.
func (r *rig) checkPaused(chatID string) {
	r.t.Helper()
	before := len(r.model.Asked(offline.KindSummary))
	r.practise(chatID, 12)
	n := r.count("select count(*) from river.river_job where queue = 'memory' and state = 'available'")
	assert.Truef(r.t, n == 1, "%d folds wait, want one of the chat", n)
	asked := len(r.model.Asked(offline.KindSummary)) - before
	assert.Truef(r.t, asked == 0, "%d summaries were made during the pause", asked)
	assert.Contains(r.t, r.Call(http.MethodGet, "/metrics", nil).Text, `throughline_queue_depth{queue="memory"} 1`,
		"the metrics do not tell that a fold waits")
	r.checkCoverage(uuid.MustParse(chatID))
}

// While the queue memory is paused, replies go on and nothing is dropped that fits; afterwards the folds catch up. A pause
// outlives servers, however it was made.
func TestPausedMemoryCatchesUp(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, smallMemory)
	r.newUser()
	both := app.Role{API: true, Workers: true}
	r.operate("pause_memory.sql")
	r.node = r.start(both, riverUI)
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	r.checkPaused(chatID)
	r.operate("resume_memory.sql") // the worker that runs listens
	r.awaitFirstFold()
	r.awaitFolds()

	press := func(button string) {
		got := r.riverUI("a password", http.MethodPut, "/river/api/queues/memory/"+button, "")
		require.Truef(t, got.Status == http.StatusOK, "%s: %d %s", button, got.Status, got.Text)
	}
	press("pause")
	r.stopNow()
	r.node = r.start(both, riverUI)
	r.checkPaused(chatID)
	press("resume")
	r.awaitFolds()
	said := r.Say(chatID, "What is my cello teacher called?")
	assert.Containsf(t, said.Text, "Ilse", "forgotten: %q", said.Text)
}
