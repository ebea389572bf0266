package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
)

func wantFetches(t *testing.T, p *project, want int64) {
	t.Helper()
	if got := p.fetches.Load(); got != want {
		t.Errorf("%d fetches, want %d", got, want)
	}
}

// together runs work n times at once and waits for all.
func together(n int, work func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { work(i) })
	}
	wg.Wait()
}

func TestConcurrentFirstTokensFetchOnce(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	header := es256(t, "ec", ecKey(), goodClaims(p.url))
	together(100, func(int) { wantCode(t, v, header, "") })
	wantFetches(t, p, 1)
}

func TestRotationIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "old", ecKey()))
	v := p.verifier(t)
	wantCode(t, v, es256(t, "old", ecKey(), goodClaims(p.url)), "")
	p.publish(t, ecJWK(t, "new", otherKey()))
	wantCode(t, v, es256(t, "new", otherKey(), goodClaims(p.url)), "")
	wantFetches(t, p, 2)
	// The set as published counts: the old key was withdrawn.
	wantCode(t, v, es256(t, "old", ecKey(), goodClaims(p.url)), fault.BadJWT)
}

func TestStormOfUnknownKeys(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	storm := make([]string, 1000)
	for i := range storm {
		storm[i] = es256(t, fmt.Sprintf("made-up-%d", i), otherKey(), longLived(p.url))
	}
	strike := func() { together(len(storm), func(i int) { wantCode(t, v, storm[i], fault.BadJWT) }) }

	strike() // from a cold start
	wantFetches(t, p, 1)
	p.advance(retryPause - time.Second)
	strike()
	wantFetches(t, p, 1)
	p.advance(time.Second)
	strike()
	wantFetches(t, p, 2)
	wantCode(t, v, es256(t, "ec", ecKey(), longLived(p.url)), "")
	wantFetches(t, p, 2)
}

func TestUnknownKeyThatHangsUpHasUsedItsFetch(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	wantCode(t, v, es256(t, "ec", ecKey(), goodClaims(p.url)), "")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		_, err := v.Verify(gone, es256(t, "made-up", otherKey(), goodClaims(p.url)))
		if err == nil {
			t.Error("accepted")
		}
		settle(v)
	}
	wantFetches(t, p, 2)
}

func TestSetInUseIsRenewedInTheBackground(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	header := es256(t, "ec", ecKey(), longLived(p.url))
	wantCode(t, v, header, "")
	p.advance(refreshAfter)
	release := p.hold(t)
	wantCode(t, v, header, "") // does not wait for the held answer
	wantCode(t, v, header, "")
	release()
	settle(v)
	wantFetches(t, p, 2)
	p.advance(refreshAfter - time.Second)
	wantCode(t, v, header, "")
	settle(v)
	wantFetches(t, p, 2)
}

func TestIdleServerDoesNotTrustAWithdrawnKey(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "leaked", ecKey()))
	v := p.verifier(t)
	header := es256(t, "leaked", ecKey(), longLived(p.url))
	wantCode(t, v, header, "")
	p.publish(t, ecJWK(t, "new", otherKey()))
	p.advance(maxAge)
	wantCode(t, v, header, fault.BadJWT)
	wantFetches(t, p, 2)
}

func TestEndpointDown(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	known := es256(t, "ec", ecKey(), longLived(p.url))
	unknown := es256(t, "new", otherKey(), longLived(p.url))
	wantCode(t, v, known, "")
	p.down.Store(true)

	for p.advance(maxAge); p.now().Before(clockStart.Add(staleLimit)); p.advance(time.Minute) {
		wantCode(t, v, known, "")
		wantCode(t, v, unknown, fault.BadJWT)
		settle(v)
	}
	_, err := v.Verify(t.Context(), known)
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || refused.Code != fault.NotReady || refused.RetryAfter <= 0 || refused.RetryAfter > coldPause {
		t.Fatalf("past the bound: %v", err)
	}

	p.down.Store(false)
	p.publish(t, ecJWK(t, "new", otherKey()))
	p.advance(coldPause)
	wantCode(t, v, unknown, "")
	wantCode(t, v, known, fault.BadJWT)
}

func TestEndpointDownAttemptsAreSpaced(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	wantCode(t, v, es256(t, "ec", ecKey(), longLived(p.url)), "")
	p.down.Store(true)
	p.advance(maxAge)
	for range 3 {
		for range 10 {
			wantCode(t, v, es256(t, "ec", ecKey(), longLived(p.url)), "")
			wantCode(t, v, es256(t, "made-up", ecKey(), longLived(p.url)), fault.BadJWT)
			settle(v)
		}
		p.advance(retryPause)
	}
	wantFetches(t, p, 1+3)
}

func TestEndpointHangsWhileTheOldSetServes(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	header := es256(t, "ec", ecKey(), longLived(p.url))
	wantCode(t, v, header, "")
	p.down.Store(true)
	p.advance(refreshAfter)
	wantCode(t, v, header, "")
	settle(v) // known to be down from here on
	release := p.hold(t)
	p.advance(maxAge)
	wantCode(t, v, header, "") // older than maxAge, and yet it does not wait
	release()
	settle(v)
}

func TestNoKeysAtAll(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	p.down.Store(true)
	v := p.verifier(t)
	header := es256(t, "ec", ecKey(), goodClaims(p.url))
	together(50, func(int) { wantCode(t, v, header, fault.NotReady) })
	wantFetches(t, p, 1)
	wantCode(t, v, hs256(t, goodClaims(p.url)), "") // needs no key set
	p.down.Store(false)
	p.advance(coldPause)
	wantCode(t, v, header, "")
}

func TestCancelledRequestLeavesTheFetchToOthers(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	release := p.hold(t)
	v := p.verifier(t)
	header := es256(t, "ec", ecKey(), goodClaims(p.url))

	first, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { _, err := v.Verify(first, header); ended <- err }()
	<-p.arrived
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled request got %v", err)
	}
	go func() { _, err := v.Verify(t.Context(), header); ended <- err }()
	release()
	if err := <-ended; err != nil {
		t.Errorf("the other request got %v", err)
	}
	wantFetches(t, p, 1)
}

func TestAnswersThatAreNoKeySet(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty": "", "html": "<html>", "null": "null", "no keys": "{}", "keys null": `{"keys":null}`,
		"keys an object": `{"keys":{}}`, "over the bound": `{"keys":[],"pad":"` + strings.Repeat("x", maxKeySetBytes) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			p.answer(body)
			wantCode(t, p.verifier(t), es256(t, "ec", ecKey(), goodClaims(p.url)), fault.NotReady)
		})
	}
}

func TestEmptyKeySetIsAnAnswer(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	wantCode(t, p.verifier(t), es256(t, "ec", ecKey(), goodClaims(p.url)), fault.BadJWT)
}

func TestKeySetIsNotFetchedElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := newProject(t, ecJWK(t, "ec", ecKey()))
	here := httptest.NewServer(http.RedirectHandler(elsewhere.url+"/auth/v1/.well-known/jwks.json", http.StatusFound))
	t.Cleanup(here.Close)
	v := newVerifier(t, Config{ProjectURL: here.URL, Now: elsewhere.now})
	wantCode(t, v, es256(t, "ec", ecKey(), goodClaims(here.URL)), fault.NotReady)
	wantFetches(t, elsewhere, 0)
}

func TestTokensThatCannotPassCostNoFetch(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	wantCode(t, v, es256(t, "ec", ecKey(), with(goodClaims(p.url), map[string]any{"role": "anon"})), fault.BadJWT)
	wantFetches(t, p, 0)
}

// Whatever stands at the address in place of a key set, the keys that were there before go on; a key that is
// not among them is refused, and a good answer is believed again.
func TestBadAnswersKeepTheKeys(t *testing.T) {
	t.Parallel()
	good := ecJWK(t, "ec", ecKey())
	for name, body := range map[string]string{
		"garbage": "\x1f\x8b garbage", "html": "<html>", "cut off": `{"keys":[{"kty":"EC"`, "no keys": "{}", "keys null": `{"keys":null}`,
		"over the bound": `{"keys":[],"pad":"` + strings.Repeat("x", maxKeySetBytes) + `"}`, "deep": strings.Repeat("[", 60_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, good)
			v := p.verifier(t)
			known, unknown := es256(t, "ec", ecKey(), longLived(p.url)), es256(t, "new", otherKey(), longLived(p.url))
			wantCode(t, v, known, "")
			p.answer(body)
			for range 3 {
				p.advance(maxAge)
				wantCode(t, v, known, "")
				wantCode(t, v, unknown, fault.BadJWT)
				settle(v)
			}
			p.publish(t, good, ecJWK(t, "new", otherKey()))
			p.advance(retryPause)
			wantCode(t, v, unknown, "")
		})
	}
}

// An address that begins to point elsewhere is no new home of the keys.
func TestRedirectKeepsTheKeys(t *testing.T) {
	t.Parallel()
	elsewhere := newProject(t, ecJWK(t, "theirs", otherKey()))
	here := newProject(t, ecJWK(t, "ec", ecKey()))
	v := here.verifier(t)
	known := es256(t, "ec", ecKey(), longLived(here.url))
	wantCode(t, v, known, "")
	here.redirect.Store(new(elsewhere.url + "/auth/v1/.well-known/jwks.json"))
	here.advance(maxAge)
	wantCode(t, v, known, "")
	wantCode(t, v, es256(t, "theirs", otherKey(), longLived(here.url)), fault.BadJWT)
	settle(v)
	wantFetches(t, elsewhere, 0)
}

// Keys are exchanged while requests with the old, the new and unknown ones come in from everywhere: each known
// key is good while it is published and never afterwards, and the endpoint is asked at its pace.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "old", ecKey()))
	v := p.verifier(t)
	old, next := es256(t, "old", ecKey(), longLived(p.url)), es256(t, "new", otherKey(), longLived(p.url))
	crowd := func(oldIs, newIs fault.Code) {
		together(60, func(i int) {
			wantCode(t, v, []string{old, next, es256(t, fmt.Sprint("made-up-", i), otherKey(), longLived(p.url))}[i%3], []fault.Code{oldIs, newIs, fault.BadJWT}[i%3])
		})
		settle(v)
	}
	crowd("", fault.BadJWT)
	p.publish(t, ecJWK(t, "old", ecKey()), ecJWK(t, "new", otherKey()))
	p.advance(retryPause)
	wantCode(t, v, next, "") // the one fetch for an unknown key brings it
	crowd("", "")
	p.publish(t, ecJWK(t, "new", otherKey()))
	p.advance(maxAge)
	wantCode(t, v, old, fault.BadJWT) // waits for the set that does not hold it any more
	crowd(fault.BadJWT, "")
	if got := p.fetches.Load(); got > 4 {
		t.Errorf("%d fetches", got)
	}
}
