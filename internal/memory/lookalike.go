package memory

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Some lines mean something to us or to a model: fences, turn headers, speaker labels, headings.
// People's text must not be able to speak in their name, also when it hides them behind zero-width
// characters, full-width letters or odd line ends. So lines are compared as a reader sees them.

var (
	fenceLine  = regexp.MustCompile(`(?i)^[=\s]*=[=\s]*(end[\s_-]*)?(existing[\s_-]*summary|new[\s_-]*turns)`)
	turnHeader = regexp.MustCompile(`(?i)^turn\s*#?\s*\p{Nd}+\s*:`)
	speaker    = regexp.MustCompile("(?i)^[*_`~]*(user|assistant|tool|system|developer)[*_`~]*\\s*(\\([^)]*\\)\\s*)?[*_`~]*:")
	heading    = regexp.MustCompile(`(?i)^[#*_\s]*(background\W+prior conversation summary|kept messages|recent conversation|files|retrieved sources|current message)\s*(\([^)]*\)\s*)?[*_]*:`)
)

// quote is put before a line that reads as one of ours.
const quote = "> "

// readsAsLetter tells whether a line reads as part of a fold input's frame.
func readsAsLetter(line string) bool {
	seen := asSeen(line)
	return fenceLine.MatchString(seen) || turnHeader.MatchString(seen) || speaker.MatchString(seen)
}

func readsAsFence(line string) bool {
	return fenceLine.MatchString(asSeen(line))
}

// readsAsHeading tells whether a line reads as the heading of one of a prompt's sections.
func readsAsHeading(line string) bool {
	return hasColon(line) && heading.MatchString(asSeen(line))
}

// hasColon is a cheap test that spares most lines of a page the dear one. The others are the forms
// that have a plain colon as their compatibility form.
func hasColon(line string) bool {
	for _, colon := range []string{":", "\uff1a", "\ufe55", "\ufe13", "\u2a74"} {
		if strings.Contains(line, colon) {
			return true
		}
	}
	return false
}

// seenRunes is how much of a line is looked at when it has to be made comparable first.
const seenRunes = 160

// asSeen gives the beginning of a line as it looks: without leading space and invisible characters,
// with compatibility forms (full-width, mathematical, circled …) in their plain shape. Case stays:
// the patterns ignore it.
func asSeen(line string) string {
	if isPlain(line) {
		return strings.TrimLeft(line, " \t")
	}
	var b strings.Builder
	runes := 0
	for _, r := range line {
		if r = visible(r); r < 0 || (r == ' ' && runes == 0) {
			continue
		}
		b.WriteRune(r)
		if runes++; runes == seenRunes {
			break
		}
	}
	return strings.TrimSpace(strings.Map(visible, norm.NFKC.String(b.String())))
}

// isPlain tells whether a line has nothing but printable ASCII and tabs.
func isPlain(line string) bool {
	for i := range len(line) {
		if c := line[i]; c >= 0x7f || (c < ' ' && c != '\t') {
			return false
		}
	}
	return true
}

// visible drops what takes no place (-1) and makes every kind of space a space.
func visible(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.In(r, unicode.Cf, unicode.Cc, unicode.Mn, unicode.Me), strings.ContainsRune(blankLetters, r):
		return -1
	}
	return r
}

// blankLetters count as letters or symbols but print nothing: Hangul fillers and the blank braille cell.
const blankLetters = "\u115f\u1160\u3164\uffa0\u2800"

// quoteLines puts the quote before every line of text that hostile accepts. The first line counts as
// a line too. Nothing else changes, line ends included.
func quoteLines(text string, hostile func(line string) bool) string {
	var b strings.Builder
	copied := 0
	for start := 0; start < len(text); {
		end, next := lineSpan(text, start)
		if hostile(text[start:end]) {
			b.WriteString(text[copied:start])
			b.WriteString(quote)
			copied = start
		}
		start = next
	}
	if copied == 0 && b.Len() == 0 {
		return text
	}
	b.WriteString(text[copied:])
	return b.String()
}

// lineSpan gives where the line that begins at start ends, and where the next one begins. What ends a
// line for some model, tokenizer or terminal ends it here: LF, CR, VT, FF, NEL, U+2028 and U+2029.
func lineSpan(text string, start int) (end, next int) {
	for end = start; end < len(text); end++ {
		switch c := text[end]; {
		case c >= '\n' && c <= '\r':
			return end, end + 1
		case c == 0xC2 && strings.HasPrefix(text[end:], "\u0085"):
			return end, end + 2
		case c == 0xE2 && (strings.HasPrefix(text[end:], "\u2028") || strings.HasPrefix(text[end:], "\u2029")):
			return end, end + 3
		}
	}
	return end, end
}
