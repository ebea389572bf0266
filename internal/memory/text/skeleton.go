package text

import (
	"html"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

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
