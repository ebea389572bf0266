package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
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
func (r *rig) learning() learn.Config {
	r.t.Helper()
	model := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	r.t.Cleanup(model.Close)
	pool := r.open(5)
	return learn.Config{
		Store: postgres.NewLearning(pool), Leases: postgres.NewWork(pool), Asker: model, Logger: r.logs.Logger(), Metrics: metrics.New(), Model: "small",
		Delay: 1, MostTurns: 1, Lease: 2 * time.Second,
	}
}

// extracting makes a worker extract memories.
func (r *rig) extracting(change func(*learn.Config)) setup {
	learning := r.learning()
	if change != nil {
		change(&learning)
	}
	return func(_ *brief.Config, config *WorkerConfig) {
		maintenance := config.Maintenance.(*postgres.Maintenance)
		maintenance.ExtractAfter(time.Millisecond)
		config.Learner, config.Extractions = learn.New(learning), maintenance
	}
}

// told stores a chat of the user with these messages and replies to them.
func (r *rig) told(contents ...string) uuid.UUID {
	r.t.Helper()
	chatID := testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	for _, content := range contents {
		testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count) values ($1, 'user', $2, $3), ($1, 'assistant', 'I see.', 2)",
			chatID, content, text.Tokens(content))
	}
	return chatID
}

// knowsLyon gives the user a memory that a move contradicts.
func (r *rig) knowsLyon() {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, "insert into memory_users (user_id) values ($1)", r.user)
	testkit.Exec(r.t, r.pool, "insert into memories (user_id, content) values ($1, 'The user lives in Lyon.')", r.user)
}

// enqueueExtract inserts a job to run at a time, as saving a reply does.
func (r *rig) enqueueExtract(chatID uuid.UUID, at time.Time) {
	r.t.Helper()
	r.commit(func(tx pgx.Tx) error {
		return EnqueueExtract(r.insert)(r.t.Context(), tx, chatID, at)
	})
}

// awaitRead waits until a chat is read up to a message and no extraction is left.
func (r *rig) awaitRead(chatID uuid.UUID, seq int64) {
	r.t.Helper()
	testkit.Await(r.t, r.pool, fmt.Sprintf("the chat is read up to %d", seq), true, `select b.extracted_seq = $2 and b.extract_due_at is null
			and not exists (select from river.river_job where finalized_at is null and queue = 'memories')
			and not exists (select from throughline.work where lease_token is not null) from conversation_briefs b where b.chat_id = $1`, chatID, seq)
}

// wantMovedOnce checks that two turns were read once each, and that the move is there once.
func (r *rig) wantMovedOnce() {
	r.t.Helper()
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

// errKilled is what a worker sees of its own end.
var errKilled = errors.New("the worker was killed")

// mortal is the store and the model of a worker that is killed at a step: from then on it does nothing, and gives nothing
// back.
type mortal struct {
	learn.Store
	work.Asker

	Leases work.Store

	step string
	mu   sync.Mutex
	dead bool
}

// at runs a step, unless the worker is dead. It dies before or after the step of that name.
func (m *mortal) at(step string, run func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead = m.dead || m.step == "before "+step; m.dead {
		return errKilled
	}
	err := run()
	if m.dead = m.dead || m.step == "after "+step; m.dead {
		return errKilled
	}
	return err
}

func (m *mortal) Claim(ctx context.Context, lease work.Lease) (c work.Claim, wait time.Duration, err error) {
	err = m.at("claim", func() (err error) { c, wait, err = m.Leases.Claim(ctx, lease); return err })
	return c, wait, err
}

func (m *mortal) Renew(ctx context.Context, lease work.Lease) (renewed bool, err error) {
	err = m.at("renew", func() (err error) { renewed, err = m.Leases.Renew(ctx, lease); return err })
	return renewed, err
}

func (m *mortal) Release(ctx context.Context, lease work.Lease, done bool) error {
	return m.at("release", func() error { return m.Leases.Release(ctx, lease, done) })
}

func (m *mortal) PutOff(ctx context.Context, lease work.Lease, failure string, delay work.Delay) (times int, wait time.Duration, err error) {
	err = m.at("put off", func() (err error) { times, wait, err = m.Leases.PutOff(ctx, lease, failure, delay); return err })
	return times, wait, err
}

func (m *mortal) Similar(ctx context.Context, chatID uuid.UUID, texts []learn.Text, model string) (known learn.Known, err error) {
	err = m.at("comparison", func() (err error) { known, err = m.Store.Similar(ctx, chatID, texts, model); return err })
	return known, err
}

// Commit is killed within its transaction when it inserts the next job.
func (m *mortal) Commit(ctx context.Context, change learn.Change, next func(context.Context, pgx.Tx, time.Time) error) (o learn.Outcome,
	w learn.Written, err error) {
	err = m.at("commit", func() (err error) {
		o, w, err = m.Store.Commit(ctx, change, func(ctx context.Context, tx pgx.Tx, at time.Time) error {
			if m.step == "within commit" {
				m.dead = true
				return errKilled
			}
			return next(ctx, tx, at)
		})
		return err
	})
	return o, w, err
}

func (m *mortal) Ask(ctx context.Context, question work.Question) (answer work.Answer, err error) {
	err = m.at(question.Purpose, func() (err error) { answer, err = m.Asker.Ask(ctx, question); return err })
	return answer, err
}

// A worker that is killed at any step loses nothing and doubles nothing: the sweep revives its job when its lease is over.
func TestExtractionsOfKilledWorkers(t *testing.T) {
	t.Parallel()
	for _, step := range []string{
		"before claim", "after claim", "after extract", "after comparison", "after consolidate", "before commit", "within commit", "after commit",
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && !slices.Contains([]string{"before claim", "after consolidate", "within commit"}, step) {
				t.Skip("a sample")
			}
			r := newRig(t, remembersMoves)
			r.knowsLyon()
			chatID := r.told(movedToPorto, "Good night.")
			r.enqueueExtract(chatID, time.Time{})
			jobID := testkit.Ask[int64](t, r.pool, `update river.river_job set state = 'running', attempt = 1,
				attempted_at = now() - interval '1 minute', attempted_by = '{dead}'
				where kind = 'extract_memories' returning id`)
			config := r.learning()
			killed := &mortal{Store: config.Store, Leases: config.Leases, Asker: config.Asker, step: step}
			config.Store, config.Leases, config.Asker = killed, killed, killed
			_, err := learn.New(config).Extract(t.Context(), chatID, learn.Job{ID: jobID, EnqueueNext: func(ctx context.Context, tx pgx.Tx, at time.Time) error {
				return EnqueueExtract(r.insert)(ctx, tx, chatID, at)
			}})
			if !errors.Is(err, errKilled) || !killed.dead {
				t.Fatalf("the worker ended with %v", err)
			}
			extracting := r.extracting(nil)
			r.work(sweeping, extracting)
			r.awaitRead(chatID, 4)
			r.wantMovedOnce()
			if told := testkit.Ask[string](t, r.pool, "select coalesce(errors[1] ->> 'error', '') from river.river_job where id = $1",
				jobID); (told == "worker lost its lease") != (step != "after commit") {
				t.Errorf("the job tells %q", told)
			}
		})
	}
}

// The sweep inserts the jobs of chats that are due and have none, such as one whose workers died until its job had no attempt
// left, and makes chats due whose reply was never saved.
func TestSweepFindsChatsToRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, remembersMoves)
	r.knowsLyon()
	due, later, imported := r.told(movedToPorto, "Good night."), r.told("Good day."), r.told("Good evening.")
	r.enqueueExtract(due, time.Time{})
	testkit.Exec(t, r.pool, `update river.river_job set state = 'running', attempt = max_attempts, attempted_at = now() - interval '1 minute',
		attempted_by = '{dead}'`)
	testkit.Lease(t, r.pool, "extract", due, r.user, "1 second")
	testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = now() where chat_id = $1", due)
	testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = now() + interval '1 hour' where chat_id = $1", later)
	extracting := r.extracting(nil)
	r.work(sweeping, extracting)
	r.awaitRead(due, 4)
	r.wantMovedOnce()
	testkit.Want(t, r.pool, 1, "select count(*) from river.river_job where kind = 'extract_memories' and state = 'discarded'")
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
	if got := state(); got != "scheduled 3 true" {
		t.Errorf("before: %s", got)
	}
	r.enqueueExtract(chatID, time.Time{})
	if got := state(); got != "available 1 false" {
		t.Errorf("raised: %s", got)
	}
	r.work(r.extracting(func(c *learn.Config) { c.Delay, c.MostTurns = time.Hour, 12 })) // six turns do not wait for it
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
	r.work(r.extracting(func(c *learn.Config) { c.Delay = time.Hour }))
	testkit.Await(t, r.pool, "the job waits", 1,
		`select count(*) from river.river_job
			where kind = 'extract_memories' and state = 'scheduled' and scheduled_at > now() + interval '50 minutes' and attempt = 0`)
	if n := len(r.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}
