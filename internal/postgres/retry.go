package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// failed puts the action before an error; nil for nil.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// sqlState returns the SQLSTATE code of an error that Postgres sent; "" for other errors.
func sqlState(err error) string {
	if sent, ok := errors.AsType[*pgconn.PgError](err); ok {
		return sent.Code
	}
	return ""
}

// Waits between tries are short. They vary, so that two transactions that stopped each other do not meet again.
const (
	maxTries  = 4
	firstWait = 5 * time.Millisecond
)

// retry repeats work that failed because of another transaction or a lost connection, after growing waits. When
// Postgres restarts, a connection fails only when it is used: then the others in the pool are broken as well.
// If Postgres stays unreachable the error is fault.NotReady.
func retry(ctx context.Context, pool *pgxpool.Pool, work func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := work()
		lost := connectionLost(err)
		if lost {
			pool.Reset()
		}
		if try == maxTries || !lost && !lostRace(err) || !pause(ctx, wait+rand.N(wait)) { //nolint:gosec // spreads load, guards nothing
			return explained(err)
		}
		wait *= 4
	}
}

// pause waits, and reports whether the whole time passed before ctx ended.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// explained returns the fault that an error of Postgres means for the caller, if it means one: fault.NotReady if it is
// about the connection, if Postgres did not answer before a deadline, or if what is to be changed is being deleted. The deadline
// is always one of ours: a request has none.
func explained(err error) error {
	if connectionLost(err) || errors.Is(err, context.DeadlineExceeded) || sqlState(err) == pgerrcode.LockNotAvailable {
		return &fault.Error{Code: fault.NotReady, Message: "The database is not available. Try again in a moment.", RetryAfter: time.Second, Err: err}
	}
	sent, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	if message := notPrepared(sent); message != "" {
		return &fault.Error{Code: fault.NotReady, Message: message, RetryAfter: notPreparedRetry, Err: err}
	}
	return refused(sent, err)
}

// lostRace reports whether Postgres rolled the transaction back because of another one.
func lostRace(err error) bool {
	code := sqlState(err)
	return code == pgerrcode.DeadlockDetected || code == pgerrcode.SerializationFailure || code == pgerrcode.LockNotAvailable
}

// lost has what a server says that is gone, not there yet or no primary (any more, or yet), as itself or through a pooler. During
// a failover a pooler may not yet have the passwords, too.
var lost = map[string]bool{
	pgerrcode.AdminShutdown: true, pgerrcode.CrashShutdown: true, pgerrcode.CannotConnectNow: true, pgerrcode.IdleSessionTimeout: true,
	pgerrcode.ReadOnlySQLTransaction: true, pgerrcode.InvalidPassword: true,
}

// cutOff is how a pooler words an XX000 when its own connection to the server breaks.
var cutOff = regexp.MustCompile(`(?i)broken pipe|connection reset|unexpected end|end of (stream|file)|\bEOF\b`)

// connectionLost reports whether err is about the connection, and not about what was sent: the server shuts down, starts up, is
// no primary or cannot be reached. It is the one place that judges this.
func connectionLost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, unconnected := errors.AsType[*pgconn.ConnectError](err); unconnected {
		return true
	}
	if sent, ok := errors.AsType[*pgconn.PgError](err); ok {
		return lost[sent.Code] || pgerrcode.IsConnectionException(sent.Code) || sent.SeverityUnlocalized == "FATAL" ||
			sent.Code == pgerrcode.InternalError && cutOff.MatchString(sent.Message)
	}
	_, unreachable := errors.AsType[net.Error](err)
	return unreachable || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// The constraints that tie a chat, memories and usage to their account, and that to its login: there is none, or it is being deleted.
const (
	ownerOfChats    = "chats_user_id_fkey"
	ownerOfMemories = "memory_users_user_id_fkey"
	ownerOfUsage    = "usage_events_user_id_fkey"
	loginOfAccount  = "accounts_auth_id_fkey"
)

// messageDeleted is an SQLSTATE of our own, which throughline.place_message raises.
const messageDeleted = "TL004"

// These are others, which throughline.admit_user raises.
const (
	accountErased = "TL005"
	userMoving    = "TL006"
	wrongCell     = "TL007"
)

// replacedForNothing is another, which throughline.count_replaced raises: what was superseded stays on the path.
const replacedForNothing = "TL008"

// memoriesFull is what the database calls the limit of a user's memories.
const memoriesFull = "memories_full"

// refused returns the fault for a write that Postgres refused because its user does not exist or because of a rule that
// the app's owner wrote: a policy or a right (42501), an exception that a trigger raises, a check constraint. It returns
// any other error as it is. What we write ourselves breaks no check of ours, see history and bundle.
func refused(sent *pgconn.PgError, err error) error {
	switch sent.Code {
	case pgerrcode.ForeignKeyViolation:
		switch sent.ConstraintName {
		case ownerOfChats, ownerOfMemories, ownerOfUsage, loginOfAccount:
			return fault.NoUser(reason(sent))
		}
	case pgerrcode.InsufficientPrivilege:
		return fault.Forbidden(reason(sent))
	case quotaExceeded:
		return deniedTurn(sent.Detail)
	case accountErased:
		return fault.NoUser(reason(sent))
	case userMoving:
		return fault.UserMoving()
	case wrongCell:
		return fault.OtherCell(sent.Detail)
	case messageDeleted:
		return fault.New(fault.MessageNotFound, "This message was deleted, and is not stored again.")
	case pgerrcode.RaiseException:
		return forbidden(sent, "reason", sent.Message)
	case pgerrcode.CheckViolation:
		if sent.ConstraintName == memoriesFull {
			return fault.New(fault.MemoriesFull, "There are as many memories as a user may have, which is 10 000. Delete some first.")
		}
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

// allowed returns notAllowed if a row was not changed.
func allowed(changed bool, table string) error {
	if changed {
		return nil
	}
	return notAllowed(table)
}

// notAllowed is the fault for a row that the user sees and a policy keeps from being changed: then Postgres changes
// nothing and does not say why.
func notAllowed(table string) error {
	return fault.Forbidden(fmt.Errorf("a policy keeps the user from changing a row of %s", table))
}

// checkGone returns an error if a chat that could not be locked is there: a policy keeps the user from changing it.
func checkGone(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, chatID uuid.UUID) error {
	var state dbsqlc.ChatStateRow
	err := sendAs(ctx, pool, user, "look for chat", func(batch *pgx.Batch) {
		dbsqlc.ChatState.Read(batch, chatID, set(&state))
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
	aboutUs := strings.Contains(sent.Message, "throughline") // one of our roles, or the schema
	switch sent.Code {
	case pgerrcode.UndefinedTable, pgerrcode.UndefinedColumn, pgerrcode.UndefinedFunction, pgerrcode.UndefinedObject, pgerrcode.InvalidSchemaName:
		return MigrationsPending
	case pgerrcode.InvalidParameterValue: // by set_config('role', …) for a role that does not exist
		if aboutUs {
			return MigrationsPending
		}
	case pgerrcode.InsufficientPrivilege:
		if aboutUs {
			return RoleNotGranted
		}
	}
	return ""
}

// RolesNotGranted returns those of the roles that the connecting role is no member of.
func RolesNotGranted(ctx context.Context, pool *pgxpool.Pool, needed ...string) ([]string, error) {
	roles, err := dbsqlc.RolesNotGranted.One(ctx, pool, needed)
	return roles, failed("look at the roles", err)
}
