package postgres

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Isolated reports whether a transaction that names a user keeps that user to its end, whatever pooler is before Postgres. An error
// says that Postgres did not answer, or is not prepared, so that nothing is known.
func Isolated(ctx context.Context, pool *pgxpool.Pool) (bool, error) {
	user := uuid.New()
	claims := `{"sub":"` + user.String() + `","role":"authenticated"}`
	var first, second dbsqlc.LookIsolatedRow
	err := send(ctx, pool, func(batch *pgx.Batch) {
		queueActAs(batch, auth.Principal{Claims: claims})
		dbsqlc.LookIsolated.Read(batch, struct{}{}, set(&first))
		dbsqlc.LookIsolated.Read(batch, struct{}{}, set(&second))
	})
	if fault.CodeOf(err) == fault.NotReady || err != nil && ctx.Err() != nil {
		return false, failed("look at the isolation", err)
	}
	want := dbsqlc.LookIsolatedRow{Role: "throughline_app", Claims: claims, Sub: user.String(), Transaction: first.Transaction}
	return err == nil && first == want && second == want, nil // a statement that was sent as another role may fail
}

// BypassesPolicies reports whether the pool's connections see all rows without naming a user, as those of the tables' owner do.
func BypassesPolicies(ctx context.Context, pool *pgxpool.Pool) (bool, error) {
	bypasses, err := try(ctx, pool, dbsqlc.BypassesPolicies.One, struct{}{})
	return bypasses, failed("look at the connection's role", err)
}
