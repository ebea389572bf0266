package text

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
)

// confusables.txt is Unicode's table of characters that look like ASCII; its head says where it is from.
//
//go:embed confusables.txt
var confusables string

// more are characters that Unicode's table does not count as ASCII, but that pass for it in a word: small capitals, the
// Cyrillic and Greek letters of that shape, and others. The form is the table's.
const more = `
/	／
=	═꞊⚌≡
G	Ꮆ
L	Լ
N	Ո
H	Հ
Q	Ԛ
a	ᴀ
b	ʙвβ
d	ᴅ
e	ᴇεɛ
f	ꜰʃ
g	ɢԍ
h	ʜн
j	ᴊյȷ
k	ᴋкκ
l	ʟ
m	ᴍм
n	ɴп
p	ᴘ
r	ʀɾ
s	ƨ
t	ᴛтτ
u	и
w	ω
x	χ
`

// lookAlikes returns for a character the ASCII that it looks like.
var lookAlikes = sync.OnceValue(func() map[rune]string {
	of := map[rune]string{}
	for line := range strings.Lines(confusables + more) {
		plain, all, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		for _, r := range all {
			of[r] = plain
		}
	}
	for i := range 'Z' - 'A' + 1 { // white on black in circles and in squares, and the letters of flags
		for _, first := range "🅐🅰🇦" {
			of[first+i] = string('A' + i)
		}
	}
	return of
})

// LooksLike reports whether r looks like the ASCII character.
func LooksLike(r rune, plain string) bool {
	return string(r) == plain || r >= unicode.MaxASCII && lookAlikes()[r] == plain
}
