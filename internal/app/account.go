package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/postgres/move"
	"github.com/arcoscribe/throughline/supabase"
)

// accounts ends accounts: the login first, because who signs in again would be shut out by the tombstone.
type accounts struct {
	*postgres.Accounts

	logins *supabase.Client // nil without SUPABASE_URL and SUPABASE_SECRET_KEY
}

var _ api.Accounts = accounts{}

// DeleteAccount implements api.Accounts.
func (a accounts) DeleteAccount(ctx context.Context, user auth.Principal) error {
	// Who was erased may ask again. The login of a user of another cell is not deleted here, where no rows would go with it.
	if err := a.Admit(ctx, user); err != nil && fault.CodeOf(err) != fault.UserNotFound {
		return err
	}
	switch {
	case !user.Home:
	case a.logins == nil:
		return fault.New(fault.AccountDeletionUnavailable, "The login cannot be deleted here, so nothing was: the server has no SUPABASE_SECRET_KEY.")
	default:
		if err := a.logins.DeleteUser(ctx, user.UserID); err != nil {
			return fault.Wrap(fault.UpstreamFailed, "The auth server did not delete the login, and nothing was erased; try again.", err)
		}
	}
	return a.Erase(context.WithoutCancel(ctx), user.UserID) // also for a client that has left
}

// logins returns a client of the project's auth server; nil where there is none, or no key.
func (a *App) logins() (*supabase.Client, error) {
	if a.config.SupabaseURL == "" || a.config.SupabaseSecretKey == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	client, err := supabase.NewClient(a.config.SupabaseURL, a.config.SupabaseSecretKey)
	if err != nil {
		return nil, fmt.Errorf("SUPABASE_SECRET_KEY: %w", err)
	}
	return client, nil
}

// Migrate applies the pending migrations and returns their names. It writes the list of issuers, and reports whether it was another.
func Migrate(ctx context.Context, cfg config.Config, logger *slog.Logger) (applied []string, listed bool, err error) {
	if applied, err = supabase.Migrate(ctx, cfg.DatabaseDirectURL, logger); err != nil {
		return applied, false, err
	}
	err = withAccounts(ctx, cfg, func(store *postgres.Accounts) error {
		listed, err = store.SetIssuers(ctx, issuers(cfg))
		return err
	})
	return applied, listed, err
}

// Erase deletes all that is stored of a user, but no login.
func Erase(ctx context.Context, cfg config.Config, user uuid.UUID) error {
	return withAccounts(ctx, cfg, func(store *postgres.Accounts) error { return store.Erase(ctx, user) })
}

func withAccounts(ctx context.Context, cfg config.Config, do func(*postgres.Accounts) error) error {
	pool, _, err := postgres.Open(ctx, cfg.DatabaseDirectURL, 1)
	if err != nil {
		return fmt.Errorf("DATABASE_DIRECT_URL: %w", err)
	}
	defer pool.Close()
	return do(&postgres.Accounts{Pool: pool})
}

// movingConns are for the transaction of a move, and for what is looked at beside it.
const movingConns = 2

// Move takes a user to the database of another cell.
func Move(ctx context.Context, cfg config.Config, to, cell string, user uuid.UUID, wait time.Duration) error {
	from, _, err := postgres.Open(ctx, cfg.DatabaseDirectURL, movingConns)
	if err != nil {
		return fmt.Errorf("DATABASE_DIRECT_URL: %w", err)
	}
	defer from.Close()
	there, _, err := postgres.Open(ctx, to, movingConns)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer there.Close()
	pending := func(ctx context.Context, pool *pgxpool.Pool) ([]string, error) { return supabase.Pending(ctx, pool) }
	return (&move.Move{From: from, To: there, User: user, Cell: cell, Wait: wait, Pending: pending}).Run(ctx)
}

func issuers(cfg config.Config) (names []string) {
	for _, issuer := range cfg.AuthIssuers {
		names = append(names, issuer.Name)
	}
	return names
}
