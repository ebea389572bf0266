package text

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Split cuts text into parts of at most limit tokens that together are the whole text: between paragraphs, else
// between sentences, words or characters. A part is cut in its second half, so there are at most about twice as many
// parts as necessary. Invalid UTF-8 becomes U+FFFD.
func Split(text string, limit int) []string {
	text = validUTF8(text)
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

// partEnd returns the end of the part that begins at start. It is always after start.
func partEnd(text string, start, limit int, ends, sentences []int) int {
	first := sort.SearchInts(ends, start+1)
	for budget := max(1, limit); ; {
		hard := ends[min(first+budget, len(ends))-1]
		end := bestCut(text, start, hard, sentences)
		over := Tokens(text[start:end]) - limit // a part by itself can have more tokens than within the text
		if over <= 0 || budget == 1 {
			return end
		}
		budget = max(1, budget-over)
	}
}

// bestCut returns the best offset to cut at in (start, hard].
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
	if at := characterEnd(text, half, hard); at > half {
		return at
	}
	return anyRune(text, start, hard)
}

// pastSpace moves a cut past the space that follows it, so that the next part begins with a word.
func pastSpace(text string, at, hard int) int {
	return hard - len(strings.TrimLeftFunc(text[at:hard], unicode.IsSpace))
}

// anyRune returns a cut between two code points, after at least one. It is for a text without character borders,
// such as a letter with a thousand accents.
func anyRune(text string, start, hard int) int {
	for at := hard; at > start; at-- {
		if utf8.RuneStart(text[at]) {
			return at
		}
	}
	_, size := utf8.DecodeRuneInString(text[start:])
	return start + size
}
