package system

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// holdCommits makes transactions that insert into or update a table wait right before their commit until open is called.
func (r *rig) holdCommits(table, when string) (open func()) {
	r.t.Helper()
	const key = 4711
	gate, err := pgx.Connect(r.t.Context(), r.db.Direct()) // a lock of a session, which no pooler keeps
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = gate.Close(r.t.Context()) })
	for _, sql := range []string{
		"create function public.wait_at_gate() returns trigger language plpgsql security definer as $$ begin perform pg_advisory_xact_lock_shared(4711); " +
			"return null; end $$",
		"create constraint trigger gate after insert or update on public." + table + " deferrable initially deferred for each row when (" + when +
			") execute function public.wait_at_gate()",
	} {
		testkit.Exec(r.t, r.pool, sql)
	}
	if _, err := gate.Exec(r.t.Context(), "select pg_advisory_lock($1)", key); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if _, err := gate.Exec(r.t.Context(), "select pg_advisory_unlock($1)", key); err != nil {
			r.t.Error(err)
		}
	}
}

// awaitLockWait waits until a session waits for a lock of a kind, such as advisory (the gate's).
func (r *rig) awaitLockWait(kind string) {
	testkit.Eventually(r.t, "a session waits for a lock", func() bool {
		return r.count("select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and wait_event = $1", kind) > 0
	})
}

// loseAnswer opens the gate and breaks the connection between the commit and its confirmation. The network goes silent
// first: Postgres would cancel the commit of a client whose connection visibly breaks.
func (r *networkRig) loseAnswer(open func(), committed string) {
	r.awaitLockWait("advisory")
	r.network.Break(testkit.Faults{HalfOpen: true})
	open()
	testkit.Eventually(r.t, "it is committed", func() bool { return testkit.Ask[bool](r.t, r.pool, "select exists ("+committed+")") })
	r.network.Heal()
}

// openResult is the result of opening a stream on another goroutine.
type openResult struct {
	stream *testkit.Stream
	err    error
}

// answer is what a message that was sent on another goroutine gets.
type answer chan openResult

func (r *rig) sendInBackground(chatID string, message testkit.Body) answer {
	answered := make(answer, 1)
	path, payload := testkit.MessagePath(chatID, message)
	go func() {
		s, err := r.TryOpen(http.MethodPost, path, payload)
		answered <- openResult{s, err}
	}()
	return answered
}

// wants waits for the answer, which has this status.
func (a answer) wants(t *testing.T, status int) *testkit.Stream {
	t.Helper()
	got := testkit.Receive(t, "an answer", a)
	require.NoError(t, got.err)
	if got.stream.Response.StatusCode != status {
		t.Fatalf("%v %s", got.stream.Response.Status, got.stream.Raw())
	}
	return got.stream
}

// The turn is committed, but the connection breaks before Postgres confirms it. The server finds its own turn stored
// and answers: the client notices nothing, whether it gave the message an id or not.
func TestAnswerToATurnIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id     any
		first  bool
		stored string // messages and chats
	}{
		"a first message with an id": {uuid.NewString(), true, "4 2"}, "a follow-up without an id": {nil, false, "4 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newNetworkRig(t, nil, nil)
			r.node = r.start(app.Role{API: true}, nil)
			chatID := r.Say("", teacher).ChatID
			if c.first {
				chatID = ""
			}
			open := r.holdCommits("messages", "new.status = 'streaming'")
			answered := r.sendInBackground(chatID, testkit.Body{"content": "What is my cello teacher called?", "client_message_id": c.id})
			r.loseAnswer(open, "select from messages where status = 'streaming'")
			said := answered.wants(t, http.StatusOK).Rest()
			assert.Truef(t, said.End.Name == testkit.Completion && said.Start.Data["resumed"] == false && strings.Contains(said.Text, "Ilse") != c.first,
				"%+v", said)
			assert.Equal(t, c.stored, testkit.Ask[string](t, r.pool, "select count(*) || ' ' || count(distinct chat_id) from messages"),
				"messages and chats")
			r.checkNothingRuns()
		})
	}
}

// The answer to a stored turn is lost, and Postgres stays away until the server gives up. So no server generates the reply. The
// server ends its lease as soon as Postgres is back, and the same message gets its reply before the lease would have ended.
func TestAnswerToATurnStaysLost(t *testing.T) {
	t.Parallel()
	r := newNetworkRig(t, nil, nil)
	r.node = r.start(app.Role{API: true}, nil)
	chatID := r.Say("", "My cello teacher is called Ilse.").ChatID
	message := testkit.Body{"content": "What is my cello teacher called?", "client_message_id": uuid.NewString()}
	open := r.holdCommits("messages", "new.status = 'streaming'")
	answered := r.sendInBackground(chatID, message)
	r.awaitLockWait("advisory")
	r.network.Break(testkit.Faults{HalfOpen: true})
	open()
	const orphan = "select id from messages where status = 'streaming'"
	testkit.Eventually(t, "it is committed", func() bool { return testkit.Ask[bool](t, r.pool, "select exists ("+orphan+")") })
	abandoned := testkit.Ask[uuid.UUID](t, r.pool, orphan)
	leased := testkit.Ask[time.Time](t, r.pool, "select lease_until from messages where id = $1", abandoned)
	r.network.Down()
	answered.wants(t, http.StatusServiceUnavailable)
	r.network.Heal()
	r.network.Up()
	said := r.Send(chatID, message).Rest()
	if said.MessageID == abandoned.String() { // it was still leased
		assert.Truef(t, said.End.Code() == "interrupted" && said.End.Data["retryable"] == true,
			"joined, and ended with %s %v", said.End.Name, said.End.Data)
		said = r.Send(chatID, message).Rest()
	}
	assert.Truef(t, said.End.Name == testkit.Completion && strings.Contains(said.Text, "Ilse"), "%+v", said)
	ended := testkit.Ask[time.Time](t, r.pool, "select updated_at from messages where id = $1 and status = 'interrupted'", abandoned)
	assert.Truef(t, ended.Before(leased), "interrupted at %s, when the lease of %s had ended", ended, leased)
	n := r.count("select count(*) from messages where role = 'user'")
	assert.Truef(t, n == 2, "%d user messages", n)
	r.checkNothingRuns()
}

// The same for a reply's end: it is stored once, and one fold is enqueued.
func TestAnswerToAStoredReplyIsLost(t *testing.T) {
	t.Parallel()
	r := newNetworkRig(t, nil, foldAtOnce)
	r.node = r.start(app.Role{API: true}, nil)
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	open := r.holdCommits("messages", "new.status = 'complete' and new.role = 'assistant'")
	answered := r.sendInBackground(chatID, testkit.Body{"content": "On Tuesdays I practise the second suite in the church."})
	r.loseAnswer(open, "select from messages where role = 'assistant' and status = 'complete' and seq = 4")
	said := answered.wants(t, http.StatusOK).Rest()
	assert.Equalf(t, testkit.Completion, said.End.Name, "%+v", said)
	r.checkStored(said.MessageID, said.Text)
	r.checkNothingRuns()
	n := r.count("select count(*) from river.river_job where kind = 'fold_brief'")
	assert.Truef(t, n == 1, "%d folds were asked for", n)
}

// The same for a fold: the brief is written, the job is completed with it, and nothing is folded again.
func TestAnswerToAFoldIsLost(t *testing.T) {
	t.Parallel()
	r := newNetworkRig(t, nil, foldAtOnce)
	r.node = r.start(app.Role{API: true}, r.direct())
	open := r.holdCommits("conversation_brief_revisions", "true")
	worker := r.start(app.Role{API: true, Workers: true}, nil)
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	r.Say(chatID, "On Tuesdays I practise the second suite in the church.")
	r.loseAnswer(open, "select from conversation_briefs where version = 1")
	testkit.Eventually(t, "the worker notices", func() bool { return strings.Contains(worker.logs.String(), `"result":"failed"`) })
	r.awaitFolds()
	assert.Equal(t, "1 1", testkit.Ask[string](t, r.pool,
		"select version || ' ' || (select count(*) from conversation_brief_revisions) from conversation_briefs"),
		"version and revisions")
	n := len(r.model.Asked(offline.KindSummary))
	assert.Truef(t, n == 1, "the model was asked for %d summaries", n)
}
