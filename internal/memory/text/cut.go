package text

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ellipsis stands for a text of which not even one character fits: one token.
const Ellipsis = "…"

// FitCap cuts text to at most limit tokens (at least 1): after the last sentence that fits, or, when
// the first sentence is already too long, at a word end, or, when it is one long word, between two
// characters. Space around the result is trimmed. It is empty only when text holds nothing but space.
func FitCap(text string, limit int) string {
	text = strings.TrimSpace(Valid(text))
	limit = max(1, limit)
	ends := tokenEnds(text)
	if len(ends) <= limit {
		return text
	}
	hard := ends[limit-1]
	sentences := sentenceEnds(text[:hard])
	for _, end := range slices.Backward(sentences) {
		if sentenceSurvives(text, end) && Tokens(text[:end]) <= limit {
			return text[:end]
		}
	}
	return cutWords(text, hard, limit)
}

// sentenceSurvives guards against an end that only the cut made one: "3.|5", "e.g.|, …".
func sentenceSurvives(text string, end int) bool {
	stop, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text[:end], closers))
	return endsThere(text, end, stop)
}

func cutWords(text string, hard, limit int) string {
	for _, border := range []func(string, int, int) int{wordEnd, runeBorder} {
		for at := border(text, 0, hard); at > 0; at = border(text, 0, at-1) {
			if cut := strings.TrimSpace(text[:at]); cut != "" && Tokens(cut) <= limit {
				return cut
			}
		}
	}
	return Ellipsis
}

// NewestSentences drops whole sentences from the front of summary until what is left takes at most
// room tokens. The last sentence always stays. The result equals summary when nothing had to go.
func NewestSentences(summary string, room int) string {
	starts := []int{0}
	for _, end := range sentenceEnds(summary) {
		if strings.TrimSpace(summary[end:]) != "" {
			starts = append(starts, end)
		}
	}
	first := sort.Search(len(starts)-1, func(i int) bool {
		return Tokens(strings.TrimSpace(summary[starts[i]:])) <= room
	})
	return strings.TrimSpace(summary[starts[first]:])
}

// ClipReserve is about what the note about omitted tokens takes itself, in tokens.
const ClipReserve = 10

// Clip cuts tokens out of the middle of text, and says how many, so that at most limit tokens are
// left; it gives their number, too. A limit under clipReserve leaves the bare note.
func Clip(text string, limit int) (string, int) {
	text = Valid(text)
	ends := tokenEnds(text)
	if len(ends) <= limit {
		return text, len(ends)
	}
	for keep := limit - ClipReserve; keep > 0; {
		cut := clipped(text, ends, keep)
		n := Tokens(cut)
		if n <= limit {
			return cut, n
		}
		keep -= n - limit
	}
	note := omission(len(ends))
	return note, Tokens(note)
}

// clipped keeps about keep tokens of text, half of them from either end, at word ends where those are near.
func clipped(text string, ends []int, keep int) string {
	half := (keep + 1) / 2
	head := runeBorder(text, 0, ends[half-1])
	if at := wordEnd(text, head*3/4, head); at > head*3/4 {
		head = at
	}
	tail := tailStart(text, ends[len(ends)-1-(keep-half)])
	omitted := sort.SearchInts(ends, tail+1) - sort.SearchInts(ends, head+1)
	parts := []string{strings.TrimSpace(text[:head]), omission(omitted), strings.TrimSpace(text[tail:])}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// tailStart moves from to where a word begins, within the first quarter of what follows, or at least
// to where a character begins.
func tailStart(text string, from int) int {
	for from < len(text) && runeBorder(text, from-1, from) != from {
		from++
	}
	window := from + (len(text)-from)/4
	if space := strings.IndexFunc(text[from:], unicode.IsSpace); space >= 0 && from+space <= window {
		return from + space
	}
	return from
}

func omission(tokens int) string {
	return fmt.Sprintf("[… %d tokens omitted …]", tokens)
}
