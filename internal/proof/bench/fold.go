package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/jobs"
)

// enqueue has chats folded, as a saved reply does.
type enqueue func(chats ...uuid.UUID) error

// measureFold counts folds per second with a model whose summary is ready, what a folded turn costs, and times jobs from
// insert to start.
func measureFold(ctx context.Context, f *fleet, g *group) error {
	g.title = "folds on River, a model that answers at once"
	if err := f.unfold(ctx); err != nil {
		return err
	}
	server, err := f.server(ctx, shipped, nil)
	if err != nil {
		return err
	}
	inserter, err := jobs.NewInserter(f.pool, quiet())
	if err != nil {
		return err
	}
	put := func(chats ...uuid.UUID) error {
		return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) (err error) {
			for _, id := range chats {
				err = errors.Join(err, jobs.EnqueueFold(inserter)(ctx, tx, id))
			}
			return err
		})
	}
	pickups, err := f.pickupTimes(ctx, put)
	if err != nil {
		return fmt.Errorf("pick-up: %w", err)
	}
	before, _, err := kit.UsageOfPostgres(ctx, f.admin)
	if err != nil {
		return err
	}
	used := kit.UsageOf(server.PID()).CPU
	rate, err := f.foldRate(ctx, put)
	if err != nil {
		return fmt.Errorf("folds: %w", err)
	}
	now, _, err := kit.UsageOfPostgres(ctx, f.admin)
	if err != nil {
		return err
	}
	used = kit.UsageOf(server.PID()).CPU - used + now.CPU - before.CPU
	turns := dueTurns() - memory.DefaultLimits().KRawTurns
	perTurn := kit.Milliseconds(used) / float64(f.folds*turns)
	g.add(
		row{what: fmt.Sprintf("folds of %d turns", turns), unit: "/s", values: []float64{rate}, figure: "fold_rate"},
		row{what: "CPU per folded turn, Postgres's and the program's", unit: "ms", values: []float64{perTurn}, target: atMost(.3), figure: "fold_cpu"},
		row{what: "insert to start of a fold, p50", unit: "ms", values: []float64{pickups.MS(.5)}},
		row{what: "insert to start of a fold, p95", unit: "ms", values: []float64{pickups.MS(.95)}, target: atMost(100)},
	)
	g.note("index of recall included; vectors and topics of the folded turns are made beside and after it, and count as far as they go")
	return f.settle(ctx)
}

// foldRate folds every due chat once, and returns how many a second, by River's own clock.
func (e *environment) foldRate(ctx context.Context, put enqueue) (float64, error) {
	chats := make([]uuid.UUID, e.folds)
	for n := range chats {
		chats[n] = kit.ID(dueChat, n)
	}
	if _, err := e.admin.Exec(ctx, becomeDue, e.folds); err != nil {
		return 0, err
	}
	if err := put(chats...); err != nil {
		return 0, err
	}
	const again = 50 * time.Millisecond
	for {
		var done, lasted float64
		err := e.admin.QueryRow(ctx, `select count(*), coalesce(extract(epoch from max(finalized_at) - min(attempted_at)), 0)::float8 from river.river_job
			where kind = 'fold_brief' and state = 'completed' and metadata->'output'->>'result' = 'done'`).Scan(&done, &lasted)
		if err != nil {
			return 0, err
		}
		if int(done) == e.folds {
			return done / lasted, nil
		}
		if err := kit.Sleep(ctx, again); err != nil {
			return 0, fmt.Errorf("%d of %d folds are done: %w", int(done), e.folds, err)
		}
	}
}

// pickupTimes enqueues folds as a saved reply does, one after another, of chats that need none, and returns how long each
// waited for its worker, which is idle.
func (e *environment) pickupTimes(ctx context.Context, put enqueue) (kit.Times, error) {
	const longestPause = 60 * time.Millisecond
	for n := range e.pickups {
		if err := put(e.unused(1)[0].id); err != nil {
			return nil, err
		}
		if err := kit.Sleep(ctx, longestPause*time.Duration(n%7+1)/7); err != nil { // of different lengths, to match no period of the worker
			return nil, err
		}
	}
	if err := kit.Sleep(ctx, time.Second); err != nil {
		return nil, err
	}
	rows, err := e.admin.Query(ctx, `select (extract(epoch from attempted_at - created_at) * 1e9)::int8 from river.river_job
		where kind = 'fold_brief' and attempted_at is not null`)
	if err != nil {
		return nil, err
	}
	took, err := pgx.CollectRows(rows, pgx.RowTo[time.Duration])
	if err == nil && len(took) != e.pickups {
		err = fmt.Errorf("%d of %d folds began", len(took), e.pickups)
	}
	return took, err
}

// unfold resets the due chats to the state after fill. Nothing looks due yet, or a server would fold them at once.
func (e *environment) unfold(ctx context.Context) error {
	if err := e.settle(ctx); err != nil {
		return err
	}
	for _, statement := range []string{
		"delete from public.conversation_brief_revisions where chat_id in " + due,
		"delete from public.turn_index where chat_id in " + due,
		"delete from public.topics where chat_id in " + due,
		`update public.conversation_briefs set brief = default, brief_tokens = 0, version = 0, covered_seq = 0, indexed_seq = 0, to_index = false,
			stale = false, lease_token = null, lease_until = null, pending_tokens = 0, pending_turns = 0 where chat_id in ` + due,
	} {
		if _, err := e.admin.Exec(ctx, statement, e.folds); err != nil {
			return err
		}
	}
	return nil
}

const (
	due       = "(select md5('" + dueChat + "-' || n)::uuid from generate_series(0, $1::int - 1) n)"
	becomeDue = `update public.conversation_briefs b
		set pending_tokens = (select sum(m.token_count) from public.messages m where m.chat_id = b.chat_id),
		    pending_turns = (select count(*) from public.messages m where m.chat_id = b.chat_id and m.role = 'user') where b.chat_id in ` + due
)
