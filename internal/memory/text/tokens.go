package text

import (
	"strings"
	"unicode/utf8"
)

// Tokens counts text in tokens of o200k_base. It is the only token counter of the program: token_count and all
// limits are measured by it. Invalid UTF-8 counts as U+FFFD. Time is linear in the length of text.
func Tokens(text string) int {
	n := 0
	o200k().each(validUTF8(text), func(int) { n++ })
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
