package text

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Tokens counts text in tokens of o200k_base. It is the only token counter of the program: token_count and all
// limits are measured by it. Invalid UTF-8 counts as U+FFFD. Time is linear in the length of text.
func Tokens(text string) int {
	n := 0
	for rest := validUTF8(text); rest != ""; {
		end := pieceEnd(rest)
		n += counts.tokens(rest[:end])
		rest = rest[end:]
	}
	return n
}

// countTokens is Tokens for valid UTF-8, without the cache.
func countTokens(text string) int {
	n := 0
	o200k().each(text, func(int) { n++ })
	return n
}

// tokenEnds returns the byte offset after each token of text, which must be valid UTF-8.
func tokenEnds(text string) []int {
	var ends []int
	o200k().each(text, func(end int) { ends = append(ends, end) })
	return ends
}

// validUTF8 returns text with invalid UTF-8 replaced by U+FFFD.
func validUTF8(text string) string {
	return strings.ToValidUTF8(text, string(utf8.RuneError))
}

// Most of a text are words that were counted a moment ago, and looking one up takes a twentieth of the time of counting
// it. So text is counted in pieces, usually a word with the space before it, whose counts are kept.

// pieceEnd returns where the first piece of a text ends: at a space after a visible character of ASCII, or at the text's
// end. A token begins there, because the pattern by which o200k_base divides text before it looks for tokens has no space
// after anything but white space. So the sum over the pieces is the count of the whole.
func pieceEnd(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' && '!' <= text[i-1] && text[i-1] <= '~' {
			return i
		}
	}
	return len(text)
}

// longestPiece is the most bytes of a piece whose count is kept; a longer one hardly comes again.
const longestPiece = 24

// countCache keeps the counts of pieces, each in the one slot that its hash names, so that it never grows and needs no lock.
type countCache struct {
	seed  maphash.Seed
	slots [1 << 14]atomic.Pointer[countedPiece]
}

type countedPiece struct {
	text   string
	tokens int
}

var counts = countCache{seed: maphash.MakeSeed()}

func (c *countCache) tokens(piece string) int {
	if len(piece) > longestPiece {
		return countTokens(piece)
	}
	slot := &c.slots[maphash.String(c.seed, piece)%uint64(len(c.slots))]
	if kept := slot.Load(); kept != nil && kept.text == piece {
		return kept.tokens
	}
	n := countTokens(piece)
	slot.Store(&countedPiece{strings.Clone(piece), n})
	return n
}
