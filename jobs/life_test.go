package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// life is a kind of job that has something to do. What becomes of its workers is told once, for all kinds.
type life struct {
	kind string
	// lease is the kind of the item's lease; "" for a kind without one.
	lease string
	// begin stores what there is to do, and returns the job and what its worker needs.
	begin func(*rig) (work.Job, setup)
	// due has the sweep find the item once its job is gone.
	due string
	// done is true once everything is done. written checks that nothing was written twice, read that the model was asked once;
	// nil where twice would do no harm.
	done          string
	written, read func(*rig, work.Job)
	// untouched is true while nothing is done; "" for a kind after which no job follows.
	untouched string
}

var lives = []life{
	{
		kind: work.FoldBrief, lease: "fold", due: "update throughline.work set retry_at = now() where key = $1",
		begin: func(r *rig) (work.Job, setup) { return work.Job{ChatID: r.chat(20, 10)}, nothingMore },
		done:  "select version > 0 from conversation_briefs where chat_id = $1", untouched: "select version = 0 from conversation_briefs where chat_id = $1",
		written: func(r *rig, job work.Job) { r.checkRanges(job.ChatID) },
		read:    func(r *rig, job work.Job) { r.checkFoldedOnce(job.ChatID, 20) },
	},
	{
		kind:  work.IndexTurns,
		due:   "update chats set last_message_at = now() - interval '2 minutes' where id = $1",
		begin: func(r *rig) (work.Job, setup) { return work.Job{ChatID: r.chat(4, 1)}, nothingMore },
		done:  "select count(*) = 4 from turn_index where chat_id = $1",
	},
	{
		kind:  work.EmbedTurns,
		due:   "select $1::uuid",
		begin: func(r *rig) (work.Job, setup) { return work.Job{ChatID: r.indexed(3)}, r.embedding(nil) },
		done:  "select count(*) = 3 from turn_index where chat_id = $1 and embedding_model is not null",
	},
	{
		kind: work.ExtractMemories, lease: "extract", due: "update conversation_briefs set extract_due_at = now() where chat_id = $1",
		begin: func(r *rig) (work.Job, setup) {
			r.knowsLyon()
			return work.Job{ChatID: r.told(movedToPorto, "Good night.")}, r.extracting(nil)
		},
		done: "select extracted_seq = 4 from conversation_briefs where chat_id = $1",
		untouched: `select extracted_seq = 0 and not exists (select from memory_extractions) and (select count(*) from memories) = 1
			from conversation_briefs where chat_id = $1`,
		written: func(r *rig, job work.Job) { r.awaitRead(job.ChatID, 4); r.wantMovedOnce() },
	},
	{
		kind: work.AssignTopics, due: "select $1::uuid",
		begin: func(r *rig) (work.Job, setup) { return work.Job{ChatID: r.indexed(8)}, r.keepsTopics(nil) },
		done:  "select count(topic_id) = 8 from turn_index where chat_id = $1", untouched: "select count(topic_id) = 0 from turn_index where chat_id = $1",
		written: func(r *rig, job work.Job) {
			testkit.Want(r.t, r.pool, "16 16", "select string_agg(message_count || ' ' || last_seq, ', ') from topics where chat_id = $1", job.ChatID)
		},
	},
	{
		kind: work.CompactTopic, lease: "compact", due: "select $1::uuid",
		begin: func(r *rig) (work.Job, setup) {
			chatID := r.chat(30, 3)
			return work.Job{ChatID: chatID, TopicID: r.topicOf(chatID)}, both(r.keepsTopics(nil), r.compacting(func(c *topics.CompactorConfig) {
				c.InputTokens, c.Turn = 600, 1
			}))
		},
		done: "select compacted_seq >= 48 from topics where chat_id = $1", untouched: "select compacted_seq = 0 from topics where chat_id = $1",
		read: func(r *rig, _ work.Job) { r.wantReadOnce(24) },
	},
}

func nothingMore(*brief.Config, *WorkerConfig) {}

func both(first, second setup) setup {
	return func(f *brief.Config, c *WorkerConfig) { first(f, c); second(f, c) }
}

// live runs a test for each kind, with its job.
func live(t *testing.T, concerns func(*life) bool, test func(*rig, *life, work.Job, setup)) {
	for _, l := range lives {
		if !concerns(&l) {
			continue
		}
		t.Run(l.kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(request *offline.Request) offline.Answer {
				switch request.Metadata["purpose"] {
				case "extract", "consolidate":
					return remembersMoves(request)
				}
				return offline.Answer{}
			})
			job, needs := l.begin(r)
			job.Name = l.kind
			r.insertJob(job)
			test(r, &l, job, needs)
		})
	}
}

func all(*life) bool { return true }

func (l *life) leased() bool { return l.lease != "" }

func (l *life) followed() bool { return l.untouched != "" }

// item is what the lease is for.
func (l *life) item(job work.Job) uuid.UUID {
	if job.TopicID != uuid.Nil {
		return job.TopicID
	}
	return job.ChatID
}

// awaitDone waits until everything is done, and checks that it was once.
func (r *rig) awaitDone(l *life, job work.Job) {
	testkit.Await(r.t, r.pool, l.kind+" is done", true, l.done, job.ChatID)
	testkit.Await(r.t, r.pool, "its jobs end", 0, "select count(*) from river.river_job where kind = $1 and finalized_at is null", l.kind)
	testkit.Want(r.t, r.pool, 0, "select count(*) from river.river_job where args::text || (metadata -> 'output')::text ~ 'etude|Porto|practised'")
	testkit.Await(r.t, r.pool, "its lease ends", 0, "select count(*) from throughline.work where kind = $1", l.lease)
	if l.written != nil {
		l.written(r, job)
	}
	if l.read != nil {
		l.read(r, job)
	}
}

// killed makes the job that of a worker that was killed in an attempt; its lease ends soon.
func (r *rig) killed(l *life, job work.Job, attempt string) {
	testkit.Exec(r.t, r.pool, "update river.river_job set state = 'running', attempt = "+attempt+`, attempted_at = now() - interval '5 minutes',
		attempted_by = '{dead}'`)
	if l.leased() {
		testkit.Lease(r.t, r.pool, l.lease, l.item(job), r.user, "1 second")
	}
}

// A worker was killed: its job runs again when its lease is over, long before River would rescue it.
func TestJobsOfKilledWorkers(t *testing.T) {
	t.Parallel()
	live(t, all, func(r *rig, l *life, job work.Job, needs setup) {
		r.killed(l, job, "1")
		w := r.work(needs, sweeping)
		r.awaitDone(l, job)
		testkit.Want(r.t, r.pool, "worker lost its lease",
			"select errors[1] ->> 'error' from river.river_job where kind = $1 order by id limit 1", l.kind)
		testkit.Eventually(r.t, "the metric counts the job", func() bool { return swept(r.t, w, "job") > 0 })
	})
}

// A job whose workers die until it has no attempt left ends. A chat whose fold does so is left alone for a while; what else is
// due is found again.
func TestJobsThatKillTheirWorkersEnd(t *testing.T) {
	t.Parallel()
	live(t, all, func(r *rig, l *life, job work.Job, needs setup) {
		r.killed(l, job, "max_attempts")
		r.work(needs, sweeping)
		testkit.Await(r.t, r.pool, "the job ends", 1, "select count(*) from river.river_job where kind = $1 and state = 'discarded'", l.kind)
		if l.kind == work.FoldBrief {
			testkit.Await(r.t, r.pool, "the chat is put off", true, `select failure = 'worker died' and retry_at > now() + interval '59 minutes'
				from throughline.work where failures = 1 union all select false limit 1`)
			r.awaitRuns(work.SweepBriefs, 1)
			jobs, calls := r.count(l.kind), len(r.model.Requests())
			assert.Truef(r.t, jobs == 1 && calls == 0, "%d jobs, %d calls", jobs, calls)
		}
		testkit.Exec(r.t, r.pool, l.due, job.ChatID)
		r.awaitDone(l, job)
	})
}

// The job of what another worker is at runs again soon, and uses up no attempt.
func TestJobsOfBusyItemsAreSnoozed(t *testing.T) {
	t.Parallel()
	live(t, (*life).leased, func(r *rig, l *life, job work.Job, needs setup) {
		testkit.Lease(r.t, r.pool, l.lease, l.item(job), r.user, "1 hour")
		w := r.work(needs)
		events, cancel := w.Subscribe(river.EventKindJobSnoozed, river.EventKindJobCompleted, river.EventKindJobFailed)
		defer cancel()
		event := testkit.Receive(r.t, "an event of River", events)
		for event.Job.Kind != l.kind {
			event = testkit.Receive(r.t, "another one", events)
		}
		assert.Truef(r.t, event.Kind == river.EventKindJobSnoozed && event.Job.Attempt == 0,
			"the job was %s after attempt %d", event.Kind, event.Job.Attempt)
		testkit.Exec(r.t, r.pool, "delete from throughline.work")
		r.awaitDone(l, job)
	})
}

// However many jobs and workers there are, all is done once. The jobs bypass the unique key, as those of a rescue or an
// operator may.
func TestDuplicateJobsAreDoneOnce(t *testing.T) {
	t.Parallel()
	live(t, all, func(r *rig, l *life, job work.Job, needs setup) {
		r.insertJob(job) // is none more
		testkit.Want(r.t, r.pool, 1, "select count(*) from river.river_job where kind = $1", l.kind)
		testkit.Exec(r.t, r.pool, `insert into river.river_job (kind, queue, max_attempts, args)
			select kind, queue, 2000, args from river.river_job, generate_series(1, 3) where kind = $1`, l.kind)
		r.work(needs)
		r.work(needs)
		r.awaitDone(l, job)
		testkit.Want(r.t, r.pool, 0, "select count(*) from river.river_job where kind = $1 and state <> 'completed'", l.kind)
	})
}

// The row of a job may be gone: then it ends, and asks no model.
func TestJobsOfWhatIsGoneEnd(t *testing.T) {
	t.Parallel()
	live(t, all, func(r *rig, l *life, job work.Job, needs setup) {
		testkit.Exec(r.t, r.pool, "delete from chats where id = $1", job.ChatID)
		r.work(needs)
		// A busy Postgres may be late, which costs an attempt: the job of an error that stays never completes.
		testkit.Await(r.t, r.pool, "the job ends", "completed", "select state::text from river.river_job where kind = $1", l.kind)
		for _, request := range r.model.Requests() {
			if request.Kind != offline.KindEmbedding { // which measures the model
				r.t.Errorf("asked %s", request.Text)
			}
		}
		testkit.Want(r.t, r.pool, 0, "select count(*) from throughline.work")
	})
}

// What River does with a job follows from its result.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	failure := errors.New("the model is away")
	away, tooLong := fault.Wrap(fault.NotReady, "Postgres is away.", failure), errors.Join(fault.Wrap(fault.NotReady, "", context.DeadlineExceeded), failure)
	for _, c := range []struct {
		outcome       outcome
		least, most   time.Duration // of a job that comes again
		cancels, ends bool
	}{
		{outcome: outcome{result: work.Done}, ends: true},
		{outcome: outcome{result: work.Refused}, ends: true}, // something was written all the same
		{outcome: outcome{result: work.Failed, err: failure}},
		{outcome: outcome{result: work.Refused, err: failure}, cancels: true},
		{outcome: outcome{result: work.Refused, err: failure, again: time.Minute}, least: time.Minute, most: time.Minute},
		{outcome: outcome{result: work.Failed, err: away}, least: whileAway / 2, most: 3 * whileAway / 2},
		{outcome: outcome{result: work.Refused, err: away}, least: whileAway / 2, most: 3 * whileAway / 2},
		{outcome: outcome{result: work.Failed, err: tooLong}},
		{outcome: outcome{result: work.Busy}, least: whileBusy / 2, most: 3 * whileBusy / 2},
		{outcome: outcome{result: work.Waiting}, least: 30 * time.Second, most: 90 * time.Second},
		{outcome: outcome{result: work.Conflict}},
		{outcome: outcome{result: work.Paused}},
	} {
		err := c.outcome.end(t.Context(), &rivertype.JobRow{CreatedAt: time.Now().Add(-time.Minute)})
		snooze, again := errors.AsType[*rivertype.JobSnoozeError](err)
		_, cancelled := errors.AsType[*rivertype.JobCancelError](err)
		failed := errors.Is(err, failure) && !cancelled
		comes := c.most > 0 || c.outcome.result == work.Conflict || c.outcome.result == work.Paused
		assert.Truef(t, (err == nil) == c.ends && cancelled == c.cancels && again == comes && failed == (c.outcome.result == work.Failed && !again),
			"%+v: %v", c.outcome, err)
		if again && (snooze.Duration < c.least || snooze.Duration > c.most) {
			t.Errorf("%+v comes again after %s", c.outcome, snooze.Duration)
		}
	}
}

var errNoJob = errors.New("no job can be inserted")

// A job that ends and the one that follows are one transaction: where the next one cannot be inserted nothing is written.
func TestNothingIsWrittenWithoutTheNextJob(t *testing.T) {
	t.Parallel()
	live(t, (*life).followed, func(r *rig, l *life, job work.Job, needs setup) {
		r.refuses.Store(true)
		r.work(needs)
		testkit.Await(r.t, r.pool, "the job fails", true,
			"select exists (select from river.river_job where kind = $1 and errors[1] ->> 'error' like '%' || $2)", l.kind, errNoJob.Error())
		testkit.Want(r.t, r.pool, true, l.untouched, job.ChatID)
		r.refuses.Store(false)
		l.read = nil // the model was asked in vain
		r.awaitDone(l, job)
	})
}

// inserting inserts a job, unless the test refuses it.
func (r *rig) inserting(ctx context.Context, tx pgx.Tx, job work.Job) error {
	if r.refuses.Load() {
		return errNoJob
	}
	return Insert(r.insert)(ctx, tx, job)
}
