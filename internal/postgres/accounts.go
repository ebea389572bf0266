package postgres

import (
	"context"
	"slices"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/postgres/query"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Accounts finds and erases accounts, and keeps the list of issuers whose users have one without a row in auth.users.
type Accounts struct{ Pool *pgxpool.Pool }

// Admit returns why a user is not served here, as each transaction that names the user does.
func (a *Accounts) Admit(ctx context.Context, user auth.Principal) error {
	return sendAs(ctx, a.Pool, user, "looking for an account", func(*pgx.Batch) {})
}

// Erase deletes all rows of a user in one transaction and leaves a tombstone, also of one who is not known or was erased before.
func (a *Accounts) Erase(ctx context.Context, user uuid.UUID) error {
	_, err := try(ctx, a.Pool, func(ctx context.Context, db query.DB, id uuid.UUID) (struct{}, error) {
		return struct{}{}, dbsqlc.EraseAccount.Run(ctx, db, id)
	}, user)
	return failed("erasing an account", err)
}

// SameIssuers reports whether the list has these issuers and no others.
func (a *Accounts) SameIssuers(ctx context.Context, issuers []string) (bool, error) {
	listed, err := try(ctx, a.Pool, dbsqlc.ListedIssuers.One, struct{}{})
	return slices.Equal(listed, slices.Sorted(slices.Values(issuers))), failed("reading the list of issuers", err)
}

// SetIssuers makes the list equal to issuers, and reports whether it was another one.
func (a *Accounts) SetIssuers(ctx context.Context, issuers []string) (changed bool, err error) {
	lines, err := try(ctx, a.Pool, dbsqlc.ListIssuers.One, append([]string{}, issuers...))
	return lines > 0, failed("writing the list of issuers", err)
}
