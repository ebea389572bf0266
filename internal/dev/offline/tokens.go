package offline

import (
	"sort"
	"strings"
	"unicode"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
)

// countTokens counts o200k_base tokens.
func countTokens(text string) int { return memorytext.Tokens(text) }

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

// limitPieces keeps as many pieces as fit the limit in tokens, and reports whether it dropped any.
func limitPieces(pieces []string, limit int) ([]string, bool) {
	fits := func(n int) bool { return countTokens(strings.Join(pieces[:n], "")) <= limit }
	if limit <= 0 || fits(len(pieces)) {
		return pieces, false
	}
	tooMany := sort.Search(len(pieces), func(n int) bool { return !fits(n) })
	return pieces[:max(tooMany-1, 0)], true
}
