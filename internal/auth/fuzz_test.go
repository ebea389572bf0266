package auth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

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
			require.Truef(t, ok && (known.Code == fault.BadJWT || known.Code == fault.NoAuthorization),
				"%q: %v", header, err)
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
