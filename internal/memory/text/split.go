package text

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Split cuts text into parts of at most limit tokens that together are the whole text: between
// paragraphs, else between sentences, words or characters. A part is cut in its second half, so that
// a text makes at most about twice as many parts as it must. Bytes that are no UTF-8 become U+FFFD.
func Split(text string, limit int) []string {
	text = Valid(text)
	ends := tokenEnds(text)
	sentences := sentenceEnds(text)
	var parts []string
	for start := 0; start < len(text); {
		end := partEnd(text, start, limit, ends, sentences)
		parts = append(parts, text[start:end])
		start = end
	}
	return parts
}

// partEnd gives where the part that begins at start ends. It is always after start.
func partEnd(text string, start, limit int, ends, sentences []int) int {
	first := sort.SearchInts(ends, start+1)
	for budget := max(1, limit); ; {
		hard := ends[min(first+budget, len(ends))-1]
		end := bestCut(text, start, hard, sentences)
		over := Tokens(text[start:end]) - limit // a text cut elsewhere can have a token more
		if over <= 0 || budget == 1 {
			return end
		}
		budget = max(1, budget-over)
	}
}

// bestCut gives the best place to cut in (start, hard].
func bestCut(text string, start, hard int, sentences []int) int {
	if hard == len(text) {
		return hard
	}
	half := start + (hard-start)/2
	if at := strings.LastIndex(text[half:hard], "\n\n"); at >= 0 {
		return half + at + 2
	}
	if i := sort.SearchInts(sentences, hard+1) - 1; i >= 0 && sentences[i] > half {
		return pastSpace(text, sentences[i], hard)
	}
	if at := wordEnd(text, half, hard); at > half {
		return pastSpace(text, at, hard)
	}
	if at := runeBorder(text, half, hard); at > half {
		return at
	}
	return anyRune(text, start, hard)
}

// pastSpace moves a cut behind the space that follows it, so that a part begins with a word.
func pastSpace(text string, at, hard int) int {
	return hard - len(strings.TrimLeftFunc(text[at:hard], unicode.IsSpace))
}

// anyRune cuts between two code points, after at least one: the last resort, for what is one endless
// character.
func anyRune(text string, start, hard int) int {
	for at := hard; at > start; at-- {
		if utf8.RuneStart(text[at]) {
			return at
		}
	}
	_, size := utf8.DecodeRuneInString(text[start:])
	return start + size
}
