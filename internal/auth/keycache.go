package auth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// refreshAfter is when a set in use is renewed in the background, so that nobody waits for it.
	refreshAfter = 8 * time.Minute
	// maxAge is how old a set may be while the endpoint answers. Only after an idle time is a set this
	// old met; the request that meets it waits for the new one.
	maxAge = 10 * time.Minute
	// staleLimit is how long the last good set goes on while the endpoint is down.
	staleLimit = time.Hour
	// retryPause is the least time between two fetches for unknown keys, and between two attempts to
	// renew a set that still serves.
	retryPause = 30 * time.Second
	// coldPause is the least time between two attempts while there is no set at all: every request
	// fails then, so it is short.
	coldPause = 5 * time.Second

	fetchTimeout   = 5 * time.Second
	maxKeySetBytes = 64 << 10
)

var errUnknownKey = errors.New("no published key fits the token")

// flight is one running fetch.
type flight struct {
	done   chan struct{} // closed when the outcome is in the cache
	wanted keyName       // by the request that started it
}

// keyCache holds a project's key set. Tokens of known keys never wait for the network once a set is
// there; at most one fetch runs at a time, and never on a request's context.
type keyCache struct {
	url    string
	client *http.Client
	log    *slog.Logger
	now    func() time.Time

	mu        sync.Mutex
	set       keySet
	fetchedAt time.Time // start of the last good fetch; zero before the first
	triedAt   time.Time // start of the last fetch
	missedAt  time.Time // start of the last fetch that was spent on an unknown key
	lastErr   error     // of the last fetch; nil when it was good
	running   *flight   // nil when none
}

func newKeyCache(url string, cfg Config) *keyCache {
	client := http.Client{}
	if cfg.HTTPClient != nil {
		client = *cfg.HTTPClient
	}
	// The keys of the project are at the address of the project, nowhere else.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &keyCache{url: url, client: &client, log: cfg.Logger, now: cfg.Now}
}

// find gives the key of a name (see keySet.find). It waits for a fetch, or for ctx, only when there
// is no usable answer in the cache. Errors: errUnknownKey, or NotReady.
func (c *keyCache) find(ctx context.Context, name keyName) (crypto.PublicKey, error) {
	running, key, err := c.cached(name)
	if running == nil {
		return key, err
	}
	select {
	case <-running.done:
		return c.afterFetch(name)
	case <-ctx.Done():
		return nil, notReady(coldPause, ctx.Err())
	}
}

// cached answers from the set at hand, or names the fetch to wait for.
func (c *keyCache) cached(name keyName) (*flight, crypto.PublicKey, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.usable(now) {
		return c.fetchAfter(coldPause, now, name), nil, c.noKeys(now)
	}
	if age := now.Sub(c.fetchedAt); age >= refreshAfter {
		running := c.fetchAfter(retryPause, now, name)
		// While the endpoint is down nobody waits for it: the old set goes on.
		if age >= maxAge && c.lastErr == nil && running != nil {
			return running, nil, nil
		}
	}
	if key := c.set.find(name); key != nil {
		return nil, key, nil
	}
	if c.running == nil && now.Sub(c.missedAt) < retryPause {
		return nil, nil, errUnknownKey
	}
	c.missedAt = now
	return c.fetchAfter(0, now, name), nil, nil
}

// afterFetch answers a request that waited.
func (c *keyCache) afterFetch(name keyName) (crypto.PublicKey, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.usable(now) {
		return nil, c.noKeys(now)
	}
	if key := c.set.find(name); key != nil {
		return key, nil
	}
	return nil, errUnknownKey
}

func (c *keyCache) usable(now time.Time) bool {
	return !c.fetchedAt.IsZero() && now.Sub(c.fetchedAt) < staleLimit
}

func (c *keyCache) noKeys(now time.Time) error {
	return notReady(coldPause-now.Sub(c.triedAt), c.lastErr)
}

// fetchAfter gives the running fetch or starts one, unless the last started less than pause ago
// (then nil). The caller holds mu.
func (c *keyCache) fetchAfter(pause time.Duration, now time.Time, wanted keyName) *flight {
	if c.running != nil || now.Sub(c.triedAt) < pause {
		return c.running
	}
	c.triedAt = now
	c.running = &flight{done: make(chan struct{}), wanted: wanted}
	go c.renew(c.running)
	return c.running
}

// renew fetches the set and keeps the last good one if that fails. It ends within fetchTimeout.
func (c *keyCache) renew(own *flight) {
	defer close(own.done)
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	set, err := c.fetch(ctx)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.lastErr = nil, err
	if err != nil {
		c.missedAt = c.triedAt // asking again at once for an unknown key would fail as well
		c.log.Warn("fetching the key set failed", keyError, err)
		return
	}
	c.set, c.fetchedAt = set, c.triedAt
	if set.find(own.wanted) == nil {
		c.missedAt = c.triedAt // a storm of unknown keys that begins before the first fetch
	}
	c.log.Debug("key set fetched", keyKeys, len(set))
}

func (c *keyCache) fetch(ctx context.Context) (_ keySet, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Close = true // the next fetch is minutes away
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("key set: status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeySetBytes+1))
	if err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if len(body) > maxKeySetBytes {
		return nil, fmt.Errorf("key set: over %d bytes", maxKeySetBytes)
	}
	return parseKeySet(body)
}
