package main

import (
	"context"
	_ "embed"
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
	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/arcoscribe/throughline/streaming"
)

// measureCost counts what a turn costs, with all the jobs that it makes due: the CPU time of the program, of Postgres and
// of the embedder, and the bytes written ahead. All builds and settings run in one go, each on a Postgres of its own, and
// have their turns alternately, in every second round in the other order: how busy the machine is falls on all alike.
func measureCost(ctx context.Context, b *bench, t *table) {
	builds := b.builds(ctx, b.of(12), b.against)
	t.columns = nil
	for _, one := range builds {
		t.columns = append(t.columns, one.name)
	}
	turns := b.of(36)
	for round := range 1 + turns {
		for i := range builds {
			one := builds[(i+round)%len(builds)]
			one.round(ctx, round)
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

// build is a build of the program with some settings, in a system of its own.
type build struct {
	*bench
	name   string
	system *people.System
	server endpoint
	chats  []chat
	spent  spent
}

// builds starts the program as shipped and stripped, and as another checkout has it; "" for none.
func (b *bench) builds(ctx context.Context, chats int, against string) (all []*build) {
	for _, name := range []string{shipped, stripped} {
		all = append(all, b.startBuild(ctx, name, b.source, chats))
	}
	if against != "" {
		all = append(all, b.startBuild(ctx, filepath.Base(against), against, chats))
	}
	return all
}

func (b *bench) startBuild(ctx context.Context, name, source string, chats int) *build {
	defer kit.In("%s", name)
	one := &build{bench: b, name: name, system: b.startSystem(ctx, people.Plan{Source: source, NoVector: name == stripped, Postgres: map[string]string{
		"shared_buffers": "128MB", "max_wal_size": "4GB", "checkpoint_timeout": "1h", "max_connections": "200",
	}})}
	one.server = b.serve(ctx, one.system, name, nil)
	for range chats {
		user, token, err := kit.NewUser(ctx, one.system.Admin)
		kit.Check(err)
		c := chat{newID(), token}
		kit.Must(one.system.Admin.Exec(ctx, "insert into public.chats (id, user_id) values ($1, $2)", c.id, user))
		one.chats = append(one.chats, c)
	}
	return one
}

func (b *build) usage(ctx context.Context) spent {
	all, wal, err := kit.UsageOfPostgres(ctx, b.system.Admin)
	kit.Check(err)
	server, embedder := kit.UsageOf(b.server.PID()).CPU, time.Duration(0)
	if b.system.Embedder != nil {
		embedder = kit.UsageOf(b.system.Embedder.PID()).CPU
	}
	return spent{
		kit.Milliseconds(server), kit.Milliseconds(all.CPU), kit.Milliseconds(embedder),
		kit.Milliseconds(server + all.CPU + embedder), float64(wal) / 1e3,
	}
}

// round lets everyone have a turn, waits for the jobs that it makes due, and adds up what all that used.
func (b *build) round(ctx context.Context, n int) {
	defer kit.In("%s, turn %d", b.name, n+1)
	before := b.usage(ctx)
	kit.Check(evenly(ctx, len(b.chats), 0, func(ctx context.Context, i int) {
		var r reply
		said := fmt.Sprintf("%s %s That was lesson %d.", facts[(n+i)%len(facts)], textOf((n+i)%textCount), n+i+1)
		kit.Check(r.receive(ctx, b.server, fresh, b.server.asks(b.chats[i], said), toTheEnd))
		if r.end != streaming.EventCompleted {
			kit.Fail("a reply ended with %s", r.end)
		}
	}))
	b.jobsDone(ctx)
	for i, now := range b.usage(ctx) {
		b.spent[i] += now - before[i]
	}
}

// jobsDone waits. It rarely asks, because Postgres's answers count as well: while the embedder works, every 5 ms was 16 times a turn.
func (b *build) jobsDone(ctx context.Context) {
	const pause = 100 * time.Millisecond
	for left := 1; left > 0; kit.Check(kit.Sleep(ctx, pause)) {
		const open = "select count(*) from river.river_job where state in ('available', 'running', 'retryable')"
		kit.Check(b.system.Admin.QueryRow(ctx, open).Scan(&left))
	}
}

// facts are what people say of themselves now and then, so that there is something to remember.
var facts = []string{
	"I live in Lindau now.", "My dog is called Bruno.", "I am allergic to walnuts.", "My sister works as a nurse.", "I play the cello.",
	"What did I tell you about my dog?", "I do not eat meat.", "My teacher is called Ilse.", "Where do I live?", "I was born in 1984.",
}

const memoryTurns = 500

// measureMemory drives one chat from its first turn to its last and adds up what each prompt remembered. A person takes
// longer to write than jobs take; here they are waited for.
func measureMemory(ctx context.Context, b *bench, t *table) {
	builds := b.builds(ctx, 1, "")
	kit.Check(evenly(ctx, len(builds), 0, func(ctx context.Context, i int) { // no time is measured
		for n := range b.of(memoryTurns) {
			builds[i].round(ctx, n)
		}
	}))
	for _, one := range builds {
		one.remember(ctx, t)
	}
}

//go:embed remembered.sql
var remembered string

// remember puts what the prompts of the only chat had.
func (b *build) remember(ctx context.Context, t *table) {
	var tokens, history, folds, dropped, growth float64
	kit.Check(b.system.Admin.QueryRow(ctx, remembered).Scan(&tokens, &history, &folds, &dropped, &growth))
	t.put(b.name, row{what: fmt.Sprintf("memory at turn %d", b.of(memoryTurns)), unit: "tokens", figure: "memory_tokens"}, tokens)
	t.put(b.name, row{what: "the whole history before it", unit: "tokens", figure: "history_tokens"}, history)
	grown := "memory of the last turns from one fold to the next, to the first"
	t.put(b.name, row{what: grown, unit: "×", figure: "memory_growth", target: atMost(1.1)}, growth)
	t.put(b.name, row{what: "turns that were in neither brief nor prompt", target: atMost(0)}, dropped)
	if b.name == shipped {
		t.note("memory: brief, turns word for word, and as shipped recalled turns and the user's memories; %.0f folds", folds)
	}
}

// measureFold counts folds a second with a model whose summary is ready, and what a turn of one costs, and times pick-ups.
func measureFold(ctx context.Context, b *bench, t *table) {
	server := b.server(ctx, shipped)
	p50, p95 := b.pickupTimes(ctx)
	// Each run has chats of its own, and writes them when it needs them: a server would fold them at once.
	b.folded++
	due := batch{kind: fmt.Sprintf("due%d", b.folded), chats: b.of(600), turns: dueTurns(), texts: ordinaryTexts()}
	b.inBulk(ctx, func(conn *pgxpool.Conn) { due.insert(ctx, conn, b.users()) })
	one := &build{bench: b, system: b.system, server: server}
	before := one.usage(ctx)
	rate, now := b.foldRate(ctx, due), one.usage(ctx)
	turns := dueTurns() - memory.DefaultLimits().KRawTurns
	used := (now[0] - before[0] + now[1] - before[1]) / float64(due.chats*turns)
	t.put(shipped, row{what: fmt.Sprintf("folds of %d turns", turns), unit: "/s", figure: "fold_rate"}, rate)
	t.put(shipped, row{what: "CPU per folded turn, Postgres's and the program's", unit: "ms", target: atMost(.3), figure: "fold_cpu"}, used)
	t.put(shipped, row{what: "insert to start of a fold, p50", unit: "ms"}, p50)
	t.put(shipped, row{what: "insert to start of a fold, p95", unit: "ms", target: atMost(100)}, p95)
	t.note("index of recall included; vectors and topics of the folded turns are made beside and after it, and count as far as they go")
}

// enqueue has chats folded, as a saved reply does.
func (b *bench) enqueue(ctx context.Context, chats ...uuid.UUID) {
	insert := jobs.Insert(kit.Must(jobs.NewInserter(b.admin, quiet())))
	kit.Check(pgx.BeginFunc(ctx, b.admin, func(tx pgx.Tx) (err error) {
		for _, id := range chats {
			err = errors.Join(err, insert(ctx, tx, work.Job{Name: work.FoldBrief, ChatID: id}))
		}
		return err
	}))
}

// dueTurns returns how many turns bring a chat over the threshold.
func dueTurns() int {
	perMessage := text.Tokens(strings.Join(ordinaryTexts(), " ")) / textCount
	return memory.DefaultLimits().ChunkThreshold*21/20/(2*perMessage) + 1
}

// foldRate folds every due chat once, and returns how many a second, by River's own clock.
func (b *bench) foldRate(ctx context.Context, due batch) float64 {
	var chats []uuid.UUID
	for n := range due.chats {
		chats = append(chats, idOf(due.kind, n))
	}
	b.enqueue(ctx, chats...)
	const again = 50 * time.Millisecond
	var done, lasted float64
	for ; int(done) < due.chats; kit.Check(kit.Sleep(ctx, again)) {
		kit.Check(b.admin.QueryRow(ctx, `
			select count(*), coalesce(extract(epoch from max(finalized_at) - min(attempted_at)), 0)::float8 from river.river_job
			 where kind = 'fold_brief' and state = 'completed' and metadata->'output'->>'result' = 'done'`).Scan(&done, &lasted))
	}
	return done / lasted
}

// pickupTimes enqueues one fold after another of chats that need none, and returns how long they waited for an idle worker.
func (b *bench) pickupTimes(ctx context.Context) (p50, p95 float64) {
	const longestPause = 60 * time.Millisecond
	count := b.of(100)
	for n := range count {
		b.enqueue(ctx, b.unused(1)[0].id)
		kit.Check(kit.Sleep(ctx, longestPause*time.Duration(n%7+1)/7)) // of different lengths, to match no period of the worker
	}
	kit.Check(kit.Sleep(ctx, time.Second))
	var began int
	kit.Check(b.admin.QueryRow(ctx, `select count(*), coalesce(percentile_disc(.5) within group (order by took), 0),
		       coalesce(percentile_disc(.95) within group (order by took), 0)
		from (select extract(epoch from attempted_at - created_at)::float8 * 1000 as took from river.river_job
		       where kind = 'fold_brief' and attempted_at is not null) started`).Scan(&began, &p50, &p95))
	if began != count {
		kit.Fail("%d of %d folds began", began, count)
	}
	return p50, p95
}
