package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The constraints that tie a chat, and what is remembered, to their user: the only foreign keys to auth.users.
const (
	ownerOfChats    = "chats_user_id_fkey"
	ownerOfMemories = "memory_users_user_id_fkey"
)

// refused returns the fault for a write that Postgres refused because its user does not exist or because of a rule that
// the app's owner wrote: a policy or a right (42501), an exception that a trigger raises, a check constraint. It returns
// any other error as it is. What we write ourselves breaks no check of ours, see history and bundle.
func refused(sent *pgconn.PgError, err error) error {
	switch sent.Code {
	case foreignKeyViolation:
		if sent.ConstraintName == ownerOfChats || sent.ConstraintName == ownerOfMemories {
			return fault.NoUser(reason(sent))
		}
	case insufficientRights:
		return fault.Forbidden(reason(sent))
	case raisedException:
		return forbidden(sent, "reason", sent.Message)
	case checkViolation:
		if sent.ConstraintName != "" {
			return forbidden(sent, "constraint", sent.ConstraintName)
		}
	}
	return err
}

func forbidden(sent *pgconn.PgError, detail, value string) error {
	failure := fault.Forbidden(reason(sent))
	failure.Details = map[string]any{detail: value}
	return failure
}

// notAllowed is the fault for a row that the user sees and a policy keeps from being changed: then Postgres changes
// nothing and does not say why.
func notAllowed(table string) error {
	return fault.Forbidden(fmt.Errorf("a policy keeps the user from changing a row of %s", table))
}

// checkGone returns an error if a chat that could not be locked is there: a policy keeps the user from changing it.
func checkGone(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, chatID uuid.UUID) error {
	var state chatState
	err := sendAs(ctx, pool, user, "look for chat", func(batch *pgx.Batch) {
		queueExec(batch, queries.ChatState, chatID).Query(one(&state))
	})
	if err == nil && state.ID != uuid.Nil {
		return notAllowed("chats")
	}
	return err
}

// reason is what the log may say of an error. The sentences of Postgres' own checks name policies, tables and constraints;
// one that a function raises may quote the row, so only the function is named.
func reason(sent *pgconn.PgError) error {
	switch sent.File {
	case "execMain.c", "aclchk.c", "ri_triggers.c":
		return fmt.Errorf("%s (SQLSTATE %s)", sent.Message, sent.Code)
	}
	for frame := range strings.SplitSeq(sent.Where, "\n") {
		if strings.HasPrefix(frame, "PL/pgSQL function ") {
			return fmt.Errorf("raised by %s (SQLSTATE %s)", frame, sent.Code)
		}
	}
	return fmt.Errorf("SQLSTATE %s", sent.Code)
}

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
