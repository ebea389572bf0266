// Package auth turns a Supabase access token into a Principal. It checks tokens locally: ES256 and RS256
// with the project's published key set (JWKS), HS256 with the project's JWT secret. Only HS256 tokens without
// that secret are sent to the auth server, through Settings.LookupUser.
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
	"net/url"
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
	// UserID is the token's sub, never the nil uuid.
	UserID uuid.UUID
	// ClientID is the OAuth client that the user gave the token to, such as an assistant; "" for a session of the user's own.
	ClientID string
	// Claims is JSON for request.jwt.claims: all claims as they were signed. It names the user and may hold their e-mail
	// address and user_metadata, so it is never logged.
	Claims string
}

// Settings decide which tokens are accepted. With none of ProjectURL, JWTSecret and LookupUser every token is
// refused.
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
	// HTTPClient fetches the key set. Defaults to a client on http.DefaultTransport.
	HTTPClient *http.Client
	// Logger receives a line per fetch of the key set. Defaults to none.
	Logger *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Verifier checks access tokens. It is safe for concurrent use.
type Verifier struct {
	issuer string // of all tokens; "" allows any
	secret []byte
	keys   *keySet
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
		secret: settings.JWTSecret, parser: jwt.NewParser(jwt.WithStrictDecoding()), now: settings.Now,
	}
	if settings.ProjectURL != "" {
		base, err := authURL(settings.ProjectURL)
		if err != nil {
			return nil, err
		}
		v.issuer = base
		v.keys = newKeySet(ctx, base+"/.well-known/jwks.json", settings)
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
func (v *Verifier) Issuer() string { return v.issuer }

// Ready fails while tokens can be neither accepted nor refused, because the key set was never fetched. With a secret of its own
// the server needs none at the start.
func (v *Verifier) Ready(ctx context.Context) error {
	if v.keys == nil || len(v.secret) > 0 {
		return nil
	}
	return v.keys.loaded(ctx)
}

// authURL returns the address of a project's auth server, which is also the issuer of its tokens.
func authURL(project string) (string, error) {
	u, err := url.Parse(project)
	if err != nil {
		return "", fmt.Errorf("project URL: %w", err)
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("project URL: want http(s)://host, without a user, query or fragment")
	}
	return strings.TrimRight(project, "/") + "/auth/v1", nil
}

// A client reads one sentence per code, for every reason.
const (
	invalidToken = "The access token is not valid."
	expiredToken = "The session has expired; refresh it and try again."
)

// Verify checks the value of an Authorization header. Its errors are *fault.Error: NoAuthorization for an empty
// header, SessionExpired for a token that is valid except for its age, NotReady with RetryAfter when the token
// cannot be checked because the project's auth server does not answer and nothing is cached, UserNotFound when that
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
	return Principal{UserID: found.UserID, ClientID: found.ClientID, Claims: found.JSON}, nil
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
	found, err := readClaims(body, raw, v.issuer, v.now())
	if err != nil {
		return claims{}, err
	}
	return found, v.verifySignature(ctx, token, found.UserID)
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
