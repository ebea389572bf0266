package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const anonKey = "sb_publishable_for_tests"

// project is a stand-in of a Supabase project's auth server: the endpoints that signing in uses, no more lenient than the
// original. Refresh tokens work once, codes belong to their verifier.
type project struct {
	*httptest.Server
	mu       sync.Mutex
	users    map[string]uuid.UUID // by email; their password is "correct horse"
	refresh  map[string]string    // email by refresh token
	codes    map[string]grant
	latest   string        // code that went out by mail
	age      time.Duration // that the access tokens have when they are made; they live an hour
	ended    bool          // no session can be renewed
	renewals int
}

// grant is what a link by mail stands for.
type grant struct{ email, challenge string }

func newProject(t *testing.T) *project {
	p := &project{users: map[string]uuid.UUID{}, refresh: map[string]string{}, codes: map[string]grant{}}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /auth/v1/token", p.token)
	routes.HandleFunc("POST /auth/v1/otp", p.mail)
	routes.HandleFunc("POST /auth/v1/logout", p.logout)
	routes.HandleFunc("GET /auth/v1/.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, `{"keys":[]}`) })
	p.Server = httptest.NewServer(p.guard(routes))
	t.Cleanup(p.Close)
	return p
}

// admit lets a user sign in.
func (p *project) admit(email string, user uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users[email] = user
}

// guard answers preflights, and refuses what has no key.
func (p *project) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
		w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case r.Method == http.MethodOptions:
			w.WriteHeader(http.StatusNoContent)
		case r.Method == http.MethodPost && r.Header.Get("apikey") != anonKey:
			refuse(w, http.StatusUnauthorized, "no_authorization", "No API key found in request")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a client that left reads nothing
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, fmt.Sprintf(`{"code":%d,"error_code":%q,"msg":%q}`, status, code, message))
}

func (p *project) token(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Email, Password string
		RefreshToken    string `json:"refresh_token"`
		AuthCode        string `json:"auth_code"`
		CodeVerifier    string `json:"code_verifier"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest, "bad_json", "Could not parse request body as JSON")
		return
	}
	switch r.URL.Query().Get("grant_type") {
	case "password":
		if _, ok := p.users[in.Email]; !ok || in.Password != "correct horse" {
			refuse(w, http.StatusBadRequest, "invalid_credentials", "Invalid login credentials")
			return
		}
		p.begin(w, in.Email)
	case "refresh_token":
		email, ok := p.refresh[in.RefreshToken]
		if !ok || p.ended {
			refuse(w, http.StatusBadRequest, "refresh_token_not_found", "Invalid Refresh Token: Refresh Token Not Found")
			return
		}
		delete(p.refresh, in.RefreshToken)
		p.renewals++
		p.begin(w, email)
	case "pkce":
		found, ok := p.codes[in.AuthCode]
		sum := sha256.Sum256([]byte(in.CodeVerifier))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != found.challenge {
			refuse(w, http.StatusBadRequest, "bad_code_verifier", "code challenge does not match previously saved code verifier")
			return
		}
		delete(p.codes, in.AuthCode)
		p.begin(w, found.email)
	default:
		refuse(w, http.StatusBadRequest, "validation_failed", "unsupported_grant_type")
	}
}

// begin answers with a session.
func (p *project) begin(w http.ResponseWriter, email string) {
	id, refresh := p.users[email], uuid.NewString()
	access, err := auth.Mint([]byte(testkit.JWTSecret), id, p.URL+"/auth/v1", time.Hour, time.Now().Add(-p.age))
	if err != nil {
		refuse(w, http.StatusInternalServerError, "unexpected_failure", err.Error())
		return
	}
	p.refresh[refresh] = email
	answer(w, http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_in":3600,"expires_at":%d,"refresh_token":%q,
		"user":{"id":%q,"aud":"authenticated","role":"authenticated","email":%q,"app_metadata":{},"user_metadata":{},"created_at":"2026-01-01T00:00:00Z"}}`,
		access, time.Now().Add(time.Hour).Unix(), refresh, id, email))
}

func (p *project) mail(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Email         string
		CreateUser    bool   `json:"create_user"`
		CodeChallenge string `json:"code_challenge"`
		Method        string `json:"code_challenge_method"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in) // checked by its fields
	if _, ok := p.users[in.Email]; !ok || in.CreateUser || in.CodeChallenge == "" || in.Method != "s256" || r.URL.Query().Get("redirect_to") == "" {
		refuse(w, http.StatusUnprocessableEntity, "otp_disabled", "Signups not allowed for otp")
		return
	}
	p.latest = uuid.NewString()
	p.codes[p.latest] = grant{in.Email, in.CodeChallenge}
	answer(w, http.StatusOK, "{}")
}

func (p *project) logout(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("scope") != "local" || len(r.Header.Get("Authorization")) < 50 {
		refuse(w, http.StatusUnauthorized, "no_authorization", "This endpoint requires a valid Bearer token")
		return
	}
	clear(p.refresh)
	w.WriteHeader(http.StatusNoContent)
}

// TestSignIn is how a person signs in, stays signed in, and signs out. Its script calls the project at STAGE: /expire makes
// tokens that are over at once, /end refuses to renew sessions, /restore makes both good again; /state has what happened.
func TestSignIn(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	r := newRig(t, nil, env{"SUPABASE_URL": p.URL, "SUPABASE_ANON_KEY": anonKey})
	p.admit("ada@example.com", r.user)
	p.admit("bea@example.com", testkit.NewUser(t, r.db))
	calls := http.NewServeMux()
	set := func(age time.Duration, ended bool) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.age, p.ended = age, ended
		}
	}
	calls.HandleFunc("POST /expire", set(2*time.Hour, false))
	calls.HandleFunc("POST /end", set(2*time.Hour, true))
	calls.HandleFunc("POST /restore", set(0, false))
	calls.HandleFunc("POST /state", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		answer(w, http.StatusOK, fmt.Sprintf(`{"renewals":%d,"sessions":%d,"code":%q}`, p.renewals, len(p.refresh), p.latest))
	})
	stage := httptest.NewServer(calls)
	t.Cleanup(stage.Close)
	r.inBrowser("signin.mjs", env{"STAGE": stage.URL})
}
