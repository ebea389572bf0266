package prompt

import (
	"regexp"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// quoteMessages quotes, in place, the lines of messages that look like a heading or a speaker label. Each quote adds two
// bytes, so at most two tokens.
func quoteMessages(messages []memory.Message) {
	for i := range messages {
		m := &messages[i]
		if cannotLookLikePrompt(m.Content) {
			continue
		}
		quoted := text.QuoteLines(m.Content, LooksLikePrompt)
		m.Content, m.Tokens = quoted, m.Tokens+len(quoted)-len(m.Content)
	}
}

// cannotLookLikePrompt is a cheap test that spares most messages the expensive one: the content is ASCII and has
// nothing that could end a label.
func cannotLookLikePrompt(content string) bool {
	for i := range len(content) {
		if c := content[i]; c == ':' || c == '&' || c >= 0x7f {
			return false
		}
	}
	return true
}

// LooksLikeHeading reports whether a line looks like the heading of a section.
func LooksLikeHeading(line string) bool {
	_, words := text.LabelOf(line)
	return headings[words]
}

// LooksLikePrompt reports whether a line of a message or of the brief looks like a heading or a speaker label.
func LooksLikePrompt(line string) bool {
	return LooksLikeHeading(line) || text.LooksLikeLabel(line, true)
}

var sourceNumber = regexp.MustCompile(`^\[\s*\p{Nd}+\s*\]`)

// looksLikeSource reports whether a line of a source looks like a heading or the beginning of another source.
func looksLikeSource(line string) bool {
	return LooksLikeHeading(line) ||
		strings.ContainsAny(line, "[\uff3b&") && sourceNumber.MatchString(text.Skeleton(line, text.PrefixRunes))
}
