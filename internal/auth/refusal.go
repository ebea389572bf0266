package auth

// RefusalError says why a token was not accepted. It is the cause of the errors of Verify.
type RefusalError struct {
	// Reason is a stable word for the log.
	Reason string
	// Description is a sentence for the token's sender, in printable ASCII without quotes or backslashes (RFC 6750, 3).
	// It tells nothing that the sender cannot read in the token. "" where it would: how the check of a signature ended,
	// and how this server is configured.
	Description string
}

func (e *RefusalError) Error() string { return e.Reason }

// Each error that Verify returns has one of these in its chain.
var (
	errNoHeader    = &RefusalError{Reason: "no_header"}
	errNotBearer   = &RefusalError{"not_bearer", "The Authorization header must be the word Bearer, a space and the access token."}
	errAPIKey      = &RefusalError{"api_key", "This is an API key of the project, not the access token of a signed-in user."}
	errMalformed   = &RefusalError{"malformed", "This is not a well-formed JWT."}
	errAnonKey     = &RefusalError{"anon_key", "This is the project's anon key, not the access token of a signed-in user."}
	errServiceKey  = &RefusalError{"service_key", "This is the project's service_role key, not the access token of a signed-in user."}
	errRole        = &RefusalError{"wrong_role", "The token's role is not authenticated."}
	errAudience    = &RefusalError{"wrong_audience", "The token's aud does not contain authenticated."}
	errNoUser      = &RefusalError{"no_user", "The token's sub is not a user's uuid."}
	errIssuer      = &RefusalError{"wrong_issuer", "The token's iss is not this project: it must be SUPABASE_URL and /auth/v1."}
	errNoExpiry    = &RefusalError{"no_expiry", "The token has no exp."}
	errExpired     = &RefusalError{"expired", "The token has expired."}
	errNotYetValid = &RefusalError{"not_yet_valid", "The token's nbf or iat is in the future."}
	errUserGone    = &RefusalError{"user_not_found", "The account of this token does not exist."}
	errClaim       = &RefusalError{"bad_claim", "A claim of the token has a wrong type or value."}
	errHeader      = &RefusalError{"bad_header", "The token's header has a parameter that is not accepted."}

	errAlgorithm    = &RefusalError{Reason: "wrong_algorithm"}
	errUnknownKey   = &RefusalError{Reason: "unknown_key"}
	errSignature    = &RefusalError{Reason: "bad_signature"}
	errNoSecret     = &RefusalError{Reason: "no_secret_for_hs256"}
	errNoProject    = &RefusalError{Reason: "no_project_for_keys"}
	errOtherUser    = &RefusalError{Reason: "other_user"}
	errAuthServer   = &RefusalError{Reason: "refused_by_auth_server"}
	errNoKeys       = &RefusalError{Reason: "keys_unreachable"}
	errNoAuthServer = &RefusalError{Reason: "auth_server_unreachable"}
)
