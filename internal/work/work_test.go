package work_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// bench is a database with users, and the store under test.
type bench struct {
	t     *testing.T
	db    testkit.Database
	pool  *pgxpool.Pool
	store work.Store
}

func newBench(t *testing.T) *bench {
	db := testkit.NewDatabase(t)
	pool, _, err := postgres.Open(t.Context(), db.DSN, 10)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &bench{t: t, db: db, pool: pool, store: &postgres.Work{Pool: pool}}
}

func (b *bench) lease(user uuid.UUID) work.Lease {
	return work.Lease{Kind: work.Graph, Key: uuid.New(), UserID: user, Token: uuid.New(), Duration: time.Minute}
}

func (b *bench) claim(lease work.Lease) work.Claim {
	claim, _, err := b.store.Claim(b.t.Context(), lease)
	require.NoError(b.t, err)
	return claim
}

// scheduled inserts a job that waits.
func (b *bench) scheduled() int64 {
	return testkit.Ask[int64](b.t, b.pool, `insert into river.river_job (kind, args, max_attempts, queue, state, scheduled_at)
		values ('x', '{}', 1, 'x', 'scheduled', now() + interval '1 hour') returning id`)
}

func (b *bench) rows(want int) {
	testkit.Want(b.t, b.pool, want, "select count(*) from throughline.work")
}

// task is a piece of work that does what a test says.
type task struct {
	nothing bool
	plan    error
	do      func(context.Context) error
	gaveUp  int32
}

func (t *task) Plan(context.Context) (bool, error) { return !t.nothing, t.plan }
func (t *task) Do(ctx context.Context) error       { return t.do(ctx) }

func (t *task) GiveUp(_ context.Context, cause error) (work.Result, error) {
	t.gaveUp++
	return work.Refused, cause
}

// refusal is what a model will say again.
type refusal struct{ error }

func (refusal) Refused() {}

var errModel = errors.New("the model is away")

// Every outcome of a task has its result, and none keeps the lease but one that has given up, which puts its item off.
func TestResults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := testkit.NewUser(t, b.db)
	for name, c := range map[string]struct {
		task   *task
		last   bool
		want   work.Result
		fails  bool
		gaveUp int32
	}{
		"nothing to do":         {&task{nothing: true}, false, work.Nothing, false, 0},
		"a plan that fails":     {&task{plan: errModel}, true, work.Failed, true, 0},
		"a failure":             {&task{do: func(context.Context) error { return errModel }}, false, work.Failed, true, 0},
		"the last failure":      {&task{do: func(context.Context) error { return errModel }}, true, work.Refused, true, 1},
		"a refusal":             {&task{do: func(context.Context) error { return refusal{errModel} }}, false, work.Refused, true, 1},
		"something has changed": {&task{do: func(context.Context) error { return work.ErrLost }}, true, work.Conflict, false, 0},
		"a turn that is over":   {&task{do: func(context.Context) error { return work.ErrPaused }}, true, work.Paused, false, 0},
		"wrapped":               {&task{do: func(context.Context) error { return fmt.Errorf("commit: %w", work.ErrLost) }}, true, work.Conflict, false, 0},
	} {
		lease := b.lease(user)
		result, err := work.Run(t.Context(), b.store, lease, c.last, c.task)
		assert.Truef(t, result == c.want && (err != nil) == c.fails && c.task.gaveUp == c.gaveUp,
			"%s: %s, %v, given up %d times", name, result, err, c.task.gaveUp)
		assert.Equalf(t, (c.gaveUp > 0), testkit.Ask[bool](t, b.pool, "select exists (select from throughline.work where key = $1)", lease.Key),
			"%s: a row is left", name)
	}
}

// A worker that is stopped gives its lease back, also within its call.
func TestAStoppedWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	result, err := work.Run(ctx, b.store, b.lease(testkit.NewUser(t, b.db)), true, &task{do: func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		return ctx.Err()
	}})
	assert.Truef(t, result == work.Paused && err == nil, "%s, %v", result, err)
	b.rows(0)
}

// A worker that was killed keeps its lease until that runs out. One that was frozen meanwhile finds it taken: its call ends.
func TestAFrozenWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := testkit.NewUser(t, b.db)
	lease := b.lease(user)
	lease.Duration = 300 * time.Millisecond
	require.Equal(t, work.Taken, b.claim(lease))
	other := lease
	other.Token = uuid.New()
	assert.Equal(t, work.Occupied, b.claim(other), "while the first is alive")
	if claim := b.claim(lease); claim != work.Taken { // the answer to the first claim was lost
		t.Errorf("once more: %s", claim)
	}
	result, err := work.Run(t.Context(), b.store, lease, false, &task{do: func(ctx context.Context) error {
		testkit.Lease(t, b.pool, string(lease.Kind), lease.Key, user, "1 hour")
		<-ctx.Done()
		return ctx.Err()
	}})
	assert.Truef(t, result == work.Conflict && err == nil, "%s, %v", result, err)
	testkit.Want(t, b.pool, true, "select lease_until > now() + interval '50 minutes' from throughline.work")
	if renewed, err := b.store.Renew(t.Context(), lease); err != nil || renewed {
		t.Errorf("renewed %v, %v", renewed, err)
	}
	testkit.Exec(t, b.pool, "update throughline.work set lease_until = now() - interval '1 second'")
	assert.Equal(t, work.Taken, b.claim(other), "after its end")
}

// Work that was given up waits: after the first times of Soon, then twice as long each time. It may be tried again when it has
// changed, and a success forgets all.
func TestPutOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease := b.lease(testkit.NewUser(t, b.db))
	delay := work.Delay{Soon: []time.Duration{time.Second}, First: time.Minute, Longest: 3 * time.Minute}
	for n, want := range []time.Duration{time.Second, time.Minute, 2 * time.Minute, 3 * time.Minute, 3 * time.Minute} {
		b.claim(lease)
		times, wait, err := b.store.PutOff(t.Context(), lease, "failed", delay)
		assert.Truef(t, err == nil && times == n+1 && wait.Round(time.Second) == want,
			"%d: %d times, %s, %v", n, times, wait, err)
		if times, _, err := b.store.PutOff(t.Context(), lease, "failed", delay); err != nil || times != 0 {
			t.Errorf("without the lease: %d times, %v", times, err)
		}
		if claim, wait, err := b.store.Claim(t.Context(), lease); claim != work.PutOff || wait.Round(time.Second) != want || err != nil {
			t.Errorf("too early: %s, %s, %v", claim, wait, err)
		}
		testkit.Exec(t, b.pool, "update throughline.work set retry_at = now()")
	}
	testkit.Exec(t, b.pool, "update throughline.work set failures = $1", math.MaxInt32)
	b.claim(lease)
	times, wait, err := b.store.PutOff(t.Context(), lease, "failed", delay)
	assert.Truef(t, err == nil && times == math.MaxInt32 && wait.Round(time.Second) == 3*time.Minute, "%d times, %s, %v", times, wait, err)
	testkit.Exec(t, b.pool, "update throughline.work set failures = 5, retry_at = now()")
	b.claim(lease)
	require.NoError(t, b.store.Release(t.Context(), lease, false))
	testkit.Want(t, b.pool, 5, "select failures from throughline.work")
	b.claim(lease)
	require.NoError(t, b.store.Release(t.Context(), lease, true))
	b.rows(0)
}

// Users take turns: at most so many items of a user are worked on at once, however many workers there are, those of others go
// on, and a place that gets free wakes the job that has waited longest.
func TestTurnsOfUsers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	busy, other := testkit.NewUser(t, b.db), testkit.NewUser(t, b.db)
	jobs := map[uuid.UUID]int64{}
	lease := func(user uuid.UUID) work.Lease {
		lease := b.lease(user)
		lease.PerUser = 2
		lease.JobID = b.scheduled()
		jobs[lease.Key] = lease.JobID
		return lease
	}
	leases := make([]work.Lease, 6)
	taken := []work.Lease{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range leases {
		leases[n] = lease(busy)
		all.Go(func() {
			if claim := b.claim(leases[n]); claim == work.Taken {
				mu.Lock()
				taken = append(taken, leases[n])
				mu.Unlock()
			} else if claim != work.Waits {
				t.Error(claim)
			}
		})
	}
	all.Wait()
	claim := b.claim(lease(other))
	require.Truef(t, len(taken) == 2 && claim == work.Taken,
		"%d of the user's are taken, and another's is %s", len(taken), claim)
	first := testkit.Ask[int64](t, b.pool, "select waiting_job from throughline.work where waiting_since is not null order by waiting_since limit 1")
	woken := func() string {
		return testkit.Ask[string](t, b.pool, "select coalesce(string_agg(id::text, ',' order by id), '') from river.river_job where state = 'available'")
	}
	require.Equal(t, "", woken(), "woken too early")
	require.NoError(t, b.store.Release(t.Context(), taken[0], true))
	got := woken()
	assert.Truef(t, got == fmt.Sprint(first), "woken: %s, not %d", got, first)
	for _, lease := range leases {
		assert.True(t, lease.JobID != first || b.claim(lease) == work.Taken, "the one that was woken has no place")
	}
	_, _, err := b.store.PutOff(t.Context(), taken[1], "failed", work.Delay{First: time.Hour, Longest: time.Hour})
	require.NoError(t, err)
	testkit.Want(t, b.pool, 2, "select count(*) from river.river_job where state = 'available'") // what fails keeps no place
}

// One place wakes one job, also where Postgres looks for it once for each row: a place that woke two failed, and kept its lease.
func TestAPlaceWakesOneJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := testkit.NewUser(t, b.db)
	settings := "&enable_hashjoin=off&enable_mergejoin=off&enable_material=off" // which a pooler refuses
	pool, _, err := postgres.Open(t.Context(), b.db.Direct()+settings, 10)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b.store = &postgres.Work{Pool: pool}
	first := b.lease(user)
	require.Equal(t, work.Taken, b.claim(first))
	testkit.Exec(t, b.pool, "analyze throughline.work") // it had one row
	for range 5 {
		lease := b.lease(user)
		lease.PerUser = 1
		lease.JobID = b.scheduled()
		require.Equal(t, work.Waits, b.claim(lease))
	}
	require.NoError(t, b.store.Release(t.Context(), first, true))
	testkit.Want(t, b.pool, 1, "select count(*) from river.river_job where state = 'available'")
}

// Of two jobs for the same work one may wait for a place that the other gets. It does not wait on: there is nothing left to wake it.
func TestAJobWhoseWorkAnotherTakesIsWoken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := testkit.NewUser(t, b.db)
	first, second := b.lease(user), b.lease(user)
	second.PerUser, second.JobID = 1, b.scheduled()
	require.Equal(t, work.Taken, b.claim(first))
	require.Equal(t, work.Waits, b.claim(second))
	other := second
	other.Token, other.PerUser, other.JobID = uuid.New(), 0, b.scheduled()
	require.Equal(t, work.Taken, b.claim(other))
	testkit.Want(t, b.pool, second.JobID, "select id from river.river_job where state = 'available'")
}

// A place may get free before River has put the job back that has just found none. The sweep wakes it.
func TestAJobThatIsAboutToWaitIsWoken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := testkit.NewUser(t, b.db)
	first, second := b.lease(user), b.lease(user)
	first.PerUser, second.PerUser = 1, 1
	second.JobID = testkit.Ask[int64](t, b.pool, `insert into river.river_job (kind, args, max_attempts, queue, state, attempted_at)
		values ('x', '{}', 1, 'x', 'running', now()) returning id`)
	if a, b := b.claim(first), b.claim(second); a != work.Taken || b != work.Waits {
		t.Fatal(a, b)
	}
	again := second
	if again.JobID++; b.claim(again) != work.Gone {
		t.Error("a second job waits for the same")
	}
	require.NoError(t, b.store.Release(t.Context(), first, true))
	testkit.Exec(t, b.pool, "update river.river_job set state = 'scheduled', scheduled_at = now() + interval '1 minute'")
	_, _, err := (&postgres.Work{Pool: b.pool}).ReviveDead(t.Context(), time.Minute)
	require.NoError(t, err)
	testkit.Want(t, b.pool, "available", "select state::text from river.river_job")
	assert.Equal(t, work.Taken, b.claim(second))
}

// Two workers at one item: one works, and what it did is done once.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease := b.lease(testkit.NewUser(t, b.db))
	var done atomic.Int32
	var all sync.WaitGroup
	gate := make(chan struct{})
	results := make(chan work.Result, 8)
	for range 8 {
		mine := lease
		mine.Token = uuid.New()
		all.Go(func() {
			result, err := work.Run(t.Context(), b.store, mine, false, &task{do: func(ctx context.Context) error {
				<-gate
				done.Add(1)
				return b.store.Release(ctx, mine, true)
			}})
			assert.NoError(t, err)
			results <- result
		})
	}
	for range 7 {
		assert.Equal(t, work.Busy, testkit.Receive(t, "the others end", results))
	}
	close(gate)
	all.Wait()
	if result := <-results; result != work.Done || done.Load() != 1 {
		t.Errorf("%s, done %d times", result, done.Load())
	}
	b.rows(0)
}

// Work goes with what it is about.
func TestWorkGoesWithItsChatAndUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := testkit.NewUser(t, b.db)
	chat := testkit.Ask[uuid.UUID](t, b.pool, "insert into chats (user_id) values ($1) returning id", user)
	testkit.Exec(t, b.pool, "insert into memory_users (user_id) values ($1)", user)
	for _, lease := range []work.Lease{
		{Kind: work.Fold, Key: chat, ChatID: chat, Token: uuid.New(), Duration: time.Minute},
		{Kind: work.Graph, Key: user, UserID: user, Token: uuid.New(), Duration: time.Minute},
	} {
		assert.Equal(t, work.Taken, b.claim(lease))
	}
	gone := work.Lease{Kind: work.Fold, Key: uuid.New(), ChatID: uuid.New(), Token: uuid.New(), Duration: time.Minute}
	assert.Equal(t, work.Gone, b.claim(gone), "a chat that is not there")
	b.rows(2)
	testkit.Exec(t, b.pool, "delete from auth.users where id = $1", user)
	b.rows(0)
}

// Work whose calls are denied waits until the time that the app names, and counts as no failure; it is tried again at once where
// somebody asks for it. The user's next one has its turn.
func TestDeniedWorkWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := testkit.NewUser(t, b.db)
	lease := b.lease(user)
	denied := &task{do: func(context.Context) error {
		return fmt.Errorf("extract: %w", &work.DeniedError{Until: time.Now().Add(time.Hour), Err: errors.New("ten a day")})
	}}
	result, err := work.Run(t.Context(), b.store, lease, true, denied)
	require.NoError(t, err)
	assert.Equal(t, work.Nothing, result)
	testkit.Want(t, b.pool, "0 true", "select failures || ' ' || (retry_at > now() + interval '59 minutes') from throughline.work")
	_, _, err = b.store.(*postgres.Work).ReviveDead(t.Context(), time.Minute) // the sweep does not forget it
	require.NoError(t, err)
	assert.Equal(t, work.PutOff, b.claim(lease))
	assert.Equal(t, work.Taken, b.claim(b.lease(user)), "another one of the user's")
	testkit.Exec(t, b.pool, "select throughline.retry_work($1, $2)", string(lease.Kind), lease.Key)
	assert.Equal(t, work.Taken, b.claim(lease))
}
