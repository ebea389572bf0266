package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// The first turn on a new connection costs Postgres ten times what a later one does: it loads what it knows of tables,
// policies and triggers, and parses and plans every statement. When many turns begin at once, the pool would open a
// connection for each, and all would wait for that. So a pool for turns keeps some connections open, each has run the
// statements of a turn before it is used, and turns leave the rest of the pool to what must not wait for them: readers, the
// recorder, leases, jobs.

// keptOpen is how many connections a pool for turns keeps open.
func keptOpen(maxConns int32) int32 { return max(1, maxConns/3) }

// turnsAtOnce is how many transactions of turns run at once in a pool: more than one user may have streams, so that the
// turns of one whose chat is locked do not keep the others waiting.
func turnsAtOnce(maxConns int32) int32 { return max(1, maxConns/2) }

const (
	// Postgres plans a statement for its values five times before it may keep one plan for all values.
	runsUntilPlanned = 6
	// Through a transaction pooler no plan is kept. One run tells pgx the types of the parameters.
	runsUntilDescribed = 1
	// warmTimeout bounds the runs, and longestWarmStatement each statement: less, so that the connection survives if
	// somebody has locked a table.
	warmTimeout          = 5 * time.Second
	longestWarmStatement = "500" // milliseconds
)

// keepWarm makes a pool warm the connections that it keeps open. One that a request waits for is not: it may be for
// something else.
func keepWarm(config *pgxpool.Config, transactionPooler bool) {
	if config.MaxConnLifetimeJitter == 0 {
		config.MaxConnLifetimeJitter = config.MaxConnLifetime / 2 // opened together, they would be replaced together
	}
	runs := runsUntilPlanned
	if transactionPooler {
		runs = runsUntilDescribed
	}
	connected := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		err := connected(ctx, conn)
		// Only what pgxpool does in the background has a deadline: see pgxpool.Config.MinConns.
		if _, background := ctx.Deadline(); err != nil || !background {
			return err
		}
		return warm(ctx, conn, runs)
	}
}

// warm makes a connection warm, unless Postgres refuses: tables may be locked, or not migrated yet. Then the connection is as
// good as any other.
func warm(ctx context.Context, conn *pgx.Conn, runs int) error {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	err := runTurnsOfNobody(ctx, conn, runs)
	if sqlState(err) != "" {
		return nil
	}
	return failed("warm up", err)
}

// runTurnsOfNobody runs the statements of turns of a user and a chat that do not exist, and rolls them back.
func runTurnsOfNobody(ctx context.Context, conn *pgx.Conn, runs int) error {
	begin := &pgx.Batch{}
	begin.BeginTx(pgx.TxOptions{}) // in a batch, as a save does
	queueExec(begin, queries.LimitStatements, longestWarmStatement)
	sent := conn.SendBatch(ctx, begin)
	tx := sent.Tx()
	defer func() { _ = tx.Rollback(ctx) }() // a connection that fails here is closed
	if err := sent.Close(); err != nil {
		return err
	}
	for range runs {
		batch := &pgx.Batch{}
		queueTurnOfNobody(batch)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
	}
	return nil
}

func queueTurnOfNobody(batch *pgx.Batch) {
	queueExec(batch, queries.ActAsUser, `{"sub":"00000000-0000-0000-0000-000000000000","role":"authenticated"}`)
	start := &turnStart{userMetadata: emptyObject, replyMetadata: emptyObject, turn: chat.NewTurn{
		ChatID: uuid.New(), UserMessageID: uuid.New(), MessageID: uuid.New(), ClientMessageID: uuid.New(),
	}}
	start.fill(batch)
	queue(batch, queries.SaveReply, dbsqlc.SaveReplyParams{ID: uuid.New(), Metadata: emptyObject})
	queueOne(batch, queries.ReadCounters, dbsqlc.ReadCountersParams{ChatID: uuid.New()}, func(dbsqlc.ReadCountersRow) {})
	queueActAsServer(batch)
}

var emptyObject = []byte("{}")
