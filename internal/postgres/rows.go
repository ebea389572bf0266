package postgres

import (
	"context"
	"errors"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const uniqueViolation = "23505"

func isUniqueViolation(err error) bool {
	violation, ok := errors.AsType[*pgconn.PgError](err)
	return ok && violation.Code == uniqueViolation
}

// inTx runs work in a transaction: committed when it returns nil, rolled back otherwise.
func inTx(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, work)
}

// each reads a batch result row by row into the struct that sqlc made for its query.
func each[Row any](take func(Row)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
		for _, row := range found {
			take(row)
		}
		return err
	}
}

// nullable gives the nil uuid as SQL's null.
func nullable(id uuid.UUID) uuid.NullUUID {
	return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil}
}

func message(row dbsqlc.ReadRangeRow) memory.Message {
	return memory.Message{
		ID: row.ID, ReplyTo: row.ReplyTo, Seq: row.Seq, Role: memory.Role(row.Role), Status: memory.Status(row.Status),
		Content: row.Content, Tokens: row.TokenCount, CreatedAt: row.CreatedAt,
	}
}

func brief(row dbsqlc.LockAndReadBriefRow) memory.Brief {
	return memory.Brief{
		Summary: row.GlobalSummary, Tokens: row.BriefTokens, Version: row.Version, CoveredSeq: row.CoveredSeq,
		LastSummarizedMessageID: row.LastSummarizedMessageID, Stale: row.Stale,
	}
}
