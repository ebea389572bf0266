// Package auth turns a Supabase access token into a Principal, without asking anybody where it can:
// ES256 and RS256 by the project's published key set (JWKS), HS256 by the project's JWT secret. Only
// an HS256 token without the secret at hand is put to the auth server, through Config.LookupUser.
//
// It knows neither HTTP handlers nor the database: whoever calls Verify writes the answer, and
// whoever opens a transaction hands Principal.Claims to Postgres, where RLS decides.
//
// It does not tell whether a session was ended before its token expires: an access token is good
// until its exp, as everywhere in Supabase.
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

// recommendedSecretBytes is the least that RFC 7518 (3.2) asks of an HS256 key.
const recommendedSecretBytes = 32

// Keys of log lines.
const (
	keyBytes       = "bytes"
	keyRecommended = "recommended_bytes"
	keyKeys        = "keys"
	keyError       = "error"
)

// Principal is who a request acts for.
type Principal struct {
	// UserID is the token's sub, never the nil uuid.
	UserID uuid.UUID
	// SessionID is the token's session_id, "" where it has none.
	SessionID string
	// IsAnonymous tells a user who signed in without an identity (Supabase anonymous sign-in).
	IsAnonymous bool
	// Claims is JSON for request.jwt.claims: what a policy may decide by (iss, sub, role, aud, exp,
	// session_id, is_anonymous, aal, client_id), encoded anew; never the token, never user_metadata.
	Claims string
}

// Config tells whose tokens are good. With neither ProjectURL nor JWTSecret nor LookupUser every
// token is refused.
type Config struct {
	// ProjectURL is the project's address (SUPABASE_URL), with or without a slash at its end. Empty:
	// no key set is fetched, ES256 and RS256 are refused and iss is not checked.
	ProjectURL string
	// JWTSecret is the project's legacy secret (SUPABASE_JWT_SECRET). Empty: an HS256 token goes to
	// LookupUser.
	JWTSecret []byte
	// LookupUser asks the auth server whose token this is; it is used for HS256 tokens without
	// JWTSecret, and nil refuses them. Its context ends after 5 s, not with the request, because
	// requests that bring the same token share one call. A *fault.Error with BadJWT or
	// SessionExpired is the server's answer about the token; any other error counts as "cannot be
	// asked now". A good answer is kept for a minute.
	LookupUser func(ctx context.Context, token string) (uuid.UUID, error)
	// HTTPClient fetches the key set. Defaults to a client on http.DefaultTransport.
	HTTPClient *http.Client
	// Logger gets a line per fetch of the key set. Defaults to none.
	Logger *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Verifier checks access tokens. It is safe for concurrent use and needs no closing: what it runs
// in the background ends by itself within 5 s.
type Verifier struct {
	issuer string
	secret []byte
	keys   *keyCache
	users  *userCache
	parser *jwt.Parser
	now    func() time.Time
}

// New makes a Verifier; nothing is fetched before the first token that needs it. It fails on a
// ProjectURL that is no http(s) address.
func New(cfg Config) (*Verifier, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	v := &Verifier{secret: cfg.JWTSecret, parser: jwt.NewParser(jwt.WithStrictDecoding()), now: cfg.Now}
	if cfg.ProjectURL != "" {
		base, err := authURL(cfg.ProjectURL)
		if err != nil {
			return nil, err
		}
		v.issuer = base
		v.keys = newKeyCache(base+"/.well-known/jwks.json", cfg)
	}
	if n := len(cfg.JWTSecret); n > 0 && n < recommendedSecretBytes {
		cfg.Logger.Warn("the JWT secret is short enough to be guessed", keyBytes, n, keyRecommended, recommendedSecretBytes)
	}
	if cfg.LookupUser != nil {
		v.users = newUserCache(cfg.LookupUser, cfg.Now)
	}
	return v, nil
}

// authURL is the address of the project's auth server, which is also the issuer of its tokens.
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

// Verify checks the value of an Authorization header. Its errors are *fault.Error:
// NoAuthorization for an empty header, SessionExpired for a token whose only fault is its age,
// BadJWT for everything else, and NotReady with RetryAfter when the token cannot be judged now
// because the project's auth server does not answer and nothing is cached.
func (v *Verifier) Verify(ctx context.Context, authorizationHeader string) (Principal, error) {
	if strings.TrimSpace(authorizationHeader) == "" {
		return Principal{}, fault.New(fault.NoAuthorization, "The request carries no access token.")
	}
	found, err := v.check(ctx, authorizationHeader)
	if err != nil {
		return Principal{}, refusal(err)
	}
	if found.expired(v.now()) {
		return Principal{}, fault.New(fault.SessionExpired, "The session has expired; refresh it and try again.")
	}
	return found.principal()
}

// check does everything but the expiry, which must be judged last: only a token that is good
// otherwise may be called expired. Claims come before the signature so that a token which could not
// pass anyway costs neither a fetch nor a lookup.
func (v *Verifier) check(ctx context.Context, header string) (claims, error) {
	raw, err := bearerToken(header)
	if err != nil {
		return claims{}, err
	}
	body := jwt.MapClaims{}
	token, _, err := v.parser.ParseUnverified(raw, body)
	if err != nil {
		return claims{}, err
	}
	if repeatsName(raw) {
		return claims{}, errors.New("a name stands twice in the token")
	}
	found, err := readClaims(body, v.issuer, v.now())
	if err != nil {
		return claims{}, err
	}
	return found, v.prove(ctx, token, found.user)
}

// refusal keeps a *fault.Error and makes BadJWT of the rest.
func refusal(err error) error {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known
	}
	return fault.Wrap(fault.BadJWT, "The access token is not valid.", err)
}
