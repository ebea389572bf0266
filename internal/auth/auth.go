// Package auth turns an access token of Supabase Auth, or of another issuer that is listed, into a Principal. It checks tokens
// locally: ES256 and RS256 with the issuer's published key set (JWKS), HS256 with the project's JWT secret. Only HS256 tokens
// without that secret are sent to the auth server, through Settings.LookupUser.
//
// It knows neither HTTP handlers nor the database: the caller of Verify writes the response and passes
// Principal.Claims to Postgres, where RLS decides.
//
// It does not notice when a session ends before its token expires: an access token is valid until its exp,
// as everywhere in Supabase.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// leeway is how far the clocks of the auth server and this machine may disagree about exp, nbf and iat.
const leeway = 30 * time.Second

// recommendedSecretBytes is the least length that RFC 7518 (3.2) asks of an HS256 key.
const recommendedSecretBytes = 32

// Principal is the user that a request acts for.
type Principal struct {
	// UserID is the token's sub or, of an issuer that is not Supabase Auth, made of it; never the nil uuid.
	UserID uuid.UUID
	// Home is whether the token is of the project itself: its own auth server, or its secret.
	Home bool
	// ClientID is the OAuth client that the user gave the token to, such as an assistant; "" for a session of the user's own.
	ClientID string
	// Cell is where the request is served.
	Cell Cell
	// Begun is whether this is part of a reply that has begun: it goes on while its user waits to be moved.
	Begun bool
	// Claims is JSON for request.jwt.claims: all claims as they were signed. It names the user and may hold their e-mail
	// address and user_metadata, so it is never logged.
	Claims string `json:"-"`
	// Token is the access token as it came, for what acts for the user elsewhere; "" where there was none. It is neither stored nor logged.
	Token string `json:"-"`
}

// String names the user alone.
func (p Principal) String() string { return p.UserID.String() }

// Cell is one of several complete installations that have different users; the zero value where there is only one.
type Cell struct {
	Name string
	// AdmitsNew is whether users begin here whose token names no cell.
	AdmitsNew bool
}

// Settings decide which tokens are accepted. With none of ProjectURL, JWTSecret, LookupUser and Issuers every token
// is refused.
type Settings struct {
	// ProjectURL is the project's address (SUPABASE_URL), with or without a slash at its end. Empty:
	// no key set is fetched, ES256 and RS256 are refused and iss is not checked.
	ProjectURL string
	// JWTSecret is the project's legacy secret (SUPABASE_JWT_SECRET). Empty: an HS256 token goes to
	// LookupUser.
	JWTSecret []byte
	// LookupUser asks the auth server for a token's user. It is called for HS256 tokens if JWTSecret is empty;
	// nil refuses those. Requests with the same token share one call, so its context ends after 5 s and not
	// with the request. A *fault.Error with BadJWT, SessionExpired or UserNotFound is the server's verdict on the
	// token; any other error means that the server cannot be asked now. A user is cached for a minute.
	LookupUser func(ctx context.Context, token string) (uuid.UUID, error)
	// Issuers are let in beside the project's.
	Issuers []Issuer
	// Cell is that of each Principal.
	Cell Cell
	// HTTPClient fetches the key sets. Defaults to a client on http.DefaultTransport.
	HTTPClient *http.Client
	// Logger receives a line per fetch of the key set. Defaults to none.
	Logger *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Verifier checks access tokens. It is safe for concurrent use.
type Verifier struct {
	home   *source // its Name is "" where any is allowed
	listed map[string]*source
	cell   Cell
	secret []byte
	users  *userCache
	parser *jwt.Parser
	now    func() time.Time
}

// New returns a Verifier. Nothing is fetched before the first token that needs it; from then on the key set is renewed until
// ctx ends. It fails if ProjectURL is not an http(s) address.
func New(ctx context.Context, settings Settings) (*Verifier, error) {
	if settings.Now == nil {
		settings.Now = time.Now
	}
	if settings.Logger == nil {
		settings.Logger = slog.New(slog.DiscardHandler)
	}
	v := &Verifier{
		cell: settings.Cell, secret: settings.JWTSecret, parser: jwt.NewParser(jwt.WithStrictDecoding()), now: settings.Now,
	}
	var err error
	if v.home, v.listed, err = sources(ctx, settings); err != nil {
		return nil, err
	}
	if n := len(settings.JWTSecret); n > 0 && n < recommendedSecretBytes {
		settings.Logger.Warn("the JWT secret is short enough to be guessed", "bytes", n, "recommended_bytes", recommendedSecretBytes)
	}
	if settings.LookupUser != nil {
		v.users = newUserCache(settings.LookupUser, settings.Now)
	}
	return v, nil
}

// Issuer is the address of the project's auth server; "" without Settings.ProjectURL.
func (v *Verifier) Issuer() string { return v.home.Name }

// Ready fails while tokens of the project can be neither accepted nor refused, because its key set was never fetched. With a
// secret of its own the server needs none at the start. Other issuers do not count: their users alone have to wait.
func (v *Verifier) Ready(ctx context.Context) error {
	if v.home.keys == nil || len(v.secret) > 0 {
		return nil
	}
	return v.home.keys.loaded(ctx)
}

// A client reads one sentence per code, for every reason.
const (
	invalidToken = "The access token is not valid."
	expiredToken = "The session has expired; refresh it and try again."
)

// Verify checks the value of an Authorization header. Its errors are *fault.Error: NoAuthorization for an empty
// header, SessionExpired for a token that is valid except for its age, NotReady with RetryAfter when the token
// cannot be checked because its issuer does not answer and nothing is cached, UserNotFound when that
// server says so, and BadJWT for everything else. Their chains have a *RefusalError with the reason.
func (v *Verifier) Verify(ctx context.Context, authorizationHeader string) (Principal, error) {
	if strings.TrimSpace(authorizationHeader) == "" {
		return Principal{}, fault.Wrap(fault.NoAuthorization, "The request carries no access token.", errNoHeader)
	}
	found, err := v.check(ctx, authorizationHeader)
	if err != nil {
		return Principal{}, refusal(err)
	}
	if found.expired(v.now()) {
		return Principal{}, fault.Wrap(fault.SessionExpired, expiredToken, errExpired)
	}
	token, _ := bearerToken(authorizationHeader) // which check has read
	return Principal{UserID: found.UserID, Home: found.Home, ClientID: found.ClientID, Cell: v.cell, Claims: found.JSON, Token: token}, nil
}

// check checks everything except the expiry, which comes last: only a token that is valid otherwise may be
// called expired. Claims are checked before the signature, so that a token which could not pass anyway costs
// neither a fetch nor a lookup.
func (v *Verifier) check(ctx context.Context, header string) (claims, error) {
	raw, err := bearerToken(header)
	if err != nil {
		return claims{}, err
	}
	body := jwt.MapClaims{}
	token, _, err := v.parser.ParseUnverified(raw, body)
	if err != nil {
		return claims{}, fmt.Errorf("%w: %w", unreadable(err), err)
	}
	if hasRepeatedNames(raw) {
		return claims{}, fmt.Errorf("%w: a name stands twice in the token", errMalformed)
	}
	from := v.home
	if issuer, _ := body["iss"].(string); v.listed[issuer] != nil {
		from = v.listed[issuer]
	}
	found, err := readClaims(body, raw, from, v.now())
	if err != nil {
		return claims{}, err
	}
	return found, v.verifySignature(ctx, token, from, found.UserID)
}

// unreadable returns the reason for which the library could not read a token.
func unreadable(err error) *RefusalError {
	if errors.Is(err, jwt.ErrTokenUnverifiable) {
		return errAlgorithm // which the library does not have
	}
	return errMalformed
}

// refusal returns a *fault.Error as it is and any other error as BadJWT.
func refusal(err error) error {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known
	}
	return fault.Wrap(fault.BadJWT, invalidToken, err)
}

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
	errAudience    = &RefusalError{"wrong_audience", "The token's aud does not contain authenticated, or what is asked of its issuer."}
	errNoUser      = &RefusalError{"no_user", "The token's sub is not a user's uuid."}
	errForeignUser = &RefusalError{"no_user", "The token's sub is not a text of 1 to 255 characters."}
	errIssuer      = &RefusalError{"wrong_issuer", "The token's iss is not this project, SUPABASE_URL and /auth/v1, nor one of AUTH_ISSUERS."}
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
