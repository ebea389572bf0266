package api

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
)

// Accounts ends accounts.
type Accounts interface {
	// DeleteAccount deletes the user's login and all that is stored of them; again is no error. It returns a
	// fault.AccountDeletionUnavailable where the login cannot be deleted, and an UpstreamFailed where it was not: then nothing is erased.
	DeleteAccount(ctx context.Context, user auth.Principal) error
}
