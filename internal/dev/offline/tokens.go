package offline

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
)

// codec is made at first use: it takes some 10 ms and 13 MB that a program which only links this
// package should not pay.
var codec = sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.O200kBase) })

// countTokens counts o200k_base tokens. Should the tokenizer fail, four bytes count as one token:
// usage that is off beats an answer that is not there.
func countTokens(text string) int {
	c, err := codec()
	if err != nil {
		return (len(text) + 3) / 4
	}
	n, err := c.Count(text)
	if err != nil {
		return (len(text) + 3) / 4
	}
	return n
}

// pieceRunes is the longest piece in characters, for text without spaces.
const pieceRunes = 32

// splitPieces cuts a text into what a stream sends at a time: a word with the space after it. The
// pieces add up to the text.
func splitPieces(text string) []string {
	pieces := make([]string, 0, strings.Count(text, " ")+1)
	start, runes, spaced := 0, 0, false
	for i, r := range text {
		space := unicode.IsSpace(r)
		if spaced && !space || runes == pieceRunes {
			pieces = append(pieces, text[start:i])
			start, runes = i, 0
		}
		spaced = space
		runes++
	}
	if start < len(text) {
		pieces = append(pieces, text[start:])
	}
	return pieces
}

// limitPieces keeps as many pieces as fit the limit in tokens; the flag tells that some did not.
func limitPieces(pieces []string, limit int) ([]string, bool) {
	fits := func(n int) bool { return countTokens(strings.Join(pieces[:n], "")) <= limit }
	if limit <= 0 || fits(len(pieces)) {
		return pieces, false
	}
	low, high := 0, len(pieces) // fits(low), not fits(high)
	for low+1 < high {
		if middle := (low + high) / 2; fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return pieces[:low], true
}

// commonPrefix is the number of bytes that two texts share at their beginning, whole characters only.
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
