package text

import (
	"html"
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Some lines have a meaning to us or to a model: fences, turn headers, speaker labels, headings. Text that people
// wrote must not pass for one, also when it hides behind zero-width characters, letters of another alphabet, markup
// or unusual line ends. So lines are compared by their skeletons.

// QuotePrefix is put before a line that looks like markup of ours. A line that begins with it is plain text.
const QuotePrefix = "> "

// Titles are the titles that a text must not pass for: their words, folded, and how many spaces part them.
type Titles map[string]int

// NewTitles returns the titles of lines, each up to its colon.
func NewTitles(lines ...string) Titles {
	titles := Titles{}
	for _, line := range lines {
		for o := range openings(line) {
			if o.end != ' ' {
				titles[string(o.words)] = o.spaces
			}
		}
	}
	return titles
}

// Begin reports whether a line begins like one of the titles: with its words before a colon or alone on the line, or in
// capitals before other text. Without a colon a single word must be alone, and in capitals: others are ordinary words.
func (t Titles) Begin(line string) bool {
	if !t.mayBegin(line) {
		return false
	}
	for o := range openings(line) {
		spaces, known := t[string(o.words)]
		alone, several := o.end == 0, spaces > 0 && o.spaces >= spaces
		if known && (o.end == ':' || alone && spaces > 0 || (alone || several) && o.capitals > 1) {
			return true
		}
	}
	return false
}

// mayBegin reports whether a line's first letters are those of a title. It spares most lines the making of a skeleton.
func (t Titles) mayBegin(line string) bool {
	for _, letters := range [...]int{2, 8} {
		start := Skeleton(line, letters)
		if isPlain(start) {
			start = start[:min(letters, len(start))]
		}
		start, _, _ = strings.Cut(start, "(")
		words := Folded(start, "")
		begins := false
		for title := range t {
			shorter := min(len(title), len(words))
			begins = begins || title[:shorter] == words[:shorter]
		}
		if !begins {
			return false
		}
	}
	return true
}

// speakers are the words of speaker labels, labels those and the beginning of a turn's header.
var (
	speakers = NewTitles("user", "assistant", "tool", "system", "developer", "human")
	labels   = NewTitles("user", "assistant", "tool", "system", "developer", "human", "turn")
)

var (
	turnHeader  = regexp.MustCompile(`^turn[\p{Nd}io]+$`) // folded: an i is a one, an o a zero
	parentheses = regexp.MustCompile(`\([^)]*\)`)
	bullet      = regexp.MustCompile(`^[-*+•] `)
)

// LooksLikeLabel reports whether a line begins like a turn's header ("Turn 3:") or a speaker label ("User:"), or is one
// without its colon. With namesOnly, and without a colon, it must be a speaker written as a name: not "user:", which is an
// ordinary key in many files.
func LooksLikeLabel(line string, namesOnly bool) bool {
	if !labels.mayBegin(line) {
		return false
	}
	for o := range openings(line) {
		if o.end == ' ' {
			continue
		}
		if _, known := speakers[string(o.words)]; known && !o.listed && (!unicode.IsLower(o.first) || !namesOnly && o.end == ':') {
			return true
		}
		if !namesOnly && turnHeader.Match(o.words) {
			return true
		}
	}
	return false
}

// opening is the beginning of a line up to a place where a title could end.
type opening struct {
	words    []byte // letters and digits, folded
	spaces   int    // that part the words
	capitals int
	first    rune // letter
	end      rune // ':', ' ' for another mark, 0 for the line's end
	listed   bool // behind the mark of a list
}

// longestOpening is the number of bytes of words after which no title ends.
const longestOpening = 64

// openings yields the openings of a line, up to its first colon. What holds a quotation mark or an equals sign is data or
// code, and text in parentheses is skipped.
func openings(line string) iter.Seq[opening] {
	return func(yield func(opening) bool) {
		if strings.HasPrefix(line, QuotePrefix) {
			return
		}
		skeleton := Skeleton(line, PrefixRunes)
		if strings.Contains(skeleton, "(") {
			skeleton = parentheses.ReplaceAllString(skeleton, "")
		}
		var room [longestOpening + utf8.UTFMax]byte
		o, pending := opening{words: room[:0], listed: bullet.MatchString(skeleton)}, 0
		for i, r := range skeleton {
			if isWritten(skeleton, i, r) {
				if o.end = ' '; r == '|' && !yield(o) { // it may part columns, too
					return
				}
				if o.first == 0 {
					o.first = r
				}
				if unicode.IsUpper(r) {
					o.capitals++
				}
				o.spaces, pending = o.spaces+pending, 0
				if o.words = appendFolded(o.words, r); len(o.words) > longestOpening {
					return
				}
				continue
			}
			switch o.end = ' '; {
			case len(o.words) == 0 && r != ':':
				continue
			case r == ':':
				o.end = ':'
			case strings.ContainsRune(`"'{=`, r):
				return
			case r == ' ':
				pending = 1
			}
			if !yield(o) || o.end == ':' {
				return
			}
		}
		o.end = 0
		yield(o)
	}
}

// isWritten reports whether r, at i, is a letter or a digit, or a bar behind one: it looks like a letter.
func isWritten(text string, i int, r rune) bool {
	if r == '|' {
		r, _ = utf8.DecodeLastRuneInString(text[:i])
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// appendFolded appends a character of a skeleton such that letters which look alike in lower or upper case are equal.
func appendFolded(words []byte, r rune) []byte {
	if plain, known := lookAlikes()[r]; known {
		for _, c := range plain {
			words = appendFolded(words, c)
		}
		return words
	}
	switch r = unicode.ToLower(r); r {
	case 'l', '1', '|':
		r = 'i'
	case '0':
		r = 'o'
	case 'f':
		r = 's' // a long s is either
	case 'm':
		return append(words, "rn"...)
	}
	return utf8.AppendRune(words, r)
}

// Folded returns the letters and digits of a skeleton as the words of titles have them, and the characters of also.
func Folded(skeleton, also string) string {
	words := make([]byte, 0, len(skeleton))
	for i, r := range skeleton {
		if isWritten(skeleton, i, r) || strings.ContainsRune(also, r) {
			words = appendFolded(words, r)
		}
	}
	return string(words)
}

// HasEquals reports whether the skeleton of a line can hold an equals sign. It is a cheap test that spares most
// lines the making of a skeleton.
func HasEquals(line string) bool { return !isPlain(line) || strings.ContainsAny(line, "=&") }

// QuoteLines puts QuotePrefix before every line of text for which mustQuote returns true, and before every line with
// hidden marks. All other bytes stay, line ends included.
func QuoteLines(text string, mustQuote func(line string) bool) string {
	var b strings.Builder
	copied, hidden := 0, HasHiddenMarks(text)
	for start := 0; start < len(text); {
		end, next := LineSpan(text, start)
		if line := text[start:end]; mustQuote(line) || hidden && HasHiddenMarks(line) {
			b.WriteString(text[copied:start])
			b.WriteString(QuotePrefix)
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

// HasHiddenMarks reports whether a text holds an equals sign or a colon as a tag character (U+E0000 and on), which is
// invisible and which some models read. The tag characters of flags are letters and digits.
func HasHiddenMarks(text string) bool {
	return strings.Contains(text, "\U000e003d") || strings.Contains(text, "\U000e003a")
}

// LineSpan returns where the line that begins at start ends, and where the next one begins. Every line end of
// UAX #14 counts, because some model, tokenizer or terminal may take it for one: LF, CR, VT, FF, NEL, U+2028, U+2029.
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

// OneLine returns text with each run of white space as one space.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// PrefixRunes is how many characters of a line are compared with markers that stand at the beginning of a line.
const PrefixRunes = 160

// Skeleton returns the first limit characters of a line in the form in which lines that look alike are equal, like
// the skeleton of Unicode's UTS #39: without leading space, accents and invisible characters, with HTML entities
// decoded, compatibility forms (full-width, mathematical, circled …) and letters of other alphabets as the ASCII
// letters that they resemble. Case stays.
func Skeleton(line string, limit int) string {
	if strings.Contains(line, "&") {
		line = html.UnescapeString(line)
	}
	if isPlain(line) {
		return strings.TrimLeft(line, " \t")
	}
	var b strings.Builder
	runes := 0
	for _, r := range line {
		if r = visible(r); r < 0 || (r == ' ' && runes == 0) {
			continue
		}
		writePlain(&b, r)
		if runes++; runes >= limit {
			break
		}
	}
	decomposed := norm.NFKD.String(b.String())
	b.Reset()
	for _, r := range decomposed {
		writePlain(&b, r)
	}
	return strings.TrimSpace(b.String())
}

// writePlain writes the ASCII that r looks like, else r unless it is invisible. Digits of other scripts stay: they are
// digits to readers too, and Folded tells what letters they look like.
func writePlain(b *strings.Builder, r rune) {
	plain, known := lookAlikes()[r]
	switch {
	case known && !unicode.IsDigit(r):
		b.WriteString(plain)
	case visible(r) >= 0:
		b.WriteRune(r)
	}
}

// isPlain reports whether a line has only printable ASCII and tabs.
func isPlain(line string) bool {
	for i := range len(line) {
		if c := line[i]; c >= 0x7f || (c < ' ' && c != '\t') {
			return false
		}
	}
	return true
}

// visible returns -1 for a character that takes no space, and a space for every kind of space.
func visible(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.In(r, unicode.Cf, unicode.Cc, unicode.Mn, unicode.Me), strings.ContainsRune(blankLetters, r):
		return -1
	}
	return r
}

// blankLetters are letters or symbols to Unicode but print nothing: Hangul fillers, the blank braille cell and the
// variation selectors of Mongolian.
const blankLetters = "\u115f\u1160\u3164\uffa0\u2800\u180e"
