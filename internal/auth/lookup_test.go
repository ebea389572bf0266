package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

// authServer is the other side of LookupUser: it counts calls and gives a set answer.
type authServer struct {
	asked atomic.Int64
	mu    sync.Mutex
	user  uuid.UUID
	err   error
}

func (s *authServer) lookup(context.Context, string) (uuid.UUID, error) {
	s.asked.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user, s.err
}

func (s *authServer) answer(user uuid.UUID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.err = user, err
}

const elsewhere = "https://ref.example"

func askingVerifier(t testing.TB, c *clock, lookup func(context.Context, string) (uuid.UUID, error)) *Verifier {
	return newVerifier(t, Settings{ProjectURL: elsewhere, LookupUser: lookup, Now: c.now})
}

func TestHS256WithoutSecretIsAsked(t *testing.T) {
	t.Parallel()
	c, server := &clock{}, &authServer{user: userID}
	v := askingVerifier(t, c, server.lookup)
	header := hs256(t, goodClaims(elsewhere))
	together(50, func(int) { wantCode(t, v, header, "") })
	c.advance(answerAge - time.Second)
	wantCode(t, v, header, "")
	assert.EqualValues(t, 1, server.asked.Load(), "calls within a minute")
	// The session has ended meanwhile; it is accepted for a minute and no longer.
	server.answer(uuid.Nil, fault.New(fault.BadJWT, "No such session."))
	c.advance(time.Second)
	wantCode(t, v, header, fault.BadJWT)
}

func TestSecretIsPreferredToAsking(t *testing.T) {
	t.Parallel()
	c, server := &clock{}, &authServer{user: userID}
	v := newVerifier(t, Settings{JWTSecret: []byte("another secret, of thirty-two bytes and more"), LookupUser: server.lookup, Now: c.now})
	wantCode(t, v, hs256(t, goodClaims(elsewhere)), fault.BadJWT)
	assert.True(t, server.asked.Load() == 0, "a forged token reached the auth server although the secret is known")
}

func TestLookupAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		user uuid.UUID
		err  error
		exp  time.Duration
		want fault.Code
	}{
		"good":                        {userID, nil, time.Hour, ""},
		"good there, expired here":    {userID, nil, -time.Hour, fault.SessionExpired},
		"another user":                {uuid.New(), nil, time.Hour, fault.BadJWT},
		"no user":                     {uuid.Nil, nil, time.Hour, fault.BadJWT},
		"refused":                     {uuid.Nil, fmt.Errorf("get user: %w", fault.New(fault.BadJWT, "No.")), time.Hour, fault.BadJWT},
		"expired":                     {uuid.Nil, fault.New(fault.SessionExpired, "Old."), -time.Hour, fault.SessionExpired},
		"expired, not signed by them": {uuid.Nil, fault.New(fault.BadJWT, "No."), -time.Hour, fault.BadJWT},
		"unreachable":                 {uuid.Nil, errors.New("connection refused"), time.Hour, fault.NotReady},
		"our key is wrong":            {uuid.Nil, fault.New(fault.Internal, "Key."), time.Hour, fault.NotReady},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &authServer{user: c.user, err: c.err}
			body := with(goodClaims(elsewhere), map[string]any{"exp": clockStart.Add(c.exp).Unix()})
			_, err := askingVerifier(t, &clock{}, server.lookup).Verify(t.Context(), hs256(t, body))
			assert.Truef(t, fault.CodeOf(err) == c.want, "got %v, want %q", err, c.want)
			known, ok := errors.AsType[*fault.Error](err)
			assert.Truef(t, c.want != fault.NotReady || (ok && known.RetryAfter > 0), "no RetryAfter in %v", err)
		})
	}
}

func TestRefusalsAndOutagesAreNotRemembered(t *testing.T) {
	t.Parallel()
	c, server := &clock{}, &authServer{err: errors.New("down")}
	v := askingVerifier(t, c, server.lookup)
	header := hs256(t, goodClaims(elsewhere))
	wantCode(t, v, header, fault.NotReady)
	server.answer(uuid.Nil, fault.New(fault.BadJWT, "No."))
	wantCode(t, v, header, fault.BadJWT)
	server.answer(userID, nil)
	wantCode(t, v, header, "")
}

func TestTokensThatCannotPassAreNotAsked(t *testing.T) {
	t.Parallel()
	c, server := &clock{}, &authServer{user: userID}
	v := askingVerifier(t, c, server.lookup)
	wantCode(t, v, hs256(t, with(goodClaims(elsewhere), map[string]any{"role": "service_role"})), fault.BadJWT)
	assert.True(t, server.asked.Load() == 0, "asked")
}

func TestLookupOutlivesTheRequestButNotItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		begun := time.Now()
		var lasted time.Duration
		v := newVerifier(t, Settings{LookupUser: func(ctx context.Context, _ string) (uuid.UUID, error) {
			close(started)
			<-ctx.Done()
			lasted = time.Since(begun)
			return uuid.Nil, ctx.Err()
		}})
		header := hs256(t, with(goodClaims(elsewhere), map[string]any{"iat": begun.Unix(), "exp": begun.Add(time.Hour).Unix()}))

		verify := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() { _, err := v.Verify(ctx, header); ended <- err }()
			return ended
		}
		gone, cancel := context.WithCancel(t.Context())
		first := verify(gone)
		<-started
		second := verify(t.Context())
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) || time.Since(begun) != 0 {
			t.Errorf("the request that hung up got %v after %v", err, time.Since(begun))
		}
		err := <-second
		assert.Truef(t, fault.CodeOf(err) == fault.NotReady && lasted == lookupTimeout, "the other got %v after %v", err, lasted)
	})
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	c := &clock{}
	cache := newUserCache(nil, c.now)
	fill := func(round byte) {
		for i := range maxAnswers + 1 {
			cache.store(tokenHash{round, byte(i), byte(i >> 8)}, answer{user: userID, until: c.now().Add(answerAge)})
			require.Truef(t, len(cache.answers) <= maxAnswers, "%d answers are kept", len(cache.answers))
		}
	}
	fill(1)
	n := len(cache.answers)
	assert.Truef(t, n >= maxAnswers*9/10, "a full cache was emptied to %d", n)
	c.advance(answerAge)
	cache.makeRoom()
	n = len(cache.answers)
	assert.Truef(t, n == 0, "%d answers out of date are kept", n)
}
