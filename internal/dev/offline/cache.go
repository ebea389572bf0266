package offline

import (
	"strings"
	"sync"
)

// OpenAI caches prompts from 1024 tokens on, in steps of 128:
// https://platform.openai.com/docs/guides/prompt-caching
const (
	cacheMinTokens = 1024
	cacheStep      = 128
)

// cacheBytes bounds the simulated cache, which forgets everything when it is full.
const cacheBytes = 32 << 20

// promptCache simulates a provider's prompt cache: what a prompt shares with the beginning of the previous prompt of
// the same key counts as cached. Unlike a provider's, its entries do not expire.
type promptCache struct {
	mu    sync.Mutex
	byKey map[string]string
	bytes int
}

// cachedTokens counts the cached tokens of a prompt and stores it; 0 without a key.
func (c *promptCache) cachedTokens(key, text string) int {
	if key == "" {
		return 0
	}
	common := commonPrefix(c.swap(key, text), text)
	if len(common) < cacheMinTokens { // a token is at least one byte
		return 0
	}
	tokens := countTokens(common)
	if tokens < cacheMinTokens {
		return 0
	}
	return tokens - tokens%cacheStep
}

// swap stores the text and returns the previous one, "" for none.
func (c *promptCache) swap(key, text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	previous := c.byKey[key]
	if c.bytes += len(key) + len(text); c.byKey == nil || c.bytes > cacheBytes {
		c.byKey, c.bytes = map[string]string{}, len(key)+len(text)
	}
	c.byKey[key] = text
	return previous
}

// commonPrefix returns the characters that two texts share at their beginning.
func commonPrefix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return strings.ToValidUTF8(a[:n], "")
}
