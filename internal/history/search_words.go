package history

import (
	"strings"
	"unicode"
)

// Postgres finds words between spaces, and several scripts have none. So messages are indexed with each
// character of such a script by itself (private.searchable in the migrations), and a query asks for
// those characters in a row: 東京 becomes "東 京", which is a phrase of two words.

// noSpaces are the scripts that put no spaces between words, as the migration has them: Thai, Lao, Burmese,
// Khmer, kana, Chinese characters, Hangul syllables.
var noSpaces = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x0E00, Hi: 0x0EFF, Stride: 1},
	{Lo: 0x1000, Hi: 0x109F, Stride: 1},
	{Lo: 0x1780, Hi: 0x17FF, Stride: 1},
	{Lo: 0x3040, Hi: 0x30FF, Stride: 1},
	{Lo: 0x3400, Hi: 0x4DBF, Stride: 1},
	{Lo: 0x4E00, Hi: 0x9FFF, Stride: 1},
	{Lo: 0xAC00, Hi: 0xD7AF, Stride: 1},
	{Lo: 0xF900, Hi: 0xFAFF, Stride: 1},
	{Lo: 0xFF66, Hi: 0xFF9F, Stride: 1},
}}

// straightQuotes are for phones, whose keyboards type the others.
var straightQuotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`)

// WebQuery is a query as Postgres is asked.
type WebQuery struct {
	// Text is for websearch_to_tsquery.
	Text string
	// Exact are the parts of Text that mean the very words: phrases, and what must not be there. English
	// leaves out "the" and "and", and so would find more than was asked for.
	Exact string
}

// WebSearch writes a query so that it finds what the index holds.
func WebSearch(query string) WebQuery {
	var text, exact strings.Builder
	for rest := straightQuotes.Replace(query); rest != ""; {
		before, after, quoted := strings.Cut(rest, `"`)
		writeWords(&text, before)
		for word := range strings.FieldsSeq(before) {
			if len(word) > 1 && word[0] == '-' {
				writeWords(&exact, word+" ")
			}
		}
		if !quoted {
			break
		}
		phrase, behind, closed := strings.Cut(after, `"`)
		if !closed {
			// Postgres would pair a lone quote with one of ours.
			text.WriteByte(' ')
			rest = after
			continue
		}
		phrase = `"` + spaced(phrase) + `"`
		text.WriteString(phrase)
		exact.WriteString(sign(before) + phrase + " ")
		rest = behind
	}
	return WebQuery{text.String(), strings.TrimRight(exact.String(), " ")}
}

// sign is that of a phrase, from the words before it.
func sign(before string) string {
	if before == "-" || strings.HasSuffix(before, " -") {
		return "-"
	}
	return ""
}

// writeWords makes a phrase of each word that has a character of noSpaces.
func writeWords(out *strings.Builder, text string) {
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return !inWord(r) })
		if end < 0 {
			end = len(text)
		}
		if end == 0 {
			end = strings.IndexFunc(text, inWord)
			if end < 0 {
				end = len(text)
			}
			out.WriteString(text[:end])
			text = text[end:]
			continue
		}
		writeWord(out, text[:end])
		text = text[end:]
	}
}

func writeWord(out *strings.Builder, word string) {
	if !strings.ContainsFunc(word, isSpaceless) {
		out.WriteString(word)
		return
	}
	out.WriteString(`"` + spaced(word) + `"`)
}

func inWord(r rune) bool {
	return isSpaceless(r) || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

func isSpaceless(r rune) bool { return unicode.Is(noSpaces, r) }

// spaced sets the characters of noSpaces apart from each other and from what is beside them.
func spaced(text string) string {
	var out strings.Builder
	apart := true // whether a space, or nothing, was written last
	for _, r := range text {
		switch {
		case !isSpaceless(r):
			out.WriteRune(r)
			apart = unicode.IsSpace(r)
			continue
		case !apart:
			out.WriteByte(' ')
		}
		out.WriteRune(r)
		out.WriteByte(' ')
		apart = true
	}
	return strings.TrimRight(out.String(), " ")
}
