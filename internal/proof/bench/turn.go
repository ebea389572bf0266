package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// turnStore is the server's store of turns and what its steps took.
type turnStore struct {
	*environment
	turns       *postgres.Turns
	start, save times
}

// measureTurn times the two transactions of a turn beside the least that would keep the same words.
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
		base := plain.took.ms(p.q)
		g.add(
			row{What: "start: 2 rows, memory read, " + p.name, Unit: "ms", Value: ordinary.start.ms(p.q), Baseline: base, Against: against},
			row{What: "save the reply, " + p.name, Unit: "ms", Value: ordinary.save.ms(p.q), Baseline: base, Against: against},
			row{What: "save the reply and enqueue, " + p.name, Unit: "ms", Value: folding.save.ms(p.q), Baseline: base, Against: against},
		)
	}
	g.add(row{What: "turns per second, 8 clients", Unit: "/s", Value: rate, Baseline: plainRate, Against: against})
	g.note("one transaction each, durable at its commit (fsync)")
	return g, e.clearJobs(ctx)
}

// turn is once, with its times kept. It is used by one goroutine.
func (s *turnStore) turn(ctx context.Context) error {
	start, save, err := s.once(ctx)
	s.start, s.save = append(s.start, start), append(s.save, save)
	return err
}

// once starts and saves a turn of a chat that nobody else uses.
func (s *turnStore) once(ctx context.Context) (start, save time.Duration, err error) {
	c := s.next()
	turn := chat.NewTurn{
		ChatID: c.id, UserMessageID: newID(), MessageID: newID(), Content: sampleText(1), ContentTokens: 60,
		ClientMessageID: newID(), Variant: "arco", Lease: 15 * time.Second,
	}
	began := time.Now()
	started, err := s.turns.StartTurn(ctx, c.principal, turn)
	if err != nil {
		return 0, 0, err
	}
	if !started.Started || len(started.Buffer) == 0 {
		return 0, 0, errors.New("the turn did not start, or found no memory")
	}
	start = time.Since(began)
	reply := chat.FinishedReply{
		ChatID: c.id, MessageID: turn.MessageID, Status: memory.StatusComplete, Content: strings.Repeat(sampleText(2)+" ", 3), Tokens: 180,
		Metadata: chat.ReplyMetadata{ModelVariant: "arco", Memory: &prompt.Receipt{TailTurns: 3}},
	}
	began = time.Now()
	saved, err := s.turns.SaveReply(ctx, c.principal, reply)
	if err == nil && !saved {
		err = errors.New("the reply was not saved")
	}
	return start, time.Since(began), err
}

// insertPlain keeps the same words in one transaction and in a table without anything.
func (e *environment) insertPlain(ctx context.Context) error {
	const insert = "insert into bench.plain (id, chat_id, content) values ($1, $2, $3)"
	batch := &pgx.Batch{}
	id := newID()
	batch.Queue(insert, newID(), id, sampleText(1))
	batch.Queue(insert, newID(), id, strings.Repeat(sampleText(2)+" ", 3))
	return e.pool.SendBatch(ctx, batch).Close()
}

func (e *environment) clearJobs(ctx context.Context) error {
	_, err := e.admin.Exec(ctx, "truncate river.river_job")
	return err
}

// newID makes ids as the server does.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
