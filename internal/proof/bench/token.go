package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/golang-jwt/jwt/v5"
)

// measureAuth times the verification of an access token with known keys, beside that of its signature alone.
func measureAuth(ctx context.Context, e *environment) (group, error) {
	g := group{Title: "verify an access token"}
	token := e.owners[0].token
	shared, mac, err := verifyTimes(ctx, e.verifier, token, func() {
		hash := hmac.New(sha256.New, []byte(kit.Secret))
		_, _ = hash.Write([]byte(token)) // a hash takes everything
		hash.Sum(nil)
	})
	if err != nil {
		return g, err
	}
	g.add(row{What: "HS256", Unit: "µs", Value: shared.ns / 1e3, Baseline: mac.ns / 1e3, Against: "HMAC alone"})
	published, curve, err := ellipticTimes(ctx)
	if err != nil {
		return g, err
	}
	g.add(row{What: "ES256", Unit: "µs", Value: published.ns / 1e3, Baseline: curve.ns / 1e3, Against: "ECDSA alone"})
	return g, nil
}

func verifyTimes(ctx context.Context, verifier *auth.Verifier, token string, signature func()) (verify, alone micro, err error) {
	header := "Bearer " + token
	if _, err := verifier.Verify(ctx, header); err != nil {
		return verify, alone, err
	}
	return compare(func() { _, _ = verifier.Verify(ctx, header) }, signature) // it was good a moment ago
}

// ellipticTimes verifies a token against a published key set.
func ellipticTimes(ctx context.Context) (verify, alone micro, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return verify, alone, err
	}
	keySet, err := publish(&key.PublicKey)
	if err != nil {
		return verify, alone, err
	}
	base, closeServer, err := kit.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keySet) }), 0)
	if err != nil {
		return verify, alone, err
	}
	defer closeServer()
	verifier, err := auth.New(auth.Config{ProjectURL: base, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		return verify, alone, err
	}
	token, err := signed(key, base)
	if err != nil {
		return verify, alone, err
	}
	digest := sha256.Sum256([]byte(token))
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return verify, alone, err
	}
	return verifyTimes(ctx, verifier, token, func() {
		digest := sha256.Sum256([]byte(token))
		ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature)
	})
}

const keyID = "bench"

func publish(key *ecdsa.PublicKey) ([]byte, error) {
	point, err := key.Bytes() // a byte for its kind, and two coordinates
	if err != nil {
		return nil, err
	}
	half := len(point) / 2
	encode := base64.RawURLEncoding.EncodeToString
	return json.Marshal(map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": keyID, "x": encode(point[1 : 1+half]), "y": encode(point[1+half:]),
	}}})
}

func signed(key *ecdsa.PrivateKey, base string) (string, error) {
	now := time.Now()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": base + "/auth/v1", "sub": kit.ID("user", 0).String(), "aud": "authenticated", "role": "authenticated",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "session_id": kit.NewID().String(), "is_anonymous": false, "aal": "aal1",
	})
	token.Header["kid"] = keyID
	return token.SignedString(key)
}
