package main

import (
	"context"
	"fmt"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc" //nolint:depguard // the floor is measured with the server's own way to act as a user
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/jackc/pgx/v5"
)

// measurePrompt times what a message waits for before the model can be asked, without the writes: read brief and
// buffer as the user, under RLS, in one round trip, and build the prompt.
func measurePrompt(ctx context.Context, e *environment) (group, error) {
	var turn int
	from := func(kind string, count int) conversation { turn++; return e.conversation(kind, turn%count) }
	short := func() conversation { return from(shortChat, min(e.samples, e.shortChats())) }
	bare := &arm{work: func(ctx context.Context) error { return e.selectByKey(ctx, short()) }}
	claimed := &arm{work: func(ctx context.Context) error { return e.selectAsUser(ctx, short()) }}
	ofShort := &arm{work: func(ctx context.Context) error { return e.readPrompt(ctx, short()) }}
	ofLong := &arm{work: func(ctx context.Context) error { return e.readPrompt(ctx, from(longChat, e.longChats)) }}
	if err := alternate(ctx, e.samples, bare, claimed, ofShort, ofLong); err != nil {
		return group{}, err
	}
	return promptRows(e, bare, claimed, ofShort, ofLong), nil
}

func promptRows(e *environment, bare, claimed, short, long *arm) group {
	g := group{Title: "memory read and built, as the user under RLS"}
	inLong := fmt.Sprintf("chat of %d turns", e.longTurns)
	for _, p := range []struct {
		name    string
		q       float64
		short   *target
		against *target
	}{{"p50", .5, atMost(1), ratioAtMost(1.2)}, {"p95", .95, atMost(2), nil}, {"p99", .99, atMost(5), nil}} {
		g.add(
			row{What: fmt.Sprintf("chat of %d turns, %s", shortTurns, p.name), Unit: "ms", Value: short.took.MS(p.q),
				Baseline: claimed.took.MS(p.q), Against: "one row, as user", Target: p.short},
			row{What: inLong + ", " + p.name, Unit: "ms", Value: long.took.MS(p.q),
				Baseline: short.took.MS(p.q), Against: fmt.Sprintf("chat of %d turns", shortTurns), Target: p.against},
		)
	}
	g.add(row{What: "one row by key, role and claims set, p50", Unit: "ms", Value: claimed.took.MS(.5), Baseline: bare.took.MS(.5), Against: "bare select by key"})
	return g
}

// selectByKey is the least cost of a read.
func (e *environment) selectByKey(ctx context.Context, c conversation) error {
	var content string
	return e.pool.QueryRow(ctx, "select content from public.messages where id = $1", c.message).Scan(&content)
}

// selectAsUser is the least cost of a read under RLS.
func (e *environment) selectAsUser(ctx context.Context, c conversation) error {
	var content string
	batch := &pgx.Batch{}
	batch.Queue(dbsqlc.ActAsUser, c.principal.Claims)
	batch.Queue("select content from public.messages where id = $1", c.message).QueryRow(func(row pgx.Row) error { return row.Scan(&content) })
	return e.pool.SendBatch(ctx, batch).Close()
}

// readPrompt reads what a prompt is built from as the server does, and builds it.
func (e *environment) readPrompt(ctx context.Context, c conversation) error {
	found, err := postgres.NewTurns(e.pool, memory.DefaultLimits(), postgres.Enqueue{}).ReadChat(ctx, c.principal, c.id)
	if err != nil {
		return err
	}
	if len(found.Buffer) < 2*shortTurns {
		return fmt.Errorf("read %d messages of chat %s, want at least %d", len(found.Buffer), c.id, 2*shortTurns)
	}
	prompt.Build(found.Chat, prompt.Question{Content: kit.Text(0)}, memory.DefaultLimits())
	return nil
}
