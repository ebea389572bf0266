package offline

import (
	"container/list"
	"sync"
	"unicode/utf8"
)

// OpenAI caches prompts from 1024 tokens on, in steps of 128:
// https://platform.openai.com/docs/guides/prompt-caching
const (
	cacheMinTokens = 1024
	cacheStep      = 128
)

// Bounds of the simulated cache.
const (
	cacheKeys  = 4096
	cacheBytes = 32 << 20
)

// promptCache simulates a provider's prompt cache: what a prompt shares with the beginning of the previous prompt of
// the same key counts as cached. Unlike a provider's, its entries do not expire.
type promptCache struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order list.List // most recently used first
	bytes int
}

type cachedPrompt struct{ key, text string }

// cachedTokens counts the cached tokens of a prompt and stores it; 0 without a key.
func (c *promptCache) cachedTokens(key, text string) int {
	if key == "" {
		return 0
	}
	common := commonPrefix(c.swap(key, text), text)
	if common < cacheMinTokens { // a token is at least one byte
		return 0
	}
	tokens := countTokens(text[:common])
	if tokens < cacheMinTokens {
		return 0
	}
	return tokens - tokens%cacheStep
}

// swap stores the text and returns the previous one, "" for none.
func (c *promptCache) swap(key, text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = map[string]*list.Element{}
	}
	previous := ""
	if element, ok := c.byKey[key]; ok {
		previous = c.drop(element)
	}
	c.byKey[key] = c.order.PushFront(cachedPrompt{key, text})
	c.bytes += len(text)
	for c.order.Len() > cacheKeys || c.bytes > cacheBytes && c.order.Len() > 1 {
		c.drop(c.order.Back())
	}
	return previous
}

// drop removes one prompt and returns its text.
func (c *promptCache) drop(element *list.Element) string {
	old, _ := c.order.Remove(element).(cachedPrompt)
	delete(c.byKey, old.key)
	c.bytes -= len(old.text)
	return old.text
}

// commonPrefix returns the number of bytes that two texts share at their beginning, in whole characters.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(b) && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}
