package auth

import (
	"context"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

func wantFetches(t *testing.T, p *project, want int64) {
	assert.Equal(t, want, p.fetches.Load(), "fetches")
}

// together runs work n times at once and waits for all.
func together(n int, work func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { work(i) })
	}
	wg.Wait()
}

// inTime runs a test of a project and its verifier on a clock that stands until the test lets time pass.
func inTime(t *testing.T, test func(t *testing.T, p *project, v *Verifier)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t, ecJWK(t, "ec", ecKey()))
		test(t, p, p.verifier(t))
	})
}

func TestConcurrentFirstTokensFetchOnce(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, p *project, v *Verifier) {
		header := es256(t, "ec", ecKey(), goodClaims(p.url))
		together(100, func(int) { wantCode(t, v, header, "") })
		wantFetches(t, p, 1)
	})
}

// All tokens of a new key wait for the one fetch that brings it.
func TestRotationIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, p *project, v *Verifier) {
		old, next := es256(t, "ec", ecKey(), goodClaims(p.url)), es256(t, "new", otherKey(), goodClaims(p.url))
		wantCode(t, v, old, "")
		p.pass(unknownPause)
		p.publish(t, ecJWK(t, "new", otherKey()))
		together(60, func(int) { wantCode(t, v, next, "") })
		wantFetches(t, p, 2)
		wantCode(t, v, old, fault.BadJWT) // it was withdrawn
	})
}

func TestStormOfUnknownKeys(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, p *project, v *Verifier) {
		storm := make([]string, 1000)
		for i := range storm {
			storm[i] = es256(t, fmt.Sprintf("made-up-%d", i), otherKey(), longLived(p.url))
		}
		strike := func() { together(len(storm), func(i int) { wantCode(t, v, storm[i], fault.BadJWT) }) }
		strike() // from a cold start
		wantFetches(t, p, 1)
		p.pass(unknownPause - time.Second)
		strike()
		wantFetches(t, p, 1)
		p.pass(time.Second)
		strike()
		wantFetches(t, p, 2)
		wantCode(t, v, es256(t, "ec", ecKey(), longLived(p.url)), "")
		wantFetches(t, p, 2)
	})
}

// A request that hangs up neither ends the fetch that it started nor begins another.
func TestUnknownKeyThatHangsUp(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, p *project, v *Verifier) {
		wantCode(t, v, es256(t, "ec", ecKey(), goodClaims(p.url)), "")
		p.pass(unknownPause)
		p.publish(t, ecJWK(t, "new", otherKey()))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			_, err := v.Verify(gone, es256(t, "made-up", otherKey(), goodClaims(p.url)))
			assert.Equalf(t, fault.BadJWT, fault.CodeOf(err), "%v", err)
		}
		wantCode(t, v, es256(t, "new", otherKey(), goodClaims(p.url)), "")
		wantFetches(t, p, 2)
	})
}

func TestSetIsRenewedInTheBackground(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, p *project, v *Verifier) {
		header := es256(t, "ec", ecKey(), longLived(p.url))
		wantCode(t, v, header, "")
		release := p.hold(t)
		p.pass(renewEvery)
		wantCode(t, v, header, "") // does not wait for the held answer
		wantFetches(t, p, 2)
		p.publish(t, ecJWK(t, "new", otherKey()))
		release()
		synctest.Wait()
		wantCode(t, v, header, fault.BadJWT)
	})
}

func TestEndpointDown(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, p *project, v *Verifier) {
		known, unknown := es256(t, "ec", ecKey(), longLived(p.url)), es256(t, "new", otherKey(), longLived(p.url))
		wantCode(t, v, known, "")
		p.down.Store(true)
		for range 12 {
			p.pass(renewEvery)
			wantCode(t, v, known, "")
			wantCode(t, v, unknown, fault.BadJWT)
		}
		wantFetches(t, p, 1+2*12)
		p.down.Store(false)
		p.publish(t, ecJWK(t, "new", otherKey()))
		p.pass(unknownPause)
		wantCode(t, v, unknown, "")
		wantCode(t, v, known, fault.BadJWT)
	})
}

func TestNoKeysAtAll(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, p *project, v *Verifier) {
		p.down.Store(true)
		header := es256(t, "ec", ecKey(), goodClaims(p.url))
		together(50, func(int) { wantCode(t, v, header, fault.NotReady) })
		wantFetches(t, p, 1)
		wantCode(t, v, hs256(t, goodClaims(p.url)), "") // needs no key set
		p.down.Store(false)
		p.pass(coldPause)
		wantCode(t, v, header, "")
	})
}

func TestEmptyKeySetIsAnAnswer(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	wantCode(t, p.verifier(t), es256(t, "ec", ecKey(), goodClaims(p.url)), fault.BadJWT)
}

func TestTokensThatCannotPassCostNoFetch(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	wantCode(t, p.verifier(t), es256(t, "ec", ecKey(), with(goodClaims(p.url), map[string]any{"role": "anon"})), fault.BadJWT)
	wantFetches(t, p, 0)
}

// What stands at the address in place of a key set is none, and the keys that were there before go on.
func TestBadAnswersKeepTheKeys(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty": "", "html": "<html>", "cut off": `{"keys":[{"kty":"EC"`, "null": "null", "no keys": "{}", "keys null": `{"keys":null}`,
		"keys an object": `{"keys":{}}`, "a key that is none": `{"keys":[{"kty":"EC","crv":"P-256","kid":"ec","x":"AA","y":"AA"}]}`,
		"an exponent that is none": `{"keys":[{"kty":"RSA","kid":"ec","n":"` + strings.Repeat("_", 342) + `","e":"AQ"}]}`,
		"over the bound":           `{"keys":[],"pad":"` + strings.Repeat("x", maxKeySetBytes) + `"}`, "deep": strings.Repeat("[", 60_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, p *project, v *Verifier) {
				header := es256(t, "ec", ecKey(), longLived(p.url))
				good := p.body
				p.answer(body)
				wantCode(t, v, header, fault.NotReady)
				p.answer(good)
				p.pass(unknownPause)
				wantCode(t, v, header, "")
				p.answer(body)
				p.pass(renewEvery)
				wantCode(t, v, header, "")
			})
		})
	}
}

// An address that begins to point elsewhere is no new home of the keys.
func TestKeySetIsNotFetchedElsewhere(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, p *project, v *Verifier) {
		header := es256(t, "ec", ecKey(), longLived(p.url))
		p.redirect.Store(new("https://elsewhere.example/jwks.json"))
		wantCode(t, v, header, fault.NotReady)
		wantFetches(t, p, 1)
		p.redirect.Store(nil)
		p.pass(coldPause)
		wantCode(t, v, header, "")
	})
}

func TestKeysThatVerifyNothing(t *testing.T) {
	t.Parallel()
	good, goodRSA := ecJWK(t, "ec", ecKey()), rsaJWK("rsa", &rsaKey().PublicKey)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	p384 := newECKey(elliptic.P384())
	rs256 := func(key *rsa.PrivateKey) string {
		return "Bearer " + sign(t, jwt.SigningMethodRS256, key, map[string]any{"kid": "rsa"}, goodClaims(elsewhere))
	}
	es := es256(t, "ec", ecKey(), goodClaims(elsewhere))
	for name, c := range map[string]struct {
		key    map[string]any
		header string
	}{
		"for encryption":    {with(good, map[string]any{"use": "enc"}), es},
		"shared secret":     {map[string]any{"kty": "oct", "kid": "ec", "k": b64(secret), "alg": "HS256"}, es},
		"kty unknown":       {with(good, map[string]any{"kty": "PQ"}), es},
		"P-384":             {with(ecJWK(t, "ec", p384), map[string]any{"alg": "ES384"}), es},
		"P-384 for ES256":   {ecJWK(t, "ec", p384), es},
		"EC key for RS256":  {with(good, map[string]any{"alg": "RS256"}), es},
		"EC key for HS256":  {with(good, map[string]any{"alg": "HS256"}), es},
		"EC key, RSA token": {with(good, map[string]any{"kid": "rsa", "alg": nil}), rs256(rsaKey())},
		"RSA of 1024 bits":  {rsaJWK("rsa", &small.PublicKey), rs256(small)},
		"RSA of 16384 bits": {with(goodRSA, map[string]any{"n": strings.Repeat("_", 16384/6)}), rs256(rsaKey())},
		"RSA key for PS256": {with(goodRSA, map[string]any{"alg": "PS256"}), rs256(rsaKey())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, c.key, ecJWK(t, "neighbour", otherKey()))
			v := p.verifier(t)
			wantCode(t, v, c.header, fault.BadJWT)
			wantCode(t, v, es256(t, "neighbour", otherKey(), goodClaims(p.url)), "")
		})
	}
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
