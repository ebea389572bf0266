package text

import (
	"html"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Some lines have a meaning to us or to a model: fences, turn headers, speaker labels, headings. Text that people
// wrote must not pass for one, also when it hides behind zero-width characters, letters of another alphabet, markup
// or unusual line ends. So lines are compared by their skeletons.

// speakers are the words of speaker labels, in lower case.
var speakers = map[string]bool{"user": true, "assistant": true, "tool": true, "system": true, "developer": true, "human": true}

var (
	turnHeader  = regexp.MustCompile(`^turn\p{Nd}+$`)
	parentheses = regexp.MustCompile(`\([^)]*\)`)
	bullet      = regexp.MustCompile(`^[-*+•] `)
)

// QuotePrefix is put before a line that looks like markup of ours. A line that begins with it is plain text.
const QuotePrefix = "> "

// LooksLikeLabel reports whether a line begins like a turn's header ("Turn 3:") or a speaker label ("User:").
// With namesOnly it must be a speaker written as a name: not "user:", which is an ordinary key in many files.
func LooksLikeLabel(line string, namesOnly bool) bool {
	name, words := LabelOf(line)
	if !speakers[words] {
		return !namesOnly && turnHeader.MatchString(words)
	}
	first := strings.IndexFunc(name, unicode.IsLetter)
	return !bullet.MatchString(name) && (!namesOnly || first >= 0 && !unicode.IsLower(rune(name[first])))
}

// LabelOf returns the skeleton of what precedes the first colon of a line, without parentheses, and its letters and
// digits in lower case. Both are "" for a line without a label: the part is too long, or looks like data or code.
func LabelOf(line string) (name, words string) {
	const longestLabel = 96 // bytes
	if !hasColon(line) || strings.HasPrefix(line, QuotePrefix) {
		return "", ""
	}
	skeleton := Skeleton(line, PrefixRunes)
	if strings.Contains(skeleton, "(") {
		skeleton = parentheses.ReplaceAllString(skeleton, "")
	}
	name, _, found := strings.Cut(skeleton, ":")
	if !found || len(name) > longestLabel || strings.ContainsAny(name, `"'{=`) {
		return "", ""
	}
	return name, LettersAndDigits(name, "")
}

func hasColon(line string) bool { return hasAny(line, ":", ":&"+colons) }

// HasEquals reports whether the skeleton of a line can hold an equals sign. It is a cheap test that spares most
// lines the making of a skeleton.
func HasEquals(line string) bool { return hasAny(line, "=", "=&"+equalsSigns) }

// hasAny reports whether a line holds one of marks; in a plain line only the first mark and "&", which begins an HTML
// entity, are possible.
func hasAny(line, first, marks string) bool {
	if isPlain(line) {
		return strings.Contains(line, first) || strings.Contains(line, "&")
	}
	return strings.ContainsAny(line, marks)
}

// LettersAndDigits returns the letters and digits of a text in lower case, and the characters of also.
func LettersAndDigits(text, also string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(also, r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

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
		b.WriteRune(r)
		if runes++; runes >= limit {
			break
		}
	}
	return strings.TrimSpace(strings.Map(prototype, norm.NFKD.String(b.String())))
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

// Characters that look like a colon or an equals sign, with and without a compatibility form.
const (
	colons      = "\uff1a\ufe55\ufe13\u2a74\u2236\ua789\u02d0\u02f8\u0589\u05c3\u1803\u205a\u0703"
	equalsSigns = "\uff1d\ufe66\u207c\u208c\u2a75\u2a76\u2550\ua78a\u2e40\u30a0\u268c\u2261\u1400"
)

// prototype returns the ASCII character that r resembles, else r, else -1 when r is invisible.
func prototype(r rune) rune {
	if r < unicode.MaxASCII {
		return r
	}
	switch {
	case strings.ContainsRune(colons, r):
		return ':'
	case strings.ContainsRune(equalsSigns, r):
		return '='
	case r >= '🅐' && r <= '🅩': // white on black, in circles
		return 'A' + r - '🅐'
	case r >= '🅰' && r <= '🆉': // white on black, in squares
		return 'A' + r - '🅰'
	case r >= '\U0001f1e6' && r <= '\U0001f1ff': // the letters of flags
		return 'A' + r - '\U0001f1e6'
	}
	if plain, ok := confusables[r]; ok {
		return plain
	}
	return visible(r)
}

// confusables are letters without a compatibility form that resemble a letter of the words we look for: Cyrillic,
// Greek, Armenian, Cherokee, Lisu, phonetic ones, and Latin letters with strokes and hooks. A selection of the
// confusables of UTS #39.
var confusables = confusablePairs(
	"АВЕЅІЈКМНОРСТУХҮԌԚԜ", "ABESIJKMHOPCTYXYGQW",
	"авеѕіјкмнорстухүԁԍһԛԝӏѵпги", "abesijkmhopctyxydghqwlvnru",
	"ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX",
	"αβεηικνορστυχγω", "abenikvopotuxyw",
	"ՍՏՕԼՈՀսօոհյցք", "USOLNHuonhjgp",
	"ᎪᏴᏟᎠᎬᎶᎻᎥᎫᏦᏞᎷᏢᏒᏚᎢᏙᏔᎡᏀ", "ABCDEGHIJKLMPRSTVWRG",
	"ꓮꓐꓚꓓꓰꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬ", "ABCDEGHIJKLMNOPRSTUVWXY",
	"ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz",
	"ɑɡɩıłøđħŧʋɛɾʃȷƨɴ", "agiilodhtverfjsn",
)

// confusablePairs maps each character of a row to the one at the same position of the row after it.
func confusablePairs(rows ...string) map[rune]rune {
	pairs := map[rune]rune{}
	for i := 0; i+1 < len(rows); i += 2 {
		plain := []rune(rows[i+1])
		for n, r := range []rune(rows[i]) {
			pairs[r] = plain[n]
		}
	}
	return pairs
}
