package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

func accountRoutes() []route {
	return []route{{method: http.MethodDelete, path: "/v1/account", id: "deleteAccount", endpoint: jsonEndpoint((*Server).deleteAccount)}}
}

// deleteAccount is for users alone: no assistant may end an account, also where it may use the whole API.
func (s *Server) deleteAccount(ctx context.Context, user auth.Principal, _ uuid.UUID, _ none) (none, error) {
	if user.ClientID != "" {
		return none{}, fault.New(fault.ForbiddenClient, "This token was given to an OAuth client, which may not delete an account.")
	}
	return none{}, s.config.Accounts.DeleteAccount(ctx, user)
}
