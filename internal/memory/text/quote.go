package text

import (
	"regexp"
	"strings"
	"unicode"
)

// Some lines mean something to us or to a model: fences, turn headers, speaker labels, headings.
// People's text must not be able to speak in their name, also when it hides them behind zero-width
// characters, letters of another alphabet, markup or odd line ends. So lines are compared as a reader
// sees them: see asSeen.

// The words of labels and headings, without the space and the marks between their letters.
var (
	speakers = map[string]bool{"user": true, "assistant": true, "tool": true, "system": true, "developer": true, "human": true}
)

var (
	turnHeader = regexp.MustCompile(`^turn\p{Nd}+$`)
	aside      = regexp.MustCompile(`\([^)]*\)`)
	bullet     = regexp.MustCompile(`^[-*+•] `)
)

// Quote is put before a line that reads as one of ours. A line that has it already is nobody's.
const Quote = "> "

// ReadsAsLabel tells whether a line begins as a turn's header or as what somebody says. With onlyNames
// it must be a speaker, in the form of a name: not "user:", which is an ordinary key in many a file.
func ReadsAsLabel(line string, onlyNames bool) bool {
	name, words := LabelOf(line)
	if !speakers[words] {
		return !onlyNames && turnHeader.MatchString(words)
	}
	first := strings.IndexFunc(name, unicode.IsLetter)
	return !bullet.MatchString(name) && (!onlyNames || first >= 0 && !unicode.IsLower(rune(name[first])))
}

// LabelOf gives what stands before a line's first colon, asides in parentheses left out, as seen and as
// bare words; "" where it is no label: too long, or a text in quotes.
func LabelOf(line string) (name, words string) {
	const longestLabel = 96
	if !hasColon(line) || strings.HasPrefix(line, Quote) {
		return "", ""
	}
	seen := AsSeen(line, SeenRunes)
	if strings.Contains(seen, "(") {
		seen = aside.ReplaceAllString(seen, "")
	}
	name, _, found := strings.Cut(seen, ":")
	if !found || len(name) > longestLabel || strings.ContainsAny(name, `"'{=`) {
		return "", ""
	}
	return name, WordsOf(name, "")
}

// hasColon is a cheap test that spares most lines of a page the dear one. The others are the forms that
// look like a colon, and the beginning of an entity.
func hasColon(line string) bool {
	if isPlain(line) {
		return strings.Contains(line, ":") || strings.Contains(line, "&")
	}
	return strings.ContainsAny(line, ":&"+colons)
}

// HasEquals is the same for equals signs.
func HasEquals(line string) bool {
	if isPlain(line) {
		return strings.Contains(line, "=") || strings.Contains(line, "&")
	}
	return strings.ContainsAny(line, "=&"+equalsSigns)
}

// WordsOf gives the letters and digits of a text and the marks named, in lower case.
func WordsOf(text, marks string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(marks, r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// QuoteLines puts the quote before every line of text that hostile accepts, and before every one that
// hides marks. The first line counts as a line too. Nothing else changes, line ends included.
func QuoteLines(text string, hostile func(line string) bool) string {
	var b strings.Builder
	copied, hides := 0, HidesMarks(text)
	for start := 0; start < len(text); {
		end, next := LineSpan(text, start)
		if line := text[start:end]; hostile(line) || hides && HidesMarks(line) {
			b.WriteString(text[copied:start])
			b.WriteString(Quote)
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

// HidesMarks tells whether a text holds an equals sign or a colon as a tag character (U+E0000 and on),
// which no reader sees and some models read. The tags of flags are letters and digits.
func HidesMarks(line string) bool {
	return strings.Contains(line, "\U000e003d") || strings.Contains(line, "\U000e003a")
}

// LineSpan gives where the line that begins at start ends, and where the next one begins. What ends a
// line for some model, tokenizer or terminal ends it here: LF, CR, VT, FF, NEL, U+2028 and U+2029.
func LineSpan(text string, start int) (end, next int) {
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
