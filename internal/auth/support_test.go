package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/arcoscribe/throughline/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	secret = []byte("a secret of local tests, long enough for HS256")
	userID = uuid.MustParse("7d0f4f52-5a0a-4c55-9f7e-9b1f1a3c2d10")

	ecKey    = sync.OnceValue(func() *ecdsa.PrivateKey { return newECKey(elliptic.P256()) })
	otherKey = sync.OnceValue(func() *ecdsa.PrivateKey { return newECKey(elliptic.P256()) })
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey {
		key, err := rsa.GenerateKey(rand.Reader, minRSABits)
		if err != nil {
			panic(err)
		}
		return key
	})
)

func newECKey(curve elliptic.Curve) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// clock is a clock that tests move.
type clock struct{ offset atomic.Int64 }

var clockStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func (c *clock) now() time.Time          { return clockStart.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// project is the key endpoint of an auth server, reached without a network, and a clock.
type project struct {
	clock
	url     string
	client  string // the OAuth client of its good tokens
	fetches atomic.Int64
	down    atomic.Bool
	gate    atomic.Pointer[chan struct{}] // answers wait until it is closed
	// redirect is where requests are redirected to; nil for nowhere.
	redirect atomic.Pointer[string]

	mu   sync.Mutex
	body string
}

func newProject(t testing.TB, keys ...map[string]any) *project {
	p := &project{url: elsewhere}
	p.publish(t, keys...)
	return p
}

// web is a client that reaches the project, and nothing else.
func (p *project) web() *http.Client { return &http.Client{Transport: p} }

func (p *project) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// pass lets time pass, also for what the library does by its own clock, and waits for what it does.
func (p *project) pass(d time.Duration) {
	p.advance(d)
	time.Sleep(d)
	synctest.Wait()
}

func (p *project) publish(t testing.TB, keys ...map[string]any) {
	if keys == nil {
		keys = []map[string]any{}
	}
	p.answer(jsonOf(t, map[string]any{"keys": keys}))
}

func (p *project) answer(body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body = body
}

func (p *project) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.fetches.Add(1)
	if gate := p.gate.Load(); gate != nil {
		<-*gate
	}
	if elsewhere := p.redirect.Load(); elsewhere != nil {
		http.Redirect(w, r, *elsewhere, http.StatusFound)
		return
	}
	if p.down.Load() || r.URL.Path != "/auth/v1/.well-known/jwks.json" {
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = w.Write([]byte(p.body)) // some tests hang up
}

// hold makes answers wait for the returned function.
func (p *project) hold(t *testing.T) (release func()) {
	gate := make(chan struct{})
	p.gate.Store(&gate)
	release = sync.OnceFunc(func() { p.gate.Store(nil); close(gate) })
	t.Cleanup(release)
	return release
}

func (p *project) verifier(t testing.TB) *Verifier {
	return newVerifier(t, Settings{ProjectURL: p.url, HTTPClient: p.web(), JWTSecret: secret, Now: p.now})
}

func newVerifier(t testing.TB, settings Settings) *Verifier {
	v, err := New(t.Context(), settings)
	require.NoError(t, err)
	return v
}

func jsonOf(t testing.TB, value any) string {
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func ecJWK(t testing.TB, kid string, key *ecdsa.PrivateKey) map[string]any {
	point, err := key.PublicKey.Bytes()
	require.NoError(t, err)
	half := len(point) / 2
	return map[string]any{
		"kty": "EC", "crv": key.Params().Name, "alg": "ES256", "use": "sig", "key_ops": []string{"verify"},
		"kid": kid, "x": b64(point[1 : 1+half]), "y": b64(point[1+half:]),
	}
}

func rsaJWK(kid string, key *rsa.PublicKey) map[string]any {
	return map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": kid, "n": b64(key.N.Bytes()), "e": "AQAB"}
}

// with returns a copy of base with changes; nil removes a name.
func with(base map[string]any, changes map[string]any) map[string]any {
	changed := maps.Clone(base)
	for name, value := range changes {
		changed[name] = value
		if value == nil {
			delete(changed, name)
		}
	}
	return changed
}

// goodClaims returns the claims of a signed-in user's token at the clock's start.
func goodClaims(projectURL string) map[string]any {
	return map[string]any{
		"iss": projectURL + "/auth/v1", "sub": userID.String(), "aud": authenticated, "role": authenticated,
		"iat": clockStart.Unix(), "exp": clockStart.Add(time.Hour).Unix(),
		"session_id": "6f1d2c1e-7e4b-4a53-9c4e-2f6f6a1f0b11", "is_anonymous": false, "aal": "aal1",
		"email": "someone@example.test", "user_metadata": map[string]any{"role": "service_role", "plan": "gold"},
	}
}

const oauthClient = "9a8b7c6d-5e4f-4a2b-8c0d-9e8f7a6b5c4d"

// good returns the claims of a good token of the project's.
func (p *project) good() map[string]any {
	if p.client == "" {
		return goodClaims(p.url)
	}
	return oauthClaims(p.url)
}

// oauthClaims returns what Supabase Auth puts into the token of an OAuth client: all of a session's, the client and the scope.
func oauthClaims(projectURL string) map[string]any {
	return with(goodClaims(projectURL), map[string]any{
		"client_id": oauthClient, "scope": "email", "amr": []map[string]any{{"method": "oauth_provider/authorization_code", "timestamp": clockStart.Unix()}},
	})
}

// longLived returns goodClaims for tests that move the clock by hours.
func longLived(projectURL string) map[string]any {
	return with(goodClaims(projectURL), map[string]any{"exp": clockStart.Add(48 * time.Hour).Unix()})
}

func sign(t testing.TB, method jwt.SigningMethod, key crypto.PrivateKey, header, body map[string]any) string {
	token := jwt.NewWithClaims(method, jwt.MapClaims(body))
	maps.Copy(token.Header, header)
	signed, err := token.SignedString(key)
	require.NoError(t, err)
	return signed
}

func es256(t testing.TB, kid string, key *ecdsa.PrivateKey, body map[string]any) string {
	return "Bearer " + sign(t, jwt.SigningMethodES256, key, map[string]any{"kid": kid}, body)
}

func hs256(t testing.TB, body map[string]any) string {
	return "Bearer " + sign(t, jwt.SigningMethodHS256, secret, nil, body)
}

func wantCode(t testing.TB, v *Verifier, header string, want fault.Code) {
	_, err := v.Verify(t.Context(), header)
	assert.Truef(t, fault.CodeOf(err) == want, "got %q (%v), want %q", fault.CodeOf(err), err, want)
}
