// Package authserver is a stand-in for Supabase Auth with its OAuth 2.1 server, for tests. It answers at the addresses
// and in the shapes of supabase/auth, as they were read in its source (internal/api/oauthserver), signs with ES256, and
// is stricter where that finds mistakes of clients: PKCE only with S256, and one resource only.
//
// It knows users by password, public clients that register themselves, consent, codes that work once, and refresh
// tokens that work once. Everything is in memory. It has no confidential clients, and nothing that renews a user's own session.
package authserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

const keyID = "stand-in"

const tokenLife = time.Hour

// Server is a project's auth server.
type Server struct {
	// URL is the project's address, SUPABASE_URL.
	URL string

	key            *ecdsa.PrivateKey
	mu             sync.Mutex // guards what follows
	site           string
	resource       string
	users          map[string]user // by e-mail
	clients        map[string]client
	authorizations map[string]*authorization
	consents       map[consent]time.Time
	sessions       map[string]session // of clients, by the refresh token that is good
	remove         func(uuid.UUID) error
}

type user struct {
	id              uuid.UUID
	email, password string
}

// session is one sign-in, the user's own where client is empty.
type session struct {
	user   user
	client string
}

// New starts an auth server until the test ends.
func New(t testing.TB) *Server {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // chance never fails
	s := &Server{
		key: key, users: map[string]user{}, clients: map[string]client{}, authorizations: map[string]*authorization{},
		consents: map[consent]time.Time{}, sessions: map[string]session{},
	}
	running := httptest.NewServer(s.routes())
	t.Cleanup(running.Close)
	s.URL = running.URL
	return s
}

// Serve names the site whose page asks for consent, and the one resource that clients may ask for.
func (s *Server) Serve(site, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.site, s.resource = site, resource
}

// AddUser adds a user who signs in with a password.
func (s *Server) AddUser(id uuid.UUID, email, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[email] = user{id, email, password}
}

// DeleteWith lets the project's secret key delete logins: remove takes them out of the database.
func (s *Server) DeleteWith(remove func(uuid.UUID) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove = remove
}

// SecretKey is the one that may delete logins.
const SecretKey = "sb_secret_of_the_stand-in"

// deleteLogin is for the secret key alone.
func (s *Server) deleteLogin(w http.ResponseWriter, r *http.Request) {
	email := ""
	for name, known := range s.users {
		if known.id.String() == r.PathValue("id") {
			email = name
		}
	}
	switch {
	case r.Header.Get("Apikey") != SecretKey || r.Header.Get("Authorization") != "Bearer "+SecretKey:
		refuse(w, http.StatusForbidden, "not_admin", "User not allowed")
	case email == "":
		refuse(w, http.StatusNotFound, "user_not_found", "User not found")
	case s.remove(s.users[email].id) != nil:
		refuse(w, http.StatusInternalServerError, "unexpected_failure", "Database error deleting user")
	default:
		delete(s.users, email)
		answer(w, http.StatusOK, map[string]any{})
	}
}

// SignIn returns an access token of a new session of that user's own.
func (s *Server) SignIn(email string) string { return s.Sign(email, "", nil) }

// Sign signs a token of a client, or the user's own for "", with claims changed from those of a good one.
func (s *Server) Sign(email, clientID string, changes map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sign(session{s.users[email], clientID}, changes)
}

// sign makes an access token. The resource is not among its claims: supabase/auth does not bind tokens to it.
func (s *Server) sign(of session, changes map[string]any) string {
	now := time.Now()
	claims := jwt.MapClaims{
		"iss": s.issuer(), "sub": of.user.id.String(), "aud": "authenticated", "role": "authenticated",
		"iat": now.Unix(), "exp": now.Add(tokenLife).Unix(), "email": of.user.email, "phone": "",
		"app_metadata": map[string]any{}, "user_metadata": map[string]any{}, "session_id": uuid.NewString(), "is_anonymous": false,
		"aal": "aal1", "amr": []map[string]any{{"method": "password", "timestamp": now.Unix()}},
	}
	if of.client != "" {
		claims["client_id"], claims["scope"] = of.client, scope
	}
	maps.Copy(claims, changes)
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = keyID
	signed, _ := token.SignedString(s.key) // nor does a good key; who checks the token would say so
	return signed
}

func (s *Server) issuer() string { return s.URL + "/auth/v1" }

// routes are the addresses of Supabase: the auth server's own below /auth/v1, and the one that RFC 8414 asks for.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/auth/v1", s.getMetadata)
	mux.HandleFunc("GET /auth/v1/.well-known/jwks.json", s.getKeys)
	mux.HandleFunc("POST /auth/v1/token", s.signIn)
	mux.HandleFunc("DELETE /auth/v1/admin/users/{id}", s.deleteLogin)
	mux.HandleFunc("POST /auth/v1/oauth/clients/register", s.register)
	mux.HandleFunc("GET /auth/v1/oauth/authorize", s.authorize)
	mux.HandleFunc("GET /auth/v1/oauth/authorizations/{id}", s.asUser(s.getAuthorization))
	mux.HandleFunc("POST /auth/v1/oauth/authorizations/{id}/consent", s.asUser(s.decide))
	mux.HandleFunc("POST /auth/v1/oauth/token", s.grantToClient)
	mux.HandleFunc("GET /auth/v1/user/oauth/grants", s.asUser(s.getGrants))
	mux.HandleFunc("DELETE /auth/v1/user/oauth/grants", s.asUser(s.revokeGrant))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Pages of any origin may ask, as at Supabase's gateway.
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) getMetadata(w http.ResponseWriter, _ *http.Request) {
	issuer := s.issuer()
	answer(w, http.StatusOK, map[string]any{
		"issuer": issuer, "authorization_endpoint": issuer + "/oauth/authorize", "token_endpoint": issuer + "/oauth/token",
		"jwks_uri": issuer + "/.well-known/jwks.json", "registration_endpoint": issuer + "/oauth/clients/register",
		"scopes_supported": []string{"openid", "email", "profile", "phone"}, "response_types_supported": []string{"code"},
		"response_modes_supported": []string{"query"}, "grant_types_supported": []string{"authorization_code", "refresh_token"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post", "none"},
		"code_challenge_methods_supported":      []string{"S256", "plain"},
	})
}

func (s *Server) getKeys(w http.ResponseWriter, _ *http.Request) {
	point, _ := s.key.PublicKey.Bytes() // of a good key
	text := base64.RawURLEncoding.EncodeToString
	answer(w, http.StatusOK, map[string]any{"keys": []map[string]any{{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "key_ops": []string{"verify"}, "kid": keyID,
		"x": text(point[1:33]), "y": text(point[33:]),
	}}})
}

// signIn begins a user's own session.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Email, Password string }
	_ = json.NewDecoder(r.Body).Decode(&asked) // an unreadable one names no user
	known, ok := s.users[asked.Email]
	if !ok || known.password != asked.Password || r.URL.Query().Get("grant_type") != "password" {
		refuse(w, http.StatusBadRequest, "invalid_credentials", "Invalid login credentials")
		return
	}
	granted := s.grant(session{user: known})
	granted["expires_at"] = time.Now().Add(tokenLife).Unix()
	granted["user"] = map[string]any{
		"id": known.id, "aud": "authenticated", "role": "authenticated", "email": known.email,
		"app_metadata": map[string]any{}, "user_metadata": map[string]any{}, "created_at": time.Now().UTC(),
	}
	answer(w, http.StatusOK, granted)
}

func (s *Server) grant(to session) map[string]any {
	refresh := rand.Text()
	s.sessions[refresh] = to
	return map[string]any{
		"access_token": s.sign(to, nil), "token_type": "bearer", "expires_in": int(tokenLife.Seconds()), "refresh_token": refresh,
	}
}

// asUser answers the user whose session the request carries.
func (s *Server) asUser(do func(http.ResponseWriter, *http.Request, user)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		claims := jwt.MapClaims{}
		_, err := jwt.ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) { return &s.key.PublicKey, nil },
			jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(s.issuer()), jwt.WithAudience("authenticated"))
		email, _ := claims["email"].(string)
		known, ok := s.users[email]
		if err != nil || !ok {
			refuse(w, http.StatusForbidden, "bad_jwt", "invalid JWT")
			return
		}
		do(w, r, known)
	}
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
