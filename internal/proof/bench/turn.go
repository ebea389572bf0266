package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/jobs"
)

// turnTimes are how long the two transactions of turns took.
type turnTimes struct{ start, save kit.Times }

// measureTurn times the two transactions of a turn beside two plain inserts of the same text.
func measureTurn(ctx context.Context, e *environment) (group, error) {
	inserter, err := jobs.NewInserter(e.pool, quiet())
	if err != nil {
		return group{}, err
	}
	limits := memory.DefaultLimits()
	ordinary := postgres.NewTurns(e.pool, limits, postgres.Enqueue{Fold: jobs.EnqueueFold(inserter)})
	limits.ChunkThreshold = 1 // every reply makes its chat due
	folding := postgres.NewTurns(e.pool, limits, postgres.Enqueue{Fold: jobs.EnqueueFold(inserter)})

	var took, due turnTimes
	plain := &arm{work: e.insertPlain}
	whole := &arm{work: func(ctx context.Context) error { return e.turn(ctx, ordinary, &took) }}
	enqueuing := &arm{work: func(ctx context.Context) error { return e.turn(ctx, folding, &due) }}
	if err := alternate(ctx, e.samples, plain, whole, enqueuing); err != nil {
		return group{}, err
	}
	short, long, err := e.unfoldedStarts(ctx, ordinary)
	if err != nil {
		return group{}, err
	}
	plainRate, err := perSecond(ctx, e.window, e.insertPlain)
	if err != nil {
		return group{}, err
	}
	rate, err := perSecond(ctx, e.window, func(ctx context.Context) error { return e.turn(ctx, ordinary, &turnTimes{}) })
	if err != nil {
		return group{}, err
	}
	g := group{Title: "the two transactions of a turn, as the user under RLS, with triggers"}
	const against = "2 plain inserts"
	for _, p := range []struct {
		name   string
		q      float64
		target *target
	}{{"p50", .5, ratioAtMost(3)}, {"p95", .95, nil}} {
		base := plain.took.MS(p.q)
		g.add(
			row{What: "start: 2 rows, memory read, " + p.name, Unit: "ms", Value: took.start.MS(p.q), Baseline: base, Against: against, Target: p.target},
			row{What: "save the reply, " + p.name, Unit: "ms", Value: took.save.MS(p.q), Baseline: base, Against: against, Target: p.target},
			row{What: "save the reply and enqueue, " + p.name, Unit: "ms", Value: due.save.MS(p.q), Baseline: base, Against: against},
		)
	}
	g.add(
		row{What: fmt.Sprintf("start after %d unfolded turns, p50", e.longTurns), Unit: "ms", Value: long.MS(.5),
			Baseline: short.MS(.5), Against: fmt.Sprintf("after %d", shortTurns), Target: ratioAtMost(1.2)},
		row{What: "turns per second, 8 clients", Unit: "/s", Value: rate, Baseline: plainRate, Against: against, Target: atLeast(1200)},
	)
	g.note("one transaction each, durable at its commit (fsync)")
	return g, e.clearJobs(ctx)
}

// unfoldedStarts times starts of turns in chats of shortTurns turns, and in one of longTurns that no fold has reached.
func (e *environment) unfoldedStarts(ctx context.Context, store *postgres.Turns) (short, long kit.Times, err error) {
	var few, many turnTimes
	behind := e.conversation(unfoldedChat, 0)
	err = alternate(ctx, e.samples/unfoldedShare,
		&arm{work: func(ctx context.Context) error { return e.turn(ctx, store, &few) }},
		&arm{work: func(ctx context.Context) error { return e.turnOf(ctx, behind, store, &many) }})
	return few.start, many.start, err
}

// unfoldedShare is which part of the repetitions is timed of long unfolded chats: they grow with each.
const unfoldedShare = 5

// turn starts and saves a turn of an unused chat.
func (e *environment) turn(ctx context.Context, store *postgres.Turns, took *turnTimes) error {
	return e.turnOf(ctx, e.next(), store, took)
}

// turnOf starts and saves a turn of a chat.
func (e *environment) turnOf(ctx context.Context, c conversation, store *postgres.Turns, took *turnTimes) error {
	reply, start, err := kit.StartTurn(ctx, store, c.principal, c.id, kit.Text(1))
	if err != nil {
		return err
	}
	save, err := kit.SaveReply(ctx, store, c.principal, c.id, reply, plainReply())
	took.start, took.save = append(took.start, start), append(took.save, save)
	return err
}

func plainReply() string { return strings.Repeat(kit.Text(2)+" ", 3) }

// insertPlain stores the same text in one transaction, in a table without indexes, triggers or policies.
func (e *environment) insertPlain(ctx context.Context) error {
	const insert = "insert into bench.plain (id, chat_id, content) values ($1, $2, $3)"
	batch := &pgx.Batch{}
	id := kit.NewID()
	batch.Queue(insert, kit.NewID(), id, kit.Text(1))
	batch.Queue(insert, kit.NewID(), id, plainReply())
	return e.pool.SendBatch(ctx, batch).Close()
}

func (e *environment) clearJobs(ctx context.Context) error {
	_, err := e.admin.Exec(ctx, "truncate river.river_job")
	return err
}
