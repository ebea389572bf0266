// Package authserver is a stand-in for Supabase Auth with its OAuth 2.1 server, for tests. It answers at the addresses
// and in the shapes of supabase/auth, as they were read in its source (internal/api/oauthserver), signs with ES256, and
// is stricter where that finds mistakes of clients: PKCE only with S256, and one resource only, if it is told which.
//
// It knows users by password, sessions, clients that register themselves, consent, codes that work once, and refresh
// tokens that rotate. Everything is in memory.
package authserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// ConsentPath is where the consent page is, below the site's address.
const ConsentPath = "/app/oauth/consent"

// keyID names the one key.
const keyID = "stand-in"

// tokenLife is how long access tokens live; codeLife is a code's.
const (
	tokenLife = time.Hour
	codeLife  = 10 * time.Minute
)

// scopes are those of supabase/auth; any other is refused.
var scopes = []string{"openid", "email", "profile", "phone"}

// Server is a project's auth server.
type Server struct {
	// URL is the project's address, SUPABASE_URL.
	URL string
	// Key is the key that signs.
	Key *ecdsa.PrivateKey

	mu             sync.Mutex
	site           string
	resource       string
	users          map[string]user // by e-mail
	clients        map[string]client
	authorizations map[string]*authorization
	consents       map[consent][]string // granted scopes
	sessions       map[string]*session  // by refresh token, spent ones too
}

type user struct {
	id              uuid.UUID
	email, password string
}

type client struct {
	ID              string   `json:"client_id"`
	Secret          string   `json:"client_secret,omitempty"`
	Type            string   `json:"client_type"`
	RedirectURIs    []string `json:"redirect_uris"`
	TokenAuthMethod string   `json:"token_endpoint_auth_method"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	Name            string   `json:"client_name,omitempty"`
	URI             string   `json:"client_uri,omitempty"`
	LogoURI         string   `json:"logo_uri,omitempty"`
	Registration    string   `json:"registration_type"`
}

// authorization is one request of a client for a user's consent.
type authorization struct {
	id, state, resource, challenge, scope, redirect string
	client                                          client
	user                                            uuid.UUID // Nil until somebody opened it
	status                                          string    // pending, approved, denied
	code                                            string
	expires                                         time.Time
}

type consent struct {
	user   uuid.UUID
	client string
}

// session is one sign-in, the user's own or a client's.
type session struct {
	id     string
	user   user
	client string
	scope  string
	spent  bool // this refresh token was used
	ended  *bool
}

// New starts an auth server until the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Key: key, users: map[string]user{}, clients: map[string]client{}, authorizations: map[string]*authorization{},
		consents: map[consent][]string{}, sessions: map[string]*session{},
	}
	running := httptest.NewServer(s.routes())
	t.Cleanup(running.Close)
	s.URL = running.URL
	return s
}

// Serve names the site whose page asks for consent, and the one resource that clients may ask for; "" for any.
func (s *Server) Serve(site, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.site, s.resource = strings.TrimRight(site, "/"), resource
}

// AddUser adds a user who signs in with a password.
func (s *Server) AddUser(id uuid.UUID, email, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[email] = user{id, email, password}
}

// SignIn returns an access token of a new session of that user's own.
func (s *Server) SignIn(email string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sign(s.claims(&session{id: uuid.NewString(), user: s.users[email]}))
}

// Sign signs a token with claims changed from those of a client's good one; nil removes a claim.
func (s *Server) Sign(email, clientID string, changes map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := s.claims(&session{id: uuid.NewString(), user: s.users[email], client: clientID, scope: "email"})
	for name, value := range changes {
		body[name] = value
		if value == nil {
			delete(body, name)
		}
	}
	return s.sign(body)
}

// claims are those of an access token. The resource is not among them: supabase/auth does not bind tokens to it.
func (s *Server) claims(of *session) jwt.MapClaims {
	now := time.Now()
	body := jwt.MapClaims{
		"iss": s.issuer(), "sub": of.user.id.String(), "aud": "authenticated", "role": "authenticated", "iat": now.Unix(), "exp": now.Add(tokenLife).Unix(),
		"email": of.user.email, "phone": "", "app_metadata": map[string]any{}, "user_metadata": map[string]any{},
		"session_id": of.id, "is_anonymous": false, "aal": "aal1", "amr": []map[string]any{{"method": "password", "timestamp": now.Unix()}},
	}
	if of.client != "" {
		body["client_id"], body["scope"] = of.client, of.scope
	}
	return body
}

func (s *Server) issuer() string { return s.URL + "/auth/v1" }

func (s *Server) sign(body jwt.MapClaims) string {
	token := jwt.NewWithClaims(jwt.SigningMethodES256, body)
	token.Header["kid"] = keyID
	signed, err := token.SignedString(s.Key)
	if err != nil {
		panic(err)
	}
	return signed
}

// routes are the addresses of Supabase: the auth server's own below /auth/v1, and the one that RFC 8414 asks for.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{
		"/.well-known/oauth-authorization-server/auth/v1", "/auth/v1/.well-known/oauth-authorization-server", "/auth/v1/.well-known/openid-configuration",
	} {
		mux.HandleFunc("GET "+path, s.getMetadata)
	}
	mux.HandleFunc("GET /auth/v1/.well-known/jwks.json", s.getKeys)
	mux.HandleFunc("POST /auth/v1/oauth/clients/register", s.register)
	mux.HandleFunc("GET /auth/v1/oauth/authorize", s.authorize)
	mux.HandleFunc("GET /auth/v1/oauth/authorizations/{id}", s.getAuthorization)
	mux.HandleFunc("POST /auth/v1/oauth/authorizations/{id}/consent", s.decide)
	mux.HandleFunc("POST /auth/v1/oauth/token", s.oauthToken)
	mux.HandleFunc("GET /auth/v1/user/oauth/grants", s.getGrants)
	mux.HandleFunc("DELETE /auth/v1/user/oauth/grants", s.revokeGrant)
	mux.HandleFunc("POST /auth/v1/token", s.token)
	mux.HandleFunc("GET /auth/v1/user", s.getUser)
	mux.HandleFunc("POST /auth/v1/logout", s.logout)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allowPages(w, r)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		mux.ServeHTTP(w, r)
	})
}

// allowPages lets pages of any origin ask, as Supabase's gateway does.
func allowPages(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
}

func (s *Server) getMetadata(w http.ResponseWriter, _ *http.Request) {
	issuer := s.issuer()
	answer(w, http.StatusOK, map[string]any{
		"issuer": issuer, "authorization_endpoint": issuer + "/oauth/authorize", "token_endpoint": issuer + "/oauth/token",
		"jwks_uri": issuer + "/.well-known/jwks.json", "userinfo_endpoint": issuer + "/oauth/userinfo", "registration_endpoint": issuer + "/oauth/clients/register",
		"scopes_supported": scopes, "response_types_supported": []string{"code"}, "response_modes_supported": []string{"query"},
		"grant_types_supported": []string{"authorization_code", "refresh_token"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "ES256"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post", "none"},
		"code_challenge_methods_supported":      []string{"S256", "plain"},
	})
}

func (s *Server) getKeys(w http.ResponseWriter, _ *http.Request) {
	point, err := s.Key.PublicKey.Bytes()
	if err != nil {
		panic(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	answer(w, http.StatusOK, map[string]any{"keys": []map[string]any{{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "key_ops": []string{"verify"}, "kid": keyID, "x": text(point[1:33]), "y": text(point[33:]),
	}}})
}

// token signs a user in, or goes on with a session of the user's own.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Email, Password string
		RefreshToken    string `json:"refresh_token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		refuse(w, http.StatusBadRequest, "bad_json", "Could not parse request body as JSON")
		return
	}
	switch r.URL.Query().Get("grant_type") {
	case "password":
		known, ok := s.users[asked.Email]
		if !ok || known.password != asked.Password {
			refuse(w, http.StatusBadRequest, "invalid_credentials", "Invalid login credentials")
			return
		}
		answer(w, http.StatusOK, s.grant(&session{id: uuid.NewString(), user: known, ended: new(bool)}))
	case "refresh_token":
		going := s.refresh(asked.RefreshToken, "")
		if going == nil {
			refuse(w, http.StatusBadRequest, "refresh_token_not_found", "Invalid Refresh Token: Refresh Token Not Found")
			return
		}
		answer(w, http.StatusOK, s.grant(going))
	default:
		refuse(w, http.StatusBadRequest, "invalid_credentials", "unsupported_grant_type")
	}
}

// refresh spends a refresh token. A spent one that comes again ends the session, for it may have been stolen.
func (s *Server) refresh(token, clientID string) *session {
	found := s.sessions[token]
	if found == nil || *found.ended || found.client != clientID {
		return nil
	}
	if found.spent {
		*found.ended = true
		return nil
	}
	found.spent = true
	next := *found
	next.spent = false
	return &next
}

// grant is the answer with a session's tokens.
func (s *Server) grant(to *session) map[string]any {
	refresh := rand.Text()
	s.sessions[refresh] = to
	granted := map[string]any{
		"access_token": s.sign(s.claims(to)), "token_type": "bearer", "expires_in": int(tokenLife.Seconds()), "refresh_token": refresh,
	}
	if to.client == "" { // clients are not told who the user is
		granted["expires_at"], granted["user"] = time.Now().Add(tokenLife).Unix(), userAnswer(to.user)
	}
	return granted
}

func userAnswer(of user) map[string]any {
	return map[string]any{
		"id": of.id, "aud": "authenticated", "role": "authenticated", "email": of.email, "app_metadata": map[string]any{}, "user_metadata": map[string]any{},
		"created_at": time.Now().UTC().Format(time.RFC3339),
	}
}

func (s *Server) getUser(w http.ResponseWriter, r *http.Request) {
	if of, ok := s.caller(w, r); ok {
		answer(w, http.StatusOK, userAnswer(of))
	}
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.caller(w, r); ok {
		w.WriteHeader(http.StatusNoContent)
	}
}

// caller is the user whose session the request carries.
func (s *Server) caller(w http.ResponseWriter, r *http.Request) (user, bool) {
	raw, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	body := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(raw, body, func(*jwt.Token) (any, error) { return &s.Key.PublicKey, nil },
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(s.issuer()), jwt.WithAudience("authenticated"))
	email, _ := body["email"].(string)
	known, ok := s.users[email]
	if err != nil || !ok {
		refuse(w, http.StatusForbidden, "bad_jwt", "invalid JWT")
		return user{}, false
	}
	return known, true
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone need not know
}

// refuse answers as supabase/auth does (apierrors.HTTPError).
func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]any{"code": status, "error_code": code, "msg": message})
}

// refuseOAuth answers as RFC 6749, 5.2 says (apierrors.OAuthError).
func refuseOAuth(w http.ResponseWriter, code, description string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code, "error_description": description})
}

func covers(granted, asked []string) bool {
	return !slices.ContainsFunc(asked, func(scope string) bool { return !slices.Contains(granted, scope) })
}
