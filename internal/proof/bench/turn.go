package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/jobs"
)

// turnStore is the server's store of turns, with the times that its steps took.
type turnStore struct {
	*environment
	turns       *postgres.Turns
	start, save kit.Times
}

// measureTurn times the two transactions of a turn beside two plain inserts of the same text.
func measureTurn(ctx context.Context, e *environment) (group, error) {
	inserter, err := jobs.NewInserter(e.pool, quiet())
	if err != nil {
		return group{}, err
	}
	ordinary := &turnStore{environment: e, turns: postgres.NewTurns(e.pool, memory.DefaultLimits(), jobs.EnqueueFold(inserter))}
	eager := memory.DefaultLimits()
	eager.ChunkThreshold = 1 // every reply makes its chat due
	folding := &turnStore{environment: e, turns: postgres.NewTurns(e.pool, eager, jobs.EnqueueFold(inserter))}

	plain := &arm{work: e.insertPlain}
	whole, enqueuing := &arm{work: ordinary.turn}, &arm{work: folding.turn}
	if err := alternate(ctx, e.samples, plain, whole, enqueuing); err != nil {
		return group{}, err
	}
	plainRate, err := perSecond(ctx, e.window, e.insertPlain)
	if err != nil {
		return group{}, err
	}
	rate, err := perSecond(ctx, e.window, func(ctx context.Context) error { _, _, err := ordinary.once(ctx); return err })
	if err != nil {
		return group{}, err
	}
	g := group{Title: "the two transactions of a turn, as the user under RLS, with triggers"}
	const against = "2 plain inserts"
	for _, p := range []struct {
		name string
		q    float64
	}{{"p50", .5}, {"p95", .95}} {
		base := plain.took.MS(p.q)
		g.add(
			row{What: "start: 2 rows, memory read, " + p.name, Unit: "ms", Value: ordinary.start.MS(p.q), Baseline: base, Against: against},
			row{What: "save the reply, " + p.name, Unit: "ms", Value: ordinary.save.MS(p.q), Baseline: base, Against: against},
			row{What: "save the reply and enqueue, " + p.name, Unit: "ms", Value: folding.save.MS(p.q), Baseline: base, Against: against},
		)
	}
	g.add(row{What: "turns per second, 8 clients", Unit: "/s", Value: rate, Baseline: plainRate, Against: against})
	g.note("one transaction each, durable at its commit (fsync)")
	return g, e.clearJobs(ctx)
}

// turn is once and records the times. One goroutine uses it.
func (s *turnStore) turn(ctx context.Context) error {
	start, save, err := s.once(ctx)
	s.start, s.save = append(s.start, start), append(s.save, save)
	return err
}

// once starts and saves a turn of an unused chat.
func (s *turnStore) once(ctx context.Context) (start, save time.Duration, err error) {
	c := s.next()
	reply, start, err := kit.StartTurn(ctx, s.turns, c.principal, c.id, kit.Text(1))
	if err != nil {
		return 0, 0, err
	}
	save, err = kit.SaveReply(ctx, s.turns, c.principal, c.id, reply, plainReply())
	return start, save, err
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
