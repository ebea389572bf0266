package text

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
)

// codec is built at first use (about 10 ms and 13 MB), once per process. It is safe for concurrent
// use: it only reads its tables.
var codec = sync.OnceValue(func() tokenizer.Codec {
	c, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		panic("memory: the tokenizer has no o200k_base: " + err.Error()) // its tables are compiled in
	}
	return c
})

// Tokens counts text in tokens of o200k_base. It is the one token counter of the program: what is
// stored as token_count, what limits are compared with. Bytes that are no UTF-8 count as U+FFFD.
// Time is linear in the length of text, whatever it holds.
func Tokens(text string) int {
	if text == "" {
		return 0
	}
	n, err := codec().Count(readable(text))
	if err != nil {
		return guess(text)
	}
	return n
}

// tokenEnds gives the byte offset after each token of text, which must be valid UTF-8.
func tokenEnds(text string) []int {
	if text == "" {
		return nil
	}
	_, tokens, err := codec().Encode(readable(text))
	if err != nil {
		return runeEnds(text)
	}
	ends, at := make([]int, len(tokens)), 0
	for i, token := range tokens {
		at += len(token)
		ends[i] = at
	}
	return ends
}

// readable replaces what the tokenizer does not read: bytes that are no UTF-8, and DEL, which it passes
// over as if it were not there (so that a page of them would cost nothing). Valid text keeps its length.
func readable(text string) string {
	text = Valid(text)
	if strings.IndexByte(text, 0x7f) < 0 {
		return text
	}
	return strings.ReplaceAll(text, "\x7f", "\x01")
}

// Valid returns text with bytes that are no UTF-8 replaced by U+FFFD.
func Valid(text string) string {
	return strings.ToValidUTF8(text, string(utf8.RuneError))
}

// guess overestimates for nearly every text. The tokenizer has no known input that it fails on; a
// count that is too high costs some room in a prompt, none at all could overrun the model.
func guess(text string) int {
	return utf8.RuneCountInString(text)
}

// runeEnds takes each character for a token, as guess does.
func runeEnds(text string) []int {
	ends := make([]int, 0, len(text))
	for at, r := range text {
		ends = append(ends, at+utf8.RuneLen(r))
	}
	return ends
}
