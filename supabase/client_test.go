package supabase

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	secretKey      = "sb_secret_of_this_test"
	publishableKey = "sb_publishable_of_this_test"
)

// authServer answers as Supabase's gateway and auth server do. A token is "token-<user id>".
type authServer struct {
	url     string
	arrived chan struct{}
	users   map[uuid.UUID]bool
}

func newAuthServer(t *testing.T, users ...uuid.UUID) *authServer {
	s := &authServer{users: map[uuid.UUID]bool{}, arrived: make(chan struct{}, 1)}
	for _, id := range users {
		s.users[id] = true
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /auth/v1/user", s.getUser)
	routes.HandleFunc("DELETE /auth/v1/admin/users/{id}", s.deleteUser)
	server := httptest.NewServer(gateway(routes))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// gateway is in front of the auth server and checks only the API key.
func gateway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("apikey") {
		case secretKey, publishableKey:
			next.ServeHTTP(w, r)
		case "":
			answer(w, http.StatusUnauthorized, map[string]any{"message": "No API key found in request"})
		default:
			answer(w, http.StatusUnauthorized, map[string]any{"message": "Invalid API key", "hint": "Double check your API key."})
		}
	})
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have hung up
}

func refuse(w http.ResponseWriter, status int, code, msg string) {
	answer(w, status, map[string]any{"code": status, "error_code": code, "msg": msg})
}

func (s *authServer) getUser(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if name, found := strings.CutPrefix(token, "token-"); found {
		s.answerUser(w, name)
		return
	}
	switch token {
	case "forged":
		refuse(w, http.StatusForbidden, "bad_jwt", "invalid JWT: unable to parse or verify signature, signature is invalid")
	case "forged-old-server":
		answer(w, http.StatusUnauthorized, map[string]any{"code": 401, "msg": "invalid JWT: unable to parse or verify signature"})
	case "expired":
		refuse(w, http.StatusForbidden, "bad_jwt", "invalid JWT: unable to parse or verify signature, token has invalid claims: token is expired")
	case "ended":
		refuse(w, http.StatusForbidden, "session_not_found", "Session from session_id claim in JWT does not exist")
	case "limited":
		refuse(w, http.StatusTooManyRequests, "over_request_rate_limit", "Request rate limit reached")
	case "broken":
		refuse(w, http.StatusInternalServerError, "unexpected_failure", "for someone@example.test")
	case "proxy":
		w.WriteHeader(http.StatusNotFound)
	case "no-json":
		_, _ = w.Write([]byte("<html>"))
	case "no-id":
		answer(w, http.StatusOK, map[string]any{"aud": "authenticated"})
	case "huge":
		answer(w, http.StatusOK, map[string]any{"id": uuid.NewString(), "pad": strings.Repeat("x", maxResponseBytes)})
	case "moved":
		http.Redirect(w, r, "/auth/v1/elsewhere", http.StatusFound)
	case "slow":
		s.arrived <- struct{}{}
		<-r.Context().Done()
	}
}

func (s *authServer) answerUser(w http.ResponseWriter, id string) {
	if !s.users[uuid.MustParse(id)] {
		refuse(w, http.StatusForbidden, "user_not_found", "User from sub claim in JWT does not exist")
		return
	}
	answer(w, http.StatusOK, map[string]any{"id": id, "aud": "authenticated", "role": "authenticated", "created_at": "2026-01-02T03:04:05.678901Z"})
}

func (s *authServer) deleteUser(w http.ResponseWriter, r *http.Request) {
	switch id := uuid.MustParse(r.PathValue("id")); {
	case r.Header.Get("Authorization") != "Bearer "+secretKey:
		refuse(w, http.StatusForbidden, "not_admin", "User not allowed")
	case id == uuid.Max:
		w.WriteHeader(http.StatusNotFound) // a proxy that knows no such path
	case !s.users[id]:
		refuse(w, http.StatusNotFound, "user_not_found", "User not found")
	default:
		delete(s.users, id)
		answer(w, http.StatusOK, map[string]any{})
	}
}

// A login that is not there counts as deleted, and the answer of a proxy does not.
func TestDeleteUser(t *testing.T) {
	t.Parallel()
	user := uuid.New()
	server := newAuthServer(t, user)
	client := newClient(t, server.url, secretKey)
	for range 2 {
		require.NoError(t, client.DeleteUser(t.Context(), user))
		assert.Empty(t, server.users)
	}
	require.ErrorIs(t, client.DeleteUser(t.Context(), uuid.Max), ErrUnreachable)
	require.Error(t, newClient(t, server.url, publishableKey).DeleteUser(t.Context(), user), "a key that is no secret")
}

func newClient(t *testing.T, url, key string) *Client {
	c, err := NewClient(url, key)
	require.NoError(t, err)
	return c
}

func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"", "k"}, {"ref.supabase.co", "k"}, {"ftp://x.example", "k"}, {"http://\x7f", "k"},
		{"https://x.example", ""}, {"https://x.example", "a\nb"},
	} {
		_, err := NewClient(c[0], c[1])
		assert.Errorf(t, err, "%q is accepted", c)
	}
}

func TestGetUser(t *testing.T) {
	t.Parallel()
	user := uuid.New()
	server := newAuthServer(t, user)
	for _, key := range []string{secretKey, publishableKey} {
		got, err := newClient(t, server.url+"/", key).GetUser(t.Context(), "token-"+user.String())
		assert.Truef(t, err == nil && got == user, "%s: got %v, %v", key, got, err)
	}
}

func TestGetUserFailures(t *testing.T) {
	t.Parallel()
	server := newAuthServer(t)
	c := newClient(t, server.url, publishableKey)
	for token, want := range map[string]error{
		"":                             ErrInvalidToken,
		"two words":                    ErrInvalidToken,
		"line\nbreak":                  ErrInvalidToken,
		"forged":                       ErrInvalidToken,
		"forged-old-server":            ErrInvalidToken,
		"ended":                        ErrInvalidToken,
		"token-" + uuid.New().String(): ErrNoUser,
		"expired":                      ErrExpiredToken,
		"limited":                      ErrUnreachable,
		"broken":                       ErrUnreachable,
		"proxy":                        ErrUnreachable,
		"no-json":                      ErrUnreachable,
		"no-id":                        ErrUnreachable,
		"huge":                         ErrUnreachable,
		"moved":                        ErrUnreachable,
	} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			got, err := c.GetUser(t.Context(), token)
			require.Truef(t, errors.Is(err, want) && got == uuid.Nil, "got %v, %v, want %v", got, err, want)
			assert.Equal(t, fault.CodeOf(want), fault.CodeOf(err), "code")
			text := err.Error()
			assert.Truef(t, !strings.Contains(text, publishableKey) && !strings.Contains(text, "someone@"),
				"the error tells too much: %s", text)
		})
	}
}

func TestKeyRefusedOrNobodyThere(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, want := range map[string]error{newAuthServer(t).url: ErrKeyRefused, gone.URL: ErrUnreachable} {
		_, err := newClient(t, url, "another-key").GetUser(t.Context(), "token")
		assert.ErrorIsf(t, err, want, "%v, want %v", err, want)
	}
}

func TestConcurrentCallsKeepTheirTokens(t *testing.T) {
	t.Parallel()
	users := make([]uuid.UUID, 100)
	for i := range users {
		users[i] = uuid.New()
	}
	server := newAuthServer(t, users...)
	c := newClient(t, server.url, secretKey)
	var wg sync.WaitGroup
	for _, user := range users {
		for range 3 {
			wg.Go(func() {
				got, err := c.GetUser(t.Context(), "token-"+user.String())
				assert.Truef(t, err == nil && got == user, "got %v, %v, want %v", got, err, user)
			})
		}
	}
	wg.Wait()
}

func TestEndOfContextEndsTheCall(t *testing.T) {
	t.Parallel()
	server := newAuthServer(t)
	c := newClient(t, server.url, publishableKey)
	c.timeout = time.Hour // so that only ctx can end it
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := c.GetUser(ctx, "slow"); ended <- err }()
	<-server.arrived
	cancel()
	err := <-ended
	assert.ErrorIsf(t, err, context.Canceled, "got %v", err)
}

func TestSlowServerIsUnreachable(t *testing.T) {
	t.Parallel()
	server := newAuthServer(t)
	c := newClient(t, server.url, publishableKey)
	c.timeout = 10 * time.Millisecond
	_, err := c.GetUser(t.Context(), "slow")
	assert.ErrorIsf(t, err, ErrUnreachable, "got %v", err)
}
