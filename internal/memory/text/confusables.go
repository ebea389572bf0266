package text

import (
	"html"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// SeenRunes is how much of a line is looked at for what can only stand at its beginning.
const SeenRunes = 160

// AsSeen gives the first limit characters of a line as they look: without leading space, accents and
// invisible characters, entities decoded, compatibility forms (full-width, mathematical, circled …) and
// letters of other alphabets in the plain shape that they have or resemble. Case stays.
func AsSeen(line string, limit int) string {
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
	return strings.TrimSpace(strings.Map(resembled, norm.NFKD.String(b.String())))
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

// blankLetters count as letters or symbols but print nothing: Hangul fillers, the blank braille cell and
// the variation selectors of Mongolian.
const blankLetters = "\u115f\u1160\u3164\uffa0\u2800\u180e"

// What looks like a colon or an equals sign, with and without a compatibility form.
const (
	colons      = "\uff1a\ufe55\ufe13\u2a74\u2236\ua789\u02d0\u02f8\u0589\u05c3\u1803\u205a\u0703"
	equalsSigns = "\uff1d\ufe66\u207c\u208c\u2a75\u2a76\u2550\ua78a\u2e40\u30a0\u268c\u2261\u1400"
)

// resembled is visible, and gives what a character resembles.
func resembled(r rune) rune {
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
	case r >= '🅰' && r <= '🆉': // and in squares
		return 'A' + r - '🅰'
	case r >= '\U0001f1e6' && r <= '\U0001f1ff': // the letters of flags
		return 'A' + r - '\U0001f1e6'
	}
	if plain, ok := lookalikes[r]; ok {
		return plain
	}
	return visible(r)
}

// lookalikes are letters that resemble another one of the words we look for, and have no form that
// Unicode calls compatible: Cyrillic, Greek, Armenian, Cherokee, Lisu and phonetic ones. See Unicode's
// technical report 39; Latin letters with strokes and hooks are there, too.
var lookalikes = pairs(
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

// pairs reads rows of characters and what they resemble.
func pairs(rows ...string) map[rune]rune {
	made := map[rune]rune{}
	for i := 0; i+1 < len(rows); i += 2 {
		resembles := []rune(rows[i+1])
		for n, r := range []rune(rows[i]) {
			made[r] = resembles[n]
		}
	}
	return made
}

// OneLine returns text with each run of white space as one space.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
