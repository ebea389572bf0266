package offline

import (
	"regexp"
	"sort"
	"strings"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
)

// countTokens counts o200k_base tokens.
func countTokens(text string) int { return memorytext.Tokens(text) }

// piece is what a stream sends at a time: a word with the space after it, or a part of a long run without spaces.
var piece = regexp.MustCompile(`^\s+|\S{1,32}\s*`)

// splitPieces cuts a text into pieces, which add up to it.
func splitPieces(text string) []string { return piece.FindAllString(text, -1) }

// limitPieces keeps as many pieces as fit the limit in tokens, and reports whether it dropped any.
func limitPieces(pieces []string, limit int) ([]string, bool) {
	fits := func(n int) bool { return countTokens(strings.Join(pieces[:n], "")) <= limit }
	if limit <= 0 || fits(len(pieces)) {
		return pieces, false
	}
	tooMany := sort.Search(len(pieces), func(n int) bool { return !fits(n) })
	return pieces[:max(tooMany-1, 0)], true
}
