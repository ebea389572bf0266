package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	lookupTimeout = 5 * time.Second
	// answerAge limits how long a session that has ended is still accepted.
	answerAge = time.Minute
	// maxAnswers limits the memory. An entry is about 100 bytes.
	maxAnswers = 10_000
)

type tokenHash [sha256.Size]byte

type answer struct {
	user  uuid.UUID
	until time.Time
}

// userCache caches the auth server's answers about tokens that cannot be checked locally. It caches only users:
// honest clients rarely send a refused token, and an outage must not outlast itself.
type userCache struct {
	lookup func(ctx context.Context, token string) (uuid.UUID, error)
	now    func() time.Time
	flight singleflight.Group

	mu      sync.Mutex
	answers map[tokenHash]answer
}

func newUserCache(lookup func(context.Context, string) (uuid.UUID, error), now func() time.Time) *userCache {
	return &userCache{lookup: lookup, now: now, answers: map[tokenHash]answer{}}
}

// owner returns the user of a token. Requests with the same token share one call, which therefore does not run
// on the context of any of them.
func (c *userCache) owner(ctx context.Context, token string) (uuid.UUID, error) {
	hash := tokenHash(sha256.Sum256([]byte(token)))
	if user, ok := c.cached(hash); ok {
		return user, nil
	}
	shared := c.flight.DoChan(string(hash[:]), func() (any, error) {
		lookupCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return c.fetch(lookupCtx, token, hash)
	})
	select {
	case result := <-shared:
		user, _ := result.Val.(uuid.UUID)
		return user, result.Err
	case <-ctx.Done():
		return uuid.Nil, notReady(errNoAuthServer, ctx.Err())
	}
}

func (c *userCache) fetch(ctx context.Context, token string, hash tokenHash) (uuid.UUID, error) {
	// The clock is read before the call, so that its duration counts towards the answer's age.
	until := c.now().Add(answerAge)
	user, err := c.lookup(ctx, token)
	switch fault.CodeOf(err) {
	case "":
		c.store(hash, answer{user: user, until: until})
		return user, nil
	case fault.BadJWT:
		return uuid.Nil, fault.Wrap(fault.BadJWT, invalidToken, fmt.Errorf("%w: %w", errAuthServer, err))
	case fault.SessionExpired:
		return uuid.Nil, fault.Wrap(fault.SessionExpired, expiredToken, fmt.Errorf("%w: %w", errExpired, err))
	case fault.UserNotFound:
		return uuid.Nil, fault.NoUser(fmt.Errorf("%w: %w", errUserGone, err))
	}
	return uuid.Nil, notReady(errNoAuthServer, err)
}

func (c *userCache) cached(hash tokenHash) (uuid.UUID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.answers[hash]
	return found.user, ok && c.now().Before(found.until)
}

func (c *userCache) store(hash tokenHash, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) >= maxAnswers {
		c.makeRoom()
	}
	c.answers[hash] = a
}

// makeRoom removes expired answers and, if that is not enough, any others until the cache is nine tenths full.
// Removing a good answer costs one more lookup; removing many at once avoids a scan for each new answer.
func (c *userCache) makeRoom() {
	now := c.now()
	maps.DeleteFunc(c.answers, func(_ tokenHash, a answer) bool { return !now.Before(a.until) })
	for hash := range c.answers {
		if len(c.answers) <= maxAnswers*9/10 {
			return
		}
		delete(c.answers, hash)
	}
}

// notReady reports that a token can be neither accepted nor refused now. It is not a 401, because an app would
// sign its user out.
func notReady(reason *RefusalError, cause error) error {
	return &fault.Error{
		Code: fault.NotReady, Message: "Sign-in cannot be checked right now; try again shortly.",
		RetryAfter: coldPause, Err: fmt.Errorf("%w: %w", reason, cause),
	}
}
