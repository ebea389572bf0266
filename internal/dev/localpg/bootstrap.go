package localpg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// bootstrapLock lets two processes bootstrap one database after each other instead of both at once.
const bootstrapLock = "select pg_advisory_xact_lock(5432215);\n"

// Bootstrap runs a script that may run again, all of it or nothing, in the database that dsn names
// as a superuser.
func Bootstrap(ctx context.Context, dsn, script string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting to bootstrap: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// Statements sent together are one transaction.
	if _, err := conn.PgConn().Exec(ctx, bootstrapLock+script).ReadAll(); err != nil {
		return fmt.Errorf("bootstrapping the database: %w", err)
	}
	return nil
}
