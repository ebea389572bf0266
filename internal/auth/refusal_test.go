package auth

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// Everything that a first attempt does wrong has a reason of its own.
func TestReasonOfARefusal(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	good := goodClaims(p.url)
	changed := func(name string, value any) string { return hs256(t, with(good, map[string]any{name: value})) }
	v, asks := p.verifier(t), &authServer{err: fault.New(fault.BadJWT, "No such session.")}
	asking := newVerifier(t, Config{ProjectURL: p.url, HTTPClient: p.web(), LookupUser: asks.lookup, Now: p.now})
	another := newVerifier(t, Config{ProjectURL: p.url, HTTPClient: p.web(), LookupUser: (&authServer{user: uuid.New()}).lookup, Now: p.now})
	down := newVerifier(t, Config{ProjectURL: p.url, HTTPClient: p.web(), LookupUser: (&authServer{err: errors.New("refused")}).lookup, Now: p.now})
	secretOnly := newVerifier(t, Config{JWTSecret: secret, Now: p.now})
	keysOnly := newVerifier(t, Config{ProjectURL: p.url, HTTPClient: p.web(), Now: p.now})
	noKeys := newVerifier(t, Config{ProjectURL: "http://127.0.0.1:1", Now: p.now})
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
		if !ok || refused.Reason != c.reason || (refused.Description != "") != c.told {
			t.Errorf("%.60s: %v, want %s", c.header, err, c.reason)
		}
	}
}

// A description is a quoted string of a header, whose characters RFC 6750 limits.
func TestDescriptionsFitTheHeader(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v, seen := p.verifier(t), map[string]bool{}
	for _, attacks := range [][]attack{headerAttacks(t, p), algorithmAttacks(t, p), claimAttacks(t, p), spellingAttacks(t, p), signatureAttacks(t, p),
		bodyAttacks(t, p)} {
		for _, a := range attacks {
			_, err := v.Verify(t.Context(), a.header)
			refused, ok := errors.AsType[*RefusalError](err)
			if !ok {
				t.Errorf("%s: no reason in %v", a.name, err)
				continue
			}
			seen[refused.Reason] = true
			if !regexp.MustCompile(`^[\x20-\x21\x23-\x5B\x5D-\x7E]*$`).MatchString(refused.Description) {
				t.Errorf("%s: %q", a.name, refused.Description)
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("only %v", seen)
	}
}
