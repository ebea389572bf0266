package lang

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Fold returns text in the form in which spellings of the same are equal: compatibility forms as plain ones, in lower
// case, without accents, white space as one space, quotes and dashes plain.
func Fold(content string) string {
	var b strings.Builder
	b.Grow(len(content))
	gap := false
	for _, r := range norm.NFKD.String(content) {
		r = foldRune(unicode.ToLower(r))
		switch {
		case r < 0:
		case unicode.IsSpace(r):
			gap = b.Len() > 0
		default:
			if gap {
				b.WriteByte(' ')
			}
			gap = false
			b.WriteRune(r)
		}
	}
	return norm.NFC.String(strings.ReplaceAll(b.String(), "ß", "ss"))
}

// FoldAs is Fold for texts in one language: German without its umlauts has "hatte" for "had" and for "would have", and Vietnamese
// without its accents "dung" for "do not" and for "use".
func FoldAs(language, content string) string {
	switch language {
	case "de":
		content = umlauts.Replace(strings.ToLower(norm.NFC.String(content)))
	case "vi":
		return strings.Join(strings.Fields(strings.ToLower(norm.NFC.String(content))), " ")
	}
	return Fold(content)
}

var umlauts = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue")

// foldRune returns -1 for accents and what cannot be seen.
func foldRune(r rune) rune {
	switch {
	case r >= 0x300 && r <= 0x36F, r >= 0x64B && r <= 0x655, r == 'ـ', unicode.Is(unicode.Cf, r):
		return -1
	case r == 'ı':
		return 'i'
	case r == 'ł':
		return 'l'
	case r == 'ø':
		return 'o'
	case r == 'đ':
		return 'd'
	case r == 'æ':
		return 'a'
	case strings.ContainsRune("’‘‚`´ʼ＇", r):
		return '\''
	case strings.ContainsRune("“”„«»‹›「」『』", r):
		return '"'
	case strings.ContainsRune("–—‐‑−", r):
		return '-'
	}
	return r
}

// Bare returns a folded text with nothing but its letters, digits and marks, words one space apart.
func Bare(content string) string { return strings.Join(WordsOf(content), " ") }

// WordsOf returns the folded words of a text. An apostrophe separates words, and what a script without spaces writes
// between two marks is one word.
func WordsOf(content string) []string {
	return strings.FieldsFunc(Fold(content), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
}

// Terms returns the words of a text that can be compared one by one: in scripts without spaces each pair of
// neighbouring characters.
func Terms(content string) []string {
	var terms []string
	for _, word := range WordsOf(content) {
		if !strings.ContainsFunc(word, Spaceless) {
			terms = append(terms, word)
			continue
		}
		runes := []rune(word)
		for n := range max(len(runes)-1, 1) {
			terms = append(terms, string(runes[n:min(n+2, len(runes))]))
		}
	}
	return terms
}

// Spaceless reports whether r belongs to a script in which a word cannot be told by spaces.
func Spaceless(r rune) bool {
	return Unspaced(r) || unicode.Is(unicode.Hangul, r)
}

// Unspaced reports whether r belongs to a script that puts no spaces between words.
func Unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar) || strings.ContainsRune("、，ー", r)
}
