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
	if err != nil {
		f.Fatal(err)
	}
	c := &clock{}
	cfg := Config{ProjectURL: elsewhere, HTTPClient: &http.Client{Transport: published(keys)}, Now: c.now}
	cfg.LookupUser = func(context.Context, string) (uuid.UUID, error) { return uuid.Nil, fault.New(fault.BadJWT, "No.") }
	asking := newVerifier(f, cfg)
	cfg.JWTSecret = secret
	withSecret := newVerifier(f, cfg)
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
			if err == nil || got != (Principal{}) {
				t.Fatalf("accepted %q", header)
			}
			known, ok := errors.AsType[*fault.Error](err)
			if !ok || (known.Code != fault.BadJWT && known.Code != fault.NoAuthorization) {
				t.Fatalf("%q: %v", header, err)
			}
		}
	})
}
