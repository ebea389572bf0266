package extract

import (
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/text"
	"golang.org/x/text/unicode/norm"
)

// fold returns text in the form in which spellings of the same are equal: compatibility forms as plain ones, in lower
// case, without accents, white space as one space, quotes and dashes plain.
func fold(content string) string {
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

// foldRune returns -1 for accents and what cannot be seen.
func foldRune(r rune) rune {
	switch {
	case r >= 0x300 && r <= 0x36F, r >= 0x64B && r <= 0x652, r == 'ـ', unicode.Is(unicode.Cf, r):
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

// bare returns a folded text with nothing but its letters, digits and marks, words one space apart.
func bare(content string) string { return strings.Join(wordsOf(content), " ") }

// wordsOf returns the folded words of a text. An apostrophe separates words, and what a script without spaces writes
// between two marks is one word.
func wordsOf(content string) []string {
	return strings.FieldsFunc(fold(content), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
}

// termsOf returns the words of a text that can be compared one by one: in scripts without spaces each pair of
// neighbouring characters.
func termsOf(content string) []string {
	var terms []string
	for _, word := range wordsOf(content) {
		if !strings.ContainsFunc(word, isSpaceless) {
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

// isSpaceless reports whether r belongs to a script in which a word cannot be told by spaces.
func isSpaceless(r rune) bool {
	return text.Unspaced(r) || unicode.Is(unicode.Hangul, r)
}

// contentOf returns the terms of a text that say something: not the function words of its language, nor those with which
// every fact begins.
func contentOf(content string) []string {
	lang := languageOf(content)
	var terms []string
	for _, term := range termsOf(content) {
		if !isEmptyWord(term, lang) {
			terms = append(terms, term)
		}
	}
	return terms
}

func isEmptyWord(term, lang string) bool {
	runes := []rune(term)
	if strings.ContainsFunc(term, isSpaceless) {
		return spacelessEmpty[term] || !strings.ContainsFunc(term, func(r rune) bool {
			return unicode.In(r, unicode.Han, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
		})
	}
	return len(runes) == 1 && !unicode.IsDigit(runes[0]) || functionWords["en"][term] || functionWords[lang][term] || userWords[term]
}

// sameStem reports whether two folded words are forms of one: they begin alike, and end in at most three other letters.
func sameStem(a, b string) bool {
	if a == b {
		return true
	}
	x, y := []rune(a), []rune(b)
	common := 0
	for common < len(x) && common < len(y) && x[common] == y[common] {
		common++
	}
	longest := max(len(x), len(y))
	return common >= 3 && longest-common <= 3 && common*2 > longest
}

// shares reports whether one of terms has a form in others.
func countShared(terms, others []string) int {
	n := 0
	for _, term := range terms {
		for _, other := range others {
			if sameStem(term, other) {
				n++
				break
			}
		}
	}
	return n
}
