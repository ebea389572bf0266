package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

func TestVerifyAccepts(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()), rsaJWK("rsa", &rsaKey().PublicKey))
	v := p.verifier(t)
	good := goodClaims(p.url)
	ends := func(after time.Duration) map[string]any {
		return with(good, map[string]any{"exp": clockStart.Add(after).Unix()})
	}
	for name, header := range map[string]string{
		"ES256":                     es256(t, "ec", ecKey(), good),
		"RS256":                     "Bearer " + sign(t, jwt.SigningMethodRS256, rsaKey(), map[string]any{"kid": "rsa"}, good),
		"HS256":                     hs256(t, good),
		"ES256 without kid":         "Bearer " + sign(t, jwt.SigningMethodES256, ecKey(), nil, good),
		"HS256 with any kid":        "Bearer " + sign(t, jwt.SigningMethodHS256, secret, map[string]any{"kid": "legacy"}, good),
		"scheme in other case":      strings.Replace(hs256(t, good), "Bearer ", "bEARER  ", 1),
		"several audiences":         hs256(t, with(good, map[string]any{"aud": []string{"other", authenticated}})),
		"expired within the leeway": hs256(t, ends(-leeway+time.Second)),
		"nbf within the leeway":     hs256(t, with(good, map[string]any{"nbf": clockStart.Add(leeway).Unix()})),
		"nothing optional":          hs256(t, with(good, map[string]any{"iat": nil, "session_id": nil, "is_anonymous": nil, "aal": nil})),
		"fraction of a second":      hs256(t, with(good, map[string]any{"exp": float64(clockStart.Unix()) + 0.5})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := v.Verify(t.Context(), header)
			assert.Truef(t, err == nil && got.UserID == userID, "got %v, %v", got.UserID, err)
		})
	}
}

// Policies of the app may read any claim, so Postgres gets the body of the token byte for byte.
func TestPrincipalHasAllClaimsAsTheyWereSigned(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	body := fmt.Sprintf(`{ "iss": "%s/auth/v1", "sub": "%s", "aud": ["authenticated", "else"], "role": "authenticated", "exp": %d,`+
		` "app_metadata": {"plan": "pro", "seats": 12345678901234567890}, "hooked": [1, null], "user_metadata": {"name": "Zoë \ud83d\ude00 \ufffd \\u0000"}}`,
		p.url, userID, clockStart.Add(time.Hour).Unix())
	header := forge(t, `{"alg":"HS256"}`, body, secret)
	got, err := p.verifier(t).Verify(t.Context(), header)
	require.NoError(t, err)
	assert.Equal(t, Principal{UserID: userID, Home: true, Claims: body, Token: strings.TrimPrefix(header, "Bearer ")}, got, "principal")
}

func TestPrincipalIsShownWithoutTokenAndClaims(t *testing.T) {
	t.Parallel()
	user := Principal{UserID: userID, Claims: "the claims", Token: "the token"}
	var lines bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&lines, nil), slog.NewTextHandler(&lines, nil)} {
		slog.New(handler).Info("a line", "user", user, "pointer", &user)
	}
	shown := lines.String() + fmt.Sprintf("%v %+v %s", user, user, &user)
	assert.Contains(t, shown, userID.String())
	assert.NotContains(t, shown, "the token")
	assert.NotContains(t, shown, "the claims")
}

// jsonb refuses these, and every request of the user would fail.
func TestClaimsThatPostgresCannotHoldAreRefused(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	v := p.verifier(t)
	for _, name := range []string{`\u0000`, `a\\\u0000`, `\ud83d`, `\ud83dx`, `\ud83d\u0041`, `\ude00`, `\ude00\ud83d`, "\xff"} {
		body := fmt.Sprintf(`{"iss":"%s/auth/v1","sub":"%s","aud":"authenticated","role":"authenticated","exp":%d,"user_metadata":{"name":"%s"}}`,
			p.url, userID, clockStart.Add(time.Hour).Unix(), name)
		wantCode(t, v, forge(t, `{"alg":"HS256"}`, body, secret), fault.BadJWT)
	}
}

func TestNoProjectURL(t *testing.T) {
	t.Parallel()
	p := &project{}
	v := newVerifier(t, Settings{JWTSecret: secret, Now: p.now})
	good := goodClaims("https://somewhere.example")
	_, err := v.Verify(t.Context(), hs256(t, good))
	assert.NoError(t, err, "any issuer goes without a project")
	wantCode(t, v, es256(t, "ec", ecKey(), good), fault.BadJWT)
}

func TestNewRefusesAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"ref.supabase.co", "ftp://x.example", "https://", "https://x.example?y=1", "http://a\x7f", "https://me:pw@x.example"} {
		_, err := New(t.Context(), Settings{ProjectURL: address})
		assert.Errorf(t, err, "%q is accepted", address)
	}
}

func TestSlashAtEndOfProjectURL(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := newVerifier(t, Settings{ProjectURL: p.url + "/", HTTPClient: p.web(), Now: p.now})
	_, err := v.Verify(t.Context(), es256(t, "ec", ecKey(), goodClaims(p.url)))
	assert.NoError(t, err)
}

func TestShortSecretIsWarnedAbout(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	newVerifier(t, Settings{JWTSecret: []byte("tiny-secret"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	text := log.String()
	assert.Truef(t, strings.Contains(text, "level=WARN") && !strings.Contains(text, "tiny-secret"), "log %q", text)
}

func TestNothingSecretIsLoggedOrTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testNothingSecretIsLoggedOrTold)
}

func testNothingSecretIsLoggedOrTold(t *testing.T) {
	var log strings.Builder
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := newVerifier(t, Settings{
		ProjectURL: p.url, HTTPClient: p.web(), JWTSecret: secret, Now: p.now,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	told := ""
	for _, header := range []string{
		es256(t, "canary-kid", otherKey(), goodClaims(p.url)), hs256(t, with(goodClaims(p.url), map[string]any{"sub": "canary-sub"})),
		"Bearer canary-token", "canary-scheme x", forge(t, "canary-header", "canary-body", secret),
	} {
		_, err := v.Verify(t.Context(), header)
		told += err.Error() + "\n"
	}
	p.down.Store(true)
	p.pass(renewEvery)
	wantCode(t, v, es256(t, "ec", ecKey(), goodClaims(p.url)), "")
	for _, text := range []string{log.String(), told} {
		assert.Truef(t, !strings.Contains(text, "canary") && !strings.Contains(text, string(secret)) && !strings.Contains(text, "eyJ") && text != "",
			"told or logged:\n%s", text)
	}
	assert.Containsf(t, log.String(), "level=WARN", "the failed fetch is not in the log:\n%s", log.String())
}

func TestMint(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	v := p.verifier(t)
	token, err := Mint(secret, userID, p.url+"/auth/v1", time.Minute, p.now())
	require.NoError(t, err)
	got, err := v.Verify(t.Context(), "Bearer "+token)
	assert.Truef(t, err == nil && got.UserID == userID, "got %+v, %v", got, err)
	var claims struct {
		SessionID string `json:"session_id"`
	}
	err = json.Unmarshal([]byte(got.Claims), &claims)
	assert.Truef(t, err == nil && uuid.Validate(claims.SessionID) == nil, "session %q, %v", claims.SessionID, err)
	p.advance(time.Minute + leeway)
	wantCode(t, v, "Bearer "+token, fault.SessionExpired)
}

func TestMintWithoutIssuer(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	token, err := Mint(secret, userID, "", time.Minute, p.now())
	require.NoError(t, err)
	wantCode(t, p.verifier(t), "Bearer "+token, fault.BadJWT)
	_, err = newVerifier(t, Settings{JWTSecret: secret, Now: p.now}).Verify(t.Context(), "Bearer "+token)
	assert.NoError(t, err)
}

func TestMintRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secret []byte
		user   uuid.UUID
		ttl    time.Duration
	}{
		"no secret": {nil, userID, time.Hour},
		"nil user":  {secret, uuid.Nil, time.Hour},
		"no ttl":    {secret, userID, 0},
	} {
		_, err := Mint(c.secret, c.user, "", c.ttl, clockStart)
		assert.Errorf(t, err, "%s: no error", name)
	}
}

func TestTokenOfAnOAuthClientNamesIt(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	for name, c := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"a session":       {goodClaims(p.url), ""},
		"an OAuth client": {oauthClaims(p.url), oauthClient},
		"one for another service too": {
			with(oauthClaims(p.url), map[string]any{"aud": []string{"https://api.example.com/mcp", authenticated}}), oauthClient,
		},
		"no client": {with(oauthClaims(p.url), map[string]any{"client_id": ""}), ""},
	} {
		got, err := p.verifier(t).Verify(t.Context(), es256(t, "ec", ecKey(), c.claims))
		assert.Truef(t, err == nil && got.ClientID == c.want && got.UserID == userID, "%s: %q of %s, %v", name, got.ClientID, got.UserID, err)
	}
}

// Everything that a first attempt does wrong has a reason of its own.
func TestReasonOfARefusal(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	good := goodClaims(p.url)
	changed := func(name string, value any) string { return hs256(t, with(good, map[string]any{name: value})) }
	v, asks := p.verifier(t), &authServer{err: fault.New(fault.BadJWT, "No such session.")}
	asking := newVerifier(t, Settings{ProjectURL: p.url, HTTPClient: p.web(), LookupUser: asks.lookup, Now: p.now})
	another := newVerifier(t, Settings{ProjectURL: p.url, HTTPClient: p.web(), LookupUser: (&authServer{user: uuid.New()}).lookup, Now: p.now})
	down := newVerifier(t, Settings{ProjectURL: p.url, HTTPClient: p.web(), LookupUser: (&authServer{err: errors.New("refused")}).lookup, Now: p.now})
	secretOnly := newVerifier(t, Settings{JWTSecret: secret, Now: p.now})
	keysOnly := newVerifier(t, Settings{ProjectURL: p.url, HTTPClient: p.web(), Now: p.now})
	noKeys := newVerifier(t, Settings{ProjectURL: "http://127.0.0.1:1", Now: p.now})
	for _, c := range []struct {
		v              *Verifier
		header, reason string
		told           bool // whether the sender learns it
	}{
		{v, "", "no_header", false},
		{v, hs256(t, good)[len("Bearer "):], "not_bearer", true},
		{v, "Basic dTpw", "not_bearer", true},
		{v, "Bearer sb_publishable_abc", "api_key", true},
		{v, "Bearer sb_secret_abc", "api_key", true},
		{v, "Bearer undefined", "malformed", true},
		{v, "Bearer ", "not_bearer", true},
		{v, changed("role", "anon"), "anon_key", true},
		{v, changed("role", "service_role"), "service_key", true},
		{v, changed("role", "postgres"), "wrong_role", true},
		{v, changed("aud", "elsewhere"), "wrong_audience", true},
		{v, changed("sub", nil), "no_user", true},
		{v, changed("iss", "https://other.supabase.co/auth/v1"), "wrong_issuer", true},
		{v, changed("exp", nil), "no_expiry", true},
		{v, changed("exp", clockStart.Add(-time.Hour).Unix()), "expired", true},
		{v, changed("nbf", clockStart.Add(time.Hour).Unix()), "not_yet_valid", true},
		{v, changed("is_anonymous", "yes"), "bad_claim", true},
		{v, "Bearer " + sign(t, jwt.SigningMethodES256, ecKey(), map[string]any{"kid": "ec", "jku": p.url}, good), "bad_header", true},
		{v, "Bearer " + sign(t, jwt.SigningMethodHS512, secret, nil, good), "wrong_algorithm", false},
		{v, forge(t, `{"alg":"hs256"}`, `{}`, secret), "wrong_algorithm", false},
		{v, es256(t, "gone", ecKey(), good), "unknown_key", false},
		{v, es256(t, "ec", otherKey(), good), "bad_signature", false},
		{v, "Bearer " + sign(t, jwt.SigningMethodHS256, []byte("another secret"), nil, good), "bad_signature", false},
		{keysOnly, hs256(t, good), "no_secret_for_hs256", false},
		{secretOnly, es256(t, "ec", ecKey(), good), "no_project_for_keys", false},
		{asking, hs256(t, good), "refused_by_auth_server", false},
		{another, hs256(t, good), "other_user", false},
		{down, hs256(t, good), "auth_server_unreachable", false},
		{noKeys, es256(t, "ec", ecKey(), goodClaims("http://127.0.0.1:1")), "keys_unreachable", false},
	} {
		_, err := c.v.Verify(t.Context(), c.header)
		refused, ok := errors.AsType[*RefusalError](err)
		assert.Truef(t, ok && refused.Reason == c.reason && (refused.Description != "") == c.told, "%.60s: %v, want %s", c.header, err, c.reason)
	}
}

func BenchmarkVerify(b *testing.B) {
	p := newProject(b, ecJWK(b, "ec", ecKey()))
	for name, header := range map[string]string{
		"HS256": hs256(b, goodClaims(p.url)),
		"ES256": es256(b, "ec", ecKey(), goodClaims(p.url)),
	} {
		b.Run(name, func(b *testing.B) {
			v := p.verifier(b)
			b.ReportAllocs()
			for b.Loop() {
				_, err := v.Verify(b.Context(), header)
				require.NoError(b, err)
			}
		})
	}
}

// published answers every request with a key set, without a network, for speed.
type published string

func (p published) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(p)))}, nil
}

// FuzzVerify starts from tokens that are right in everything but the signer, so that no mutation
// can make one good.
func FuzzVerify(f *testing.F) {
	keys, err := json.Marshal(map[string]any{"keys": []any{ecJWK(f, "ec", ecKey()), rsaJWK("rsa", &rsaKey().PublicKey)}})
	require.NoError(f, err)
	c := &clock{}
	settings := Settings{ProjectURL: elsewhere, HTTPClient: &http.Client{Transport: published(keys)}, Now: c.now}
	settings.LookupUser = func(context.Context, string) (uuid.UUID, error) { return uuid.Nil, fault.New(fault.BadJWT, "No.") }
	asking := newVerifier(f, settings)
	settings.JWTSecret = secret
	withSecret := newVerifier(f, settings)
	good := goodClaims(elsewhere)
	wrong := []byte("the secret of somebody else altogether")
	f.Add(es256(f, "ec", otherKey(), good))
	f.Add("Bearer " + sign(f, jwt.SigningMethodHS256, wrong, nil, good))
	f.Add("bearer " + sign(f, jwt.SigningMethodHS256, wrong, map[string]any{"crit": []string{"b64"}}, with(good, map[string]any{"exp": 1})))
	f.Add(forge(f, `{"alg":"RS256","kid":"rsa"}`, `{"aud":["authenticated"],"nbf":1e3}`, wrong))
	f.Add("Bearer " + b64([]byte(`{"alg":"none"}`)) + ".e30.")
	f.Add("Bearer ..")
	f.Add("")
	f.Fuzz(func(t *testing.T, header string) {
		for _, v := range []*Verifier{withSecret, asking} {
			got, err := v.Verify(t.Context(), header)
			require.Truef(t, err != nil && got == (Principal{}), "accepted %q", header)
			known, ok := errors.AsType[*fault.Error](err)
			require.Truef(t, ok && (known.Code == fault.BadJWT || known.Code == fault.NoAuthorization), "%q: %v", header, err)
		}
	})
}

// FuzzClaims signs any body with the project's secret. An accepted one names its user in one way only, and Postgres gets
// it as it was signed.
func FuzzClaims(f *testing.F) {
	good, err := json.Marshal(goodClaims(elsewhere))
	require.NoError(f, err)
	f.Add(string(good))
	f.Add(`{"sub":"` + userID.String() + `","aud":["authenticated"],"role":"authenticated","iss":"` + elsewhere + `/auth/v1","exp":4e9,"role":"service_role"}`)
	opened := `{"sub":"` + userID.String() + `","aud":"authenticated","role":"authenticated","iss":"` + elsewhere + `/auth/v1","exp":4e9,`
	f.Add(opened + `"\u0073ub":"x","aal":"\u0000"}`)
	f.Add(opened + `"user_metadata":{"a":"\ud83d\ude00\ufffd\\u0000","b":"\ud83d"}}`)
	f.Add(`{"exp":-1e400}`)
	f.Add(`null`)
	f.Add("")
	c := &clock{}
	v := newVerifier(f, Settings{ProjectURL: elsewhere, JWTSecret: secret, Now: c.now})
	f.Fuzz(func(t *testing.T, body string) {
		who, err := v.Verify(t.Context(), forge(t, `{"alg":"HS256"}`, body, secret))
		if err != nil {
			_, ok := errors.AsType[*fault.Error](err)
			require.Truef(t, ok && who == (Principal{}), "%v with %+v", err, who)
			return
		}
		var seen map[string]any
		require.NoError(t, json.Unmarshal([]byte(who.Claims), &seen))
		require.Truef(t, who.UserID != uuid.Nil && seen["sub"] == who.UserID.String() && seen["role"] == authenticated && who.Claims == body,
			"%+v of %q", who, body)
	})
}
