// Package inspect prints a chat's memory for a person at a terminal: the brief, the chunk buffer and its distance from
// the next fold, the revisions with the sentences that were added and removed, the receipts of the latest replies, and the
// memories of its user that were said in it.
// It reads the views of the schema inspect and changes nothing. The scripts in sql/inspect show the same views in psql,
// in more detail.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// How many of each kind a report shows, the latest first.
const (
	latestChats     = 20
	latestRevisions = 10
	latestReplies   = 5
	mostMemories    = 30
)

// Print writes the report on a chat, or with chatID "" a list of the latest chats. dsn is of a role
// that may read them, such as postgres; limits are the server's, for the distance from the next fold.
// It fails with fault.BadUUID or fault.ChatNotFound when chatID names no chat.
func Print(ctx context.Context, w io.Writer, dsn, chatID string, limits memory.Limits) error {
	if chatID != "" && (uuid.Validate(chatID) != nil || len(chatID) != 36) {
		return fault.New(fault.BadUUID, fmt.Sprintf("%q is not the id of a chat.", chatID))
	}
	conn, err := Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var report page
	// One snapshot, so that the parts of the report agree with each other.
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if chatID == "" {
			return writeChats(ctx, tx, &report)
		}
		return writeChat(ctx, tx, &report, chatID, limits)
	})
	if sent, ok := errors.AsType[*pgconn.PgError](err); ok && (sent.Code == undefinedTable || sent.Code == undefinedColumn) {
		return fault.Wrap(fault.MigrationsPending, "Migrations are pending: run `throughline migrate`.", err)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, report.String())
	return err
}

// What Postgres answers where the views are missing, or older than this program.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
)

// Connect opens a connection, also through a transaction pooler.
func Connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	config, err := pgxpool.ParseConfig(dsn) // which removes the parameters of a pool
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	// A parameter for clients. Postgres would refuse the connection because of it.
	delete(config.ConnConfig.RuntimeParams, "pgbouncer")
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connecting to inspect: %w", err)
	}
	return conn, nil
}

func writeChats(ctx context.Context, tx pgx.Tx, p *page) error {
	chats, err := readAll[chatRow](ctx, tx, selectChats, latestChats)
	if err != nil {
		return err
	}
	if len(chats) == 0 {
		p.line("There are no chats yet.")
		return nil
	}
	p.chats(chats)
	return nil
}

func writeChat(ctx context.Context, tx pgx.Tx, p *page, chatID string, limits memory.Limits) error {
	briefs, err := readAll[briefRow](ctx, tx, selectBrief, chatID)
	if err != nil {
		return err
	}
	if len(briefs) == 0 {
		return fault.New(fault.ChatNotFound, fmt.Sprintf("There is no chat %s.", chatID))
	}
	jobs, err := readAll[jobRow](ctx, tx, selectJob, chatID)
	if err != nil {
		return err
	}
	revisions, err := readAll[revisionRow](ctx, tx, selectRevisions, chatID, latestRevisions)
	if err != nil {
		return err
	}
	replies, err := readAll[replyRow](ctx, tx, selectReplies, chatID, latestReplies)
	if err != nil {
		return err
	}
	memories, err := readAll[memoryRow](ctx, tx, selectMemories, chatID, mostMemories)
	if err != nil {
		return err
	}
	unread, err := readAll[unreadRow](ctx, tx, selectUnread, chatID)
	if err != nil {
		return err
	}
	p.brief(chatID, briefs[0])
	p.buffer(briefs[0], jobs, limits)
	p.revisions(revisions)
	p.replies(replies)
	p.memories(memories, unread)
	return nil
}

func readAll[Row any](ctx context.Context, tx pgx.Tx, query string, args ...any) ([]Row, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("inspecting: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Row])
	if err != nil {
		return nil, fmt.Errorf("inspecting: %w", err)
	}
	return found, nil
}
