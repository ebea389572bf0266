package auth

import (
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/arcoscribe/throughline/internal/fault"
)

func TestUnusableKeysAreSkipped(t *testing.T) {
	t.Parallel()
	good := ecJWK(t, "ec", ecKey())
	goodRSA := rsaJWK("rsa", &rsaKey().PublicKey)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	offCurve := b64(make([]byte, p256Bytes))
	p384 := with(ecJWK(t, "ec", newECKey(elliptic.P384())), map[string]any{"alg": "ES384"})
	for name, key := range map[string]any{
		"for encryption":        with(good, map[string]any{"use": "enc"}),
		"only signs":            with(good, map[string]any{"key_ops": []string{"sign"}}),
		"shared secret":         map[string]any{"kty": "oct", "kid": "ec", "k": b64(secret), "alg": "HS256"},
		"kty unknown":           with(good, map[string]any{"kty": "OKP"}),
		"kty missing":           with(good, map[string]any{"kty": nil}),
		"kty in lower case":     with(good, map[string]any{"kty": "ec"}),
		"P-384":                 p384,
		"P-384 called P-256":    with(p384, map[string]any{"crv": "P-256", "alg": "ES256"}),
		"crv missing":           with(good, map[string]any{"crv": nil}),
		"point off the curve":   with(good, map[string]any{"y": offCurve}),
		"point at infinity":     with(good, map[string]any{"x": offCurve, "y": offCurve}),
		"coordinate missing":    with(good, map[string]any{"y": nil}),
		"coordinate too long":   with(good, map[string]any{"x": b64(make([]byte, 33))}),
		"coordinate no base64":  with(good, map[string]any{"x": "!"}),
		"second no base64":      with(good, map[string]any{"y": "!"}),
		"EC key for RS256":      with(good, map[string]any{"alg": "RS256"}),
		"EC key for HS256":      with(good, map[string]any{"alg": "HS256"}),
		"RSA of 1024 bits":      rsaJWK("rsa", &small.PublicKey),
		"RSA of 16384 bits":     with(goodRSA, map[string]any{"n": b64(append(make([]byte, 0), filled(2048)...))}),
		"RSA, even modulus":     with(goodRSA, map[string]any{"n": b64(append(filled(255), 0xfe))}),
		"RSA, exponent 1":       with(goodRSA, map[string]any{"e": "AQ"}),
		"RSA, even exponent":    with(goodRSA, map[string]any{"e": "Ag"}),
		"RSA, huge exponent":    with(goodRSA, map[string]any{"e": "AQAAAAE"}),
		"RSA, no exponent":      with(goodRSA, map[string]any{"e": nil}),
		"RSA, modulus no b64":   with(goodRSA, map[string]any{"n": "*"}),
		"RSA, exponent no b64":  with(goodRSA, map[string]any{"e": "*"}),
		"RSA key for PS256":     with(goodRSA, map[string]any{"alg": "PS256"}),
		"no object":             "a text",
		"field of another type": with(good, map[string]any{"x": 1}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A good neighbour stays, whatever the odd key is.
			document, err := json.Marshal(map[string]any{"keys": []any{key, with(good, map[string]any{"kid": "neighbour"})}})
			if err != nil {
				t.Fatal(err)
			}
			set, err := parseKeySet(document)
			if err != nil || len(set) != 1 || set[0].id != "neighbour" {
				t.Errorf("got %d keys, %v", len(set), err)
			}
		})
	}
}

func filled(n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = 0xff
	}
	return all
}

func TestKeyWithoutUseOrAlgIsUsable(t *testing.T) {
	t.Parallel()
	bare := map[string]any{"use": nil, "alg": nil, "key_ops": nil}
	p := newProject(t, with(ecJWK(t, "ec", ecKey()), bare), with(rsaJWK("rsa", &rsaKey().PublicKey), bare))
	v := p.verifier(t)
	wantCode(t, v, es256(t, "ec", ecKey(), goodClaims(p.url)), "")
	wantCode(t, v, "Bearer "+sign(t, jwt.SigningMethodRS256, rsaKey(), map[string]any{"kid": "rsa"}, goodClaims(p.url)), "")
}

func TestTokenWithoutKidNeedsTheOnlyKey(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "one", ecKey()), ecJWK(t, "two", otherKey()), rsaJWK("rsa", &rsaKey().PublicKey))
	v := p.verifier(t)
	anonymousKey := func(method jwt.SigningMethod, key any) string {
		return "Bearer " + sign(t, method, key, nil, goodClaims(p.url))
	}
	wantCode(t, v, anonymousKey(jwt.SigningMethodES256, ecKey()), fault.BadJWT)
	wantCode(t, v, anonymousKey(jwt.SigningMethodRS256, rsaKey()), "")
}

func FuzzParseKeySet(f *testing.F) {
	good, err := json.Marshal(map[string]any{"keys": []any{ecJWK(f, "ec", ecKey()), rsaJWK("rsa", &rsaKey().PublicKey)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"","y":""},null,1]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		set, err := parseKeySet(document)
		if err != nil && set != nil {
			t.Error("an error and keys")
		}
		for _, k := range set {
			if k.key == nil || (k.algorithm != "ES256" && k.algorithm != "RS256") {
				t.Errorf("unusable key %+v", k)
			}
		}
	})
}
