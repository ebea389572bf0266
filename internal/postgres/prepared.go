package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What a client is told while the database is not prepared, and also /readyz.
const (
	MigrationsPending = "Migrations are pending: run `throughline migrate`."
	RoleNotGranted    = "The role that the server connects as is not a member of the roles that it acts as: see docs/operations.md, Postgres."
)

// notPreparedRetry is long for a client and short for an operator who runs migrations.
const notPreparedRetry = 5 * time.Second

// orNotPrepared returns fault.NotReady if a statement of ours names what the database does not have, because migrations
// are pending, or acts as a role that was not granted. An error in a function or trigger, which may be the app's own,
// has a place and is none of these.
func orNotPrepared(err error) error {
	sent, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || sent.Where != "" {
		return err
	}
	aboutOurRole := strings.Contains(sent.Message, "throughline_")
	message := ""
	switch sent.Code {
	case undefinedTable, undefinedColumn, undefinedFunction, undefinedObject, invalidSchema:
		message = MigrationsPending
	case invalidParameter:
		if aboutOurRole {
			message = MigrationsPending
		}
	case insufficientRights:
		if aboutOurRole {
			message = RoleNotGranted
		}
	}
	if message == "" {
		return err
	}
	return &fault.Error{Code: fault.NotReady, Message: message, RetryAfter: notPreparedRetry, Err: err}
}

// RolesNotGranted returns the roles that statements act as and that the connecting role is no member of.
func RolesNotGranted(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	roles, err := dbsqlc.New(pool).RolesNotGranted(ctx)
	return roles, failed("look at the roles", err)
}
