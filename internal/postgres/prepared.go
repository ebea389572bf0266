package postgres

import (
	"context"
	"strings"
	"time"

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

// notPrepared returns what to tell a client if a statement of ours names what the database does not have, because
// migrations are pending, or acts as a role that was not granted; else "". An error in a function or trigger, which may be
// the app's own, has a place and is none of these.
func notPrepared(sent *pgconn.PgError) string {
	if sent.Where != "" {
		return ""
	}
	aboutOurRole := strings.Contains(sent.Message, "throughline_")
	switch sent.Code {
	case undefinedTable, undefinedColumn, undefinedFunction, undefinedObject, invalidSchema:
		return MigrationsPending
	case invalidParameter:
		if aboutOurRole {
			return MigrationsPending
		}
	case insufficientRights:
		if aboutOurRole {
			return RoleNotGranted
		}
	}
	return ""
}

// RolesNotGranted returns the roles that statements act as and that the connecting role is no member of.
func RolesNotGranted(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	roles, err := dbsqlc.New(pool).RolesNotGranted(ctx)
	return roles, failed("look at the roles", err)
}
