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
	// refreshAfter is the age at which a key set in use is renewed in the background, so that no request waits.
	refreshAfter = 8 * time.Minute
	// maxAge is the age at which requests wait for a new set, unless the endpoint is down. Because of
	// refreshAfter a set gets this old only while no tokens arrive.
	maxAge = 10 * time.Minute
	// staleLimit is how long the last good set is used while the endpoint is down.
	staleLimit = time.Hour
	// retryPause is the least time between two fetches for unknown keys, and between two attempts to
	// renew a set that is still used.
	retryPause = 30 * time.Second
	// coldPause is the least time between two attempts while there is no set. It is short, because every
	// request fails then.
	coldPause = 5 * time.Second

	fetchTimeout   = 5 * time.Second
	maxKeySetBytes = 64 << 10
)

// fetch is a running fetch of the key set.
type fetch struct {
	done   chan struct{} // closed when the result is in the cache
	wanted keyName       // by the request that started it
}

// keyCache caches a project's key set. Once it has a set, tokens of known keys do not wait for the network. At
// most one fetch runs at a time, never on a request's context.
type keyCache struct {
	url    string
	client *http.Client
	log    *slog.Logger
	now    func() time.Time

	mu        sync.Mutex
	set       keySet
	fetchedAt time.Time // start of the last good fetch; zero before the first
	triedAt   time.Time // start of the last fetch
	missedAt  time.Time // start of the last fetch for an unknown key
	lastErr   error     // of the last fetch; nil if it succeeded
	running   *fetch    // nil if none
}

func newKeyCache(url string, cfg Config) *keyCache {
	client := http.Client{}
	if cfg.HTTPClient != nil {
		client = *cfg.HTTPClient
	}
	// The project's keys are taken from the project's address only.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &keyCache{url: url, client: &client, log: cfg.Logger, now: cfg.Now}
}

// find returns the key of a name (see keySet.find). It waits for a fetch, or for ctx, only if the cache cannot
// answer. Its errors are errUnknownKey and NotReady.
func (c *keyCache) find(ctx context.Context, name keyName) (crypto.PublicKey, error) {
	if needed := c.neededFetch(name); needed != nil {
		select {
		case <-needed.done:
		case <-ctx.Done():
			return nil, notReady(coldPause, errNoKeys, ctx.Err())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); !c.usable(now) {
		return nil, notReady(coldPause-now.Sub(c.triedAt), errNoKeys, c.lastErr)
	}
	if key := c.set.find(name); key != nil {
		return key, nil
	}
	return nil, errUnknownKey
}

// neededFetch returns the fetch to wait for, nil if the cache can answer. It starts those that are due.
func (c *keyCache) neededFetch(name keyName) *fetch {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.usable(now) {
		return c.fetchAfter(coldPause, now, name)
	}
	if age := now.Sub(c.fetchedAt); age >= refreshAfter {
		running := c.fetchAfter(retryPause, now, name)
		// While the endpoint is down the old set is used.
		if age >= maxAge && c.lastErr == nil && running != nil {
			return running
		}
	}
	if c.set.find(name) != nil || c.running == nil && now.Sub(c.missedAt) < retryPause {
		return nil
	}
	c.missedAt = now
	return c.fetchAfter(0, now, name)
}

func (c *keyCache) usable(now time.Time) bool {
	return !c.fetchedAt.IsZero() && now.Sub(c.fetchedAt) < staleLimit
}

// fetchAfter returns the running fetch or starts one. It returns nil if the last one started less than pause
// ago. The caller holds mu.
func (c *keyCache) fetchAfter(pause time.Duration, now time.Time, wanted keyName) *fetch {
	if c.running != nil || now.Sub(c.triedAt) < pause {
		return c.running
	}
	c.triedAt = now
	c.running = &fetch{done: make(chan struct{}), wanted: wanted}
	go c.renew(c.running)
	return c.running
}

// renew fetches the set, and keeps the last good one if that fails. It ends within fetchTimeout.
func (c *keyCache) renew(own *fetch) {
	defer close(own.done)
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	set, err := c.download(ctx)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.lastErr = nil, err
	if err != nil {
		c.missedAt = c.triedAt // another fetch for an unknown key would fail as well
		c.log.Warn("fetching the key set failed", "error", err)
		return
	}
	c.set, c.fetchedAt = set, c.triedAt
	if set.find(own.wanted) == nil {
		c.missedAt = c.triedAt // this fetch counts as the one for an unknown key
	}
	c.log.Debug("key set fetched", "keys", len(set))
}

func (c *keyCache) download(ctx context.Context) (_ keySet, err error) {
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
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxKeySetBytes))
	if err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	return parseKeySet(body)
}
