package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const movedToPorto = "I moved to Porto."

// remembersMoves is a model that proposes Porto where somebody moved there, and has it supersede the memory before.
func remembersMoves(request *offline.Request) offline.Answer {
	if request.Metadata["purpose"] == "consolidate" {
		return jsonAnswer(map[string]any{"decisions": []any{
			map[string]any{"candidate": "C1", "action": "DELETE", "memory": "M1", "merged": nil, "reason": "moved"},
		}})
	}
	facts := []any{}
	_, said, _ := strings.Cut(request.Text, "NEW MESSAGES")
	for line := range strings.SplitSeq(said, "\n") {
		if alias, _, _ := strings.Cut(line, " "); strings.HasPrefix(alias, "U") && strings.Contains(line, movedToPorto) {
			facts = append(facts, map[string]any{
				"fact": "The user lives in Porto.", "type": "fact", "confidence": 0.9, "horizon": "lasting", "durable": false, "evidence": []string{alias},
				"quote": "I moved to Porto", "valid_from": nil, "valid_to": nil, "replaces": nil, "entities": []any{}, "relationships": []any{},
			})
		}
	}
	return jsonAnswer(map[string]any{"facts": facts})
}

func jsonAnswer(content any) offline.Answer {
	encoded, err := json.Marshal(content)
	if err != nil {
		panic(err) // maps of texts
	}
	return offline.Answer{Text: string(encoded)}
}

// learning returns the configuration of an engine that reads one turn at a time, as soon as it was said.
func (r *rig) learning() longterm.Extractor {
	model := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	r.t.Cleanup(model.Close)
	pool := r.open(5)
	return longterm.Extractor{
		Store: &postgres.Learning{Pool: pool, Insert: r.inserting}, Leases: &postgres.Work{Pool: pool},
		Asker: model, Logger: r.logs.Logger(), Metrics: metrics.New(), Model: "small",
		Delay: 1, MostTurns: 1, Lease: 2 * time.Second,
	}
}

// extracting makes a worker extract memories.
func (r *rig) extracting(change func(*longterm.Extractor)) setup {
	learning := r.learning()
	if change != nil {
		change(&learning)
	}
	return func(_ *brief.Config, config *WorkerConfig) {
		maintenance(config).ExtractAfter(time.Millisecond)
		config.Learner = longterm.NewExtractor(learning)
	}
}

// told stores a chat of the user with these messages and replies to them.
func (r *rig) told(contents ...string) uuid.UUID {
	chatID := testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	for _, content := range contents {
		testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count) values ($1, 'user', $2, $3), ($1, 'assistant', 'I see.', 2)",
			chatID, content, text.Tokens(content))
	}
	return chatID
}

// knowsLyon gives the user a memory that a move contradicts.
func (r *rig) knowsLyon() {
	testkit.Exec(r.t, r.pool, "insert into memory_users (user_id) values ($1)", r.user)
	testkit.Exec(r.t, r.pool, "insert into memories (user_id, content) values ($1, 'The user lives in Lyon.')", r.user)
}

// enqueueExtract inserts a job to run at a time, as saving a reply does.
func (r *rig) enqueueExtract(chatID uuid.UUID, at time.Time) {
	insert := postgres.Insert(Insert(r.insert))
	require.NoError(r.t,
		pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error { return insert.Extract(r.t.Context(), tx, chatID, at) }))
}

// awaitRead waits until a chat is read up to a message and no extraction is left.
func (r *rig) awaitRead(chatID uuid.UUID, seq int64) {
	testkit.Await(r.t, r.pool, fmt.Sprintf("the chat is read up to %d", seq), true, `select b.extracted_seq = $2 and b.extract_due_at is null
			and not exists (select from river.river_job where finalized_at is null and queue = 'memories')
			and not exists (select from throughline.work where lease_token is not null) from conversation_briefs b where b.chat_id = $1`, chatID, seq)
}

// wantMovedOnce checks that two turns were read once each, and that the move is there once.
func (r *rig) wantMovedOnce() {
	for question, want := range map[string]string{
		"select string_agg(seq_from || '-' || seq_to || ' ' || result, ', ' order by seq_from) from memory_extractions": "1-2 done, 3-4 empty",
		`select string_agg(content || ' ' || status, ' ' order by content)
			from memories`: "The user lives in Lyon. superseded The user lives in Porto. active",
		"select string_agg(v.action, ' ' order by m.content, v.version) from memory_revisions v join memories m on m.id = v.memory_id": "ADD DELETE ADD",
		"select string_agg(seq || ' ' || fact, ', ') from memory_sources":                                                              "1 The user lives in Porto.",
	} {
		testkit.Want(r.t, r.pool, want, question)
	}
}

// The sweep makes chats due whose reply was never saved, and leaves those alone that are due later or never.
func TestSweepFindsChatsToRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, remembersMoves)
	later, imported := r.told("Good day."), r.told("Good evening.")
	testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = now() + interval '1 hour' where chat_id = $1", later)
	extracting := r.extracting(nil)
	r.work(sweeping, extracting)
	abandoned := r.told()
	testkit.Exec(t, r.pool, `insert into messages (chat_id, role, status, content, token_count, lease_until)
		values ($1, 'user', 'complete', 'Are you there?', 4, null), ($1, 'assistant', 'streaming', '', 0, now() - interval '1 second')`, abandoned)
	r.awaitRead(abandoned, 2)
	for _, chatID := range []uuid.UUID{later, imported} {
		testkit.Want(t, r.pool, 0, "select extracted_seq from conversation_briefs where chat_id = $1", chatID)
	}
}

// A chat that is to be read later has one job, which runs at once when six turns are there, or somebody wants it.
func TestExtractionIsRaised(t *testing.T) {
	t.Parallel()
	r := newRig(t, remembersMoves)
	said := []string{movedToPorto, "Good night.", "Three.", "Four.", "Five.", "Six."}
	chatID := r.told(said...)
	testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = now() + interval '1 hour'")
	r.enqueueExtract(chatID, time.Now().Add(time.Hour))
	r.enqueueExtract(chatID, time.Now().Add(time.Minute)) // changes nothing
	state := func() string {
		return testkit.Ask[string](t, r.pool,
			`select string_agg(state || ' ' || priority || ' ' || (scheduled_at > now() + interval '50 minutes'), ', ')
				from river.river_job where kind = 'extract_memories'`)
	}
	assert.Equal(t, "scheduled 3 true", state(), "before")
	r.enqueueExtract(chatID, time.Time{})
	assert.Equal(t, "available 1 false", state(), "raised")
	r.work(r.extracting(func(c *longterm.Extractor) { c.Delay, c.MostTurns = time.Hour, 12 })) // six turns do not wait for it
	r.awaitRead(chatID, int64(2*len(said)))
	testkit.Want(t, r.pool, "1-12 of 6", "select string_agg(seq_from || '-' || seq_to || ' of ' || turns, ', ') from memory_extractions")
}

// A chat in which somebody is still talking waits until it has rested, in the same job.
func TestExtractionWaitsUntilTheChatRests(t *testing.T) {
	t.Parallel()
	r := newRig(t, remembersMoves)
	chatID := r.told("Good day.")
	testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = now()")
	r.enqueueExtract(chatID, time.Time{})
	r.work(r.extracting(func(c *longterm.Extractor) { c.Delay = time.Hour }))
	testkit.Await(t, r.pool, "the job waits", 1,
		`select count(*) from river.river_job
			where kind = 'extract_memories' and state = 'scheduled' and scheduled_at > now() + interval '50 minutes' and attempt = 0`)
	assert.Empty(t, r.model.Requests(), "calls")
}
