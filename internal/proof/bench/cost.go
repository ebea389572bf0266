package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/arcoscribe/throughline/streaming"
)

// measureCost counts what a turn costs, with all the jobs that it makes due: the CPU time of the program, of Postgres and
// of the embedder, and the bytes written ahead. All builds and settings run in one go, each on a Postgres of its own, and
// have their turns alternately, in every second round in the other order: how busy the machine is falls on all alike.
func measureCost(ctx context.Context, b *bench, t *table) error {
	builds, err := b.builds(ctx, b.of(12), b.against)
	if err != nil {
		return err
	}
	t.columns = nil
	for _, one := range builds {
		t.columns = append(t.columns, one.name)
	}
	turns := b.of(36)
	for round := range 1 + turns {
		for i := range builds {
			one := builds[(i+round)%len(builds)]
			if err := one.round(ctx, round); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if round == 0 { // it warms up
				one.spent = spent{}
			}
		}
	}
	for _, one := range builds {
		for i, r := range costRows {
			t.put(one.name, r, one.spent[i]/float64(len(one.chats)*turns))
		}
	}
	t.note("%d chats of %d turns after one that does not count; folds, vectors, topics and extractions are waited for", b.of(12), turns)
	t.note("Postgres: all of its processes; WAL without whole pages after a checkpoint, because none falls into the run")
	return nil
}

var costRows = []row{
	{what: "the program's CPU per turn", unit: "ms", figure: "cost_server", target: atMost(4.8)},
	{what: "Postgres's CPU per turn", unit: "ms", figure: "cost_postgres", target: atMost(3)},
	{what: "the embedder's CPU per turn", unit: "ms", figure: "cost_embedder"},
	{what: "all three", unit: "ms", figure: "cost_all", target: &target{limit: 1.6, against: stripped}},
	{what: "WAL per turn", unit: "kB", figure: "cost_wal", target: atMost(7)},
}

// spent are the values of costRows.
type spent [5]float64

// build is a build of the program with some settings, on a Postgres of its own.
type build struct {
	*bench
	name   string
	admin  *pgxpool.Pool
	server endpoint
	chats  []chat
	spent  spent
}

// builds starts the program as shipped and stripped, and as another checkout has it; "" for none.
func (b *bench) builds(ctx context.Context, chats int, against string) (all []*build, err error) {
	for _, name := range []string{shipped, stripped} {
		one, err := b.startBuild(ctx, name, name, b.program, chats)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, one)
	}
	if against == "" {
		return all, nil
	}
	program := filepath.Join(b.folder, "other")
	if err := kit.Build(ctx, against, program); err != nil {
		return nil, err
	}
	other, err := b.startBuild(ctx, filepath.Base(against), shipped, program, chats)
	return append(all, other), err
}

// startBuild starts a build on an empty database that it migrates itself.
func (b *bench) startBuild(ctx context.Context, name, settings, program string, chats int) (*build, error) {
	cluster, err := kit.StartEmptyPostgres(ctx, map[string]string{
		"shared_buffers": "128MB", "max_wal_size": "4GB", "checkpoint_timeout": "1h", "max_connections": "200",
	})
	if err != nil {
		return nil, err
	}
	b.later(cluster.Destroy)
	one := &build{bench: b, name: name}
	env := map[string]string{"DATABASE_URL": cluster.DSN()}
	if err := kit.Run(ctx, kit.Command{Program: program, Args: []string{"migrate"}, Env: env}); err != nil {
		return nil, err
	}
	if one.admin, err = pgxpool.New(ctx, cluster.AdminDSN()); err != nil {
		return nil, err
	}
	b.later(func() error { one.admin.Close(); return nil })
	if one.server, err = b.serve(ctx, program, cluster.DSN(), settings, nil); err != nil {
		return nil, err
	}
	for range chats {
		user, token, err := kit.NewUser(ctx, one.admin)
		if err != nil {
			return nil, err
		}
		c := chat{kit.NewID(), token}
		if _, err := one.admin.Exec(ctx, "insert into public.chats (id, user_id) values ($1, $2)", c.id, user); err != nil {
			return nil, err
		}
		one.chats = append(one.chats, c)
	}
	return one, nil
}

// usage returns what was spent since the start.
func (b *build) usage(ctx context.Context) (spent, error) {
	all, wal, err := kit.UsageOfPostgres(ctx, b.admin)
	server, embedder := kit.UsageOf(b.server.PID()).CPU, kit.UsageWithChildren(b.embedder.PID()).CPU
	return spent{
		kit.Milliseconds(server), kit.Milliseconds(all.CPU), kit.Milliseconds(embedder),
		kit.Milliseconds(server + all.CPU + embedder), float64(wal) / 1e3,
	}, err
}

// round lets everyone have a turn, waits for the jobs that it makes due, and adds up what all that used.
func (b *build) round(ctx context.Context, n int) error {
	before, err := b.usage(ctx)
	if err != nil {
		return err
	}
	err = evenly(ctx, len(b.chats), 0, func(ctx context.Context, i int) error {
		var r reply
		err := r.receive(ctx, b.server, fresh, b.server.asks(b.chats[i], saidIn(n+i)), toTheEnd)
		if err == nil && r.end != streaming.EventCompleted {
			err = fmt.Errorf("a reply ended with %s", r.end)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := b.jobsDone(ctx); err != nil {
		return err
	}
	now, err := b.usage(ctx)
	for i := range now {
		b.spent[i] += now[i] - before[i]
	}
	return err
}

// jobsDone waits until no job is due or at work.
func (b *build) jobsDone(ctx context.Context) error {
	for {
		var left int
		err := b.admin.QueryRow(ctx, "select count(*) from river.river_job where state in ('available', 'running', 'retryable')").Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		const pause = 5 * time.Millisecond
		if err := kit.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("%d jobs do not end: %w", left, err)
		}
	}
}

// facts are what people say of themselves now and then, so that there is something to remember.
var facts = []string{
	"I live in Lindau now.", "My dog is called Bruno.", "I am allergic to walnuts.", "My sister works as a nurse.", "I play the cello.",
	"What did I tell you about my dog?", "I do not eat meat.", "My teacher is called Ilse.", "Where do I live?", "I was born in 1984.",
}

// saidIn is what is said in a turn.
func saidIn(n int) string {
	return fmt.Sprintf("%s %s That was lesson %d.", facts[n%len(facts)], kit.Text(n%kit.Texts), n+1)
}

// memoryTurns are those of the chat of measureMemory.
const memoryTurns = 500

// measureMemory drives one chat from its first turn to its last and adds up what each prompt remembered. A person takes
// longer to write than jobs take; here they are waited for.
func measureMemory(ctx context.Context, b *bench, t *table) error {
	builds, err := b.builds(ctx, 1, "")
	if err != nil {
		return err
	}
	err = evenly(ctx, len(builds), 0, func(ctx context.Context, i int) error { // no time is measured
		for n := range b.of(memoryTurns) {
			if err := builds[i].round(ctx, n); err != nil {
				return fmt.Errorf("%s, turn %d: %w", builds[i].name, n+1, err)
			}
		}
		return nil
	})
	for _, one := range builds {
		if err == nil {
			err = one.remember(ctx, t)
		}
	}
	return err
}

// remembered sums up the receipts of all replies in a database. Memory grows with each turn and shrinks with a fold: its
// growth is that of the means of the turns from one fold to the next, neither before the first nor after the last one.
const remembered = `
	with receipts as (
	  select r.seq, (m->>'brief_version')::int as version, (m->>'dropped_turns')::int as dropped,
	         (m->>'brief_tokens')::int + (m->>'bridge_tokens')::int + (m->>'tail_tokens')::int
	           + coalesce((m->>'recall_tokens')::int, 0) + coalesce((m->>'memory_tokens')::int, 0) as tokens,
	         (select coalesce(sum(before.token_count), 0) from public.messages before where before.seq < r.seq - 1) as history
	    from public.messages r cross join lateral (select r.metadata->'memory') as memory (m) where r.role = 'assistant'
	), whole as (
	  select version, avg(tokens) as mean from receipts where version > 0 and version < (select max(version) from receipts) group by version
	)
	select last.tokens, last.history, last.version, (select sum(dropped) from receipts),
	       coalesce((select (array_agg(mean order by version desc))[1] / (array_agg(mean order by version))[1] from whole having count(*) > 1), 0)::float8
	  from receipts last order by last.seq desc limit 1`

// remember puts what the prompts of the only chat had.
func (b *build) remember(ctx context.Context, t *table) error {
	var tokens, history, folds, dropped, growth float64
	err := b.admin.QueryRow(ctx, remembered).Scan(&tokens, &history, &folds, &dropped, &growth)
	t.put(b.name, row{what: fmt.Sprintf("memory at turn %d", b.of(memoryTurns)), unit: "tokens", figure: "memory_tokens"}, tokens)
	t.put(b.name, row{what: "the whole history before it", unit: "tokens", figure: "history_tokens"}, history)
	grown := "memory of the last turns from one fold to the next, to the first"
	t.put(b.name, row{what: grown, unit: "×", figure: "memory_growth", target: atMost(1.1)}, growth)
	t.put(b.name, row{what: "turns that were in neither brief nor prompt", target: atMost(0)}, dropped)
	if b.name == shipped {
		t.note("memory: brief, turns word for word, and as shipped what was recalled and what is known of the user; %.0f folds", folds)
	}
	return err
}

// measureFold counts folds per second with a model whose summary is ready, what a folded turn costs, and times jobs from
// insert to start.
func measureFold(ctx context.Context, b *bench, t *table) error {
	server, err := b.server(ctx, shipped)
	if err != nil {
		return err
	}
	p50, p95, err := b.pickupTimes(ctx)
	if err != nil {
		return fmt.Errorf("pick-up: %w", err)
	}
	// Each run has chats of its own, and writes them when it needs them: a server would fold them at once.
	b.folded++
	due := batch{kind: fmt.Sprintf("due%d", b.folded), chats: b.of(600), turns: dueTurns(), texts: ordinaryTexts()}
	if err := b.inBulk(ctx, func(conn *pgxpool.Conn) error { return due.insert(ctx, conn, b.users()) }); err != nil {
		return err
	}
	one := &build{bench: b, admin: b.admin, server: server}
	before, err := one.usage(ctx)
	if err != nil {
		return err
	}
	rate, err := b.foldRate(ctx, due)
	if err != nil {
		return fmt.Errorf("folds: %w", err)
	}
	now, err := one.usage(ctx)
	turns := dueTurns() - memory.DefaultLimits().KRawTurns
	used := (now[0] - before[0] + now[1] - before[1]) / float64(due.chats*turns)
	t.put(shipped, row{what: fmt.Sprintf("folds of %d turns", turns), unit: "/s", figure: "fold_rate"}, rate)
	t.put(shipped, row{what: "CPU per folded turn, Postgres's and the program's", unit: "ms", target: atMost(.3), figure: "fold_cpu"}, used)
	t.put(shipped, row{what: "insert to start of a fold, p50", unit: "ms"}, p50)
	t.put(shipped, row{what: "insert to start of a fold, p95", unit: "ms", target: atMost(100)}, p95)
	t.note("index of recall included; vectors and topics of the folded turns are made beside and after it, and count as far as they go")
	return err
}

// enqueue has chats folded, as a saved reply does.
func (b *bench) enqueue(ctx context.Context, chats ...uuid.UUID) error {
	inserter, err := jobs.NewInserter(b.admin, quiet())
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, b.admin, func(tx pgx.Tx) (err error) {
		for _, id := range chats {
			err = errors.Join(err, jobs.EnqueueFold(inserter)(ctx, tx, id))
		}
		return err
	})
}

// dueTurns returns how many turns bring a chat over the threshold.
func dueTurns() int {
	perMessage := text.Tokens(strings.Join(ordinaryTexts(), " ")) / kit.Texts
	return memory.DefaultLimits().ChunkThreshold*21/20/(2*perMessage) + 1
}

// foldRate folds every due chat once, and returns how many a second, by River's own clock.
func (b *bench) foldRate(ctx context.Context, due batch) (float64, error) {
	var chats []uuid.UUID
	for n := range due.chats {
		chats = append(chats, kit.ID(due.kind, n))
	}
	if err := b.enqueue(ctx, chats...); err != nil {
		return 0, err
	}
	const again = 50 * time.Millisecond
	for {
		var done, lasted float64
		err := b.admin.QueryRow(ctx, `select count(*), coalesce(extract(epoch from max(finalized_at) - min(attempted_at)), 0)::float8 from river.river_job
			where kind = 'fold_brief' and state = 'completed' and metadata->'output'->>'result' = 'done'`).Scan(&done, &lasted)
		if err != nil {
			return 0, err
		}
		if int(done) == due.chats {
			return done / lasted, nil
		}
		if err := kit.Sleep(ctx, again); err != nil {
			return 0, fmt.Errorf("%d of %d folds are done: %w", int(done), due.chats, err)
		}
	}
}

// pickupTimes enqueues folds as a saved reply does, one after another, of chats that need none, and returns how long each
// waited for its worker, which is idle.
func (b *bench) pickupTimes(ctx context.Context) (p50, p95 float64, err error) {
	const longestPause = 60 * time.Millisecond
	count := b.of(100)
	for n := range count {
		if err := b.enqueue(ctx, b.unused(1)[0].id); err != nil {
			return 0, 0, err
		}
		if err := kit.Sleep(ctx, longestPause*time.Duration(n%7+1)/7); err != nil { // of different lengths, to match no period of the worker
			return 0, 0, err
		}
	}
	if err := kit.Sleep(ctx, time.Second); err != nil {
		return 0, 0, err
	}
	var began int
	err = b.admin.QueryRow(ctx, `select count(*), coalesce(percentile_disc(.5) within group (order by took), 0),
		       coalesce(percentile_disc(.95) within group (order by took), 0)
		from (select extract(epoch from attempted_at - created_at)::float8 * 1000 as took from river.river_job
		       where kind = 'fold_brief' and attempted_at is not null) started`).Scan(&began, &p50, &p95)
	if err == nil && began != count {
		err = fmt.Errorf("%d of %d folds began", began, count)
	}
	return p50, p95, err
}
