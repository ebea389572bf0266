package auth

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	lookupTimeout = 5 * time.Second
	// answerAge bounds how long a session that was ended goes on here.
	answerAge = time.Minute
	// maxAnswers bounds the memory; an entry is about 100 bytes.
	maxAnswers = 10_000
)

type tokenHash [sha256.Size]byte

type answer struct {
	user  uuid.UUID
	until time.Time
}

// userCache keeps what the auth server said about tokens that cannot be checked here. Only good
// answers are kept: a refused token is rare from honest clients, and an outage must not be remembered.
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

// owner tells whose token this is. Requests with the same token share one call, which therefore
// does not run on the context of any of them.
func (c *userCache) owner(ctx context.Context, token string) (uuid.UUID, error) {
	hash := tokenHash(sha256.Sum256([]byte(token)))
	if user, ok := c.known(hash); ok {
		return user, nil
	}
	shared := c.flight.DoChan(string(hash[:]), func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return c.fetch(own, token, hash)
	})
	select {
	case result := <-shared:
		user, _ := result.Val.(uuid.UUID)
		return user, result.Err
	case <-ctx.Done():
		return uuid.Nil, notReady(coldPause, ctx.Err())
	}
}

func (c *userCache) fetch(ctx context.Context, token string, hash tokenHash) (uuid.UUID, error) {
	// The clock is read first: an answer is as old as its question.
	until := c.now().Add(answerAge)
	user, err := c.lookup(ctx, token)
	switch code := fault.CodeOf(err); code {
	case "":
		c.keep(hash, answer{user: user, until: until})
		return user, nil
	case fault.BadJWT, fault.SessionExpired:
		return uuid.Nil, err
	}
	return uuid.Nil, notReady(coldPause, err)
}

func (c *userCache) known(hash tokenHash) (uuid.UUID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.answers[hash]
	return found.user, ok && c.now().Before(found.until)
}

func (c *userCache) keep(hash tokenHash, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) >= maxAnswers {
		c.makeRoom()
	}
	c.answers[hash] = a
}

// makeRoom drops what is out of date and, if that is too little, any tenth: a wrong choice costs one
// more lookup, and a full cache is not scanned for every newcomer.
func (c *userCache) makeRoom() {
	now := c.now()
	for hash, a := range c.answers {
		if !now.Before(a.until) {
			delete(c.answers, hash)
		}
	}
	for hash := range c.answers {
		if len(c.answers) <= maxAnswers*9/10 {
			return
		}
		delete(c.answers, hash)
	}
}

// notReady says that a token can be neither accepted nor refused now. It is no 401, because a phone
// would sign its user out for that.
func notReady(retryAfter time.Duration, cause error) error {
	return &fault.Error{
		Code: fault.NotReady, Message: "Sign-in cannot be checked right now; try again shortly.",
		RetryAfter: max(retryAfter, time.Second), Err: cause,
	}
}
