package text

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ellipsis replaces a text of which not even one character fits. It is one token.
const Ellipsis = "…"

// Shorten cuts a text to most characters, of which the last is an ellipsis then.
func Shorten(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:most-1])) + Ellipsis
}

// FitCap cuts the end off text so that at most limit tokens (at least 1) are left: after the last sentence that fits,
// else after a word, else after a character. Space around the result is trimmed. The result is empty only when text
// is blank.
func FitCap(text string, limit int) string {
	text = strings.TrimSpace(validUTF8(text))
	limit = max(1, limit)
	ends := tokenEnds(text)
	if len(ends) <= limit {
		return text
	}
	hard := ends[limit-1]
	sentences := sentenceEnds(text[:hard])
	for _, end := range slices.Backward(sentences) {
		if endsInWhole(text, end) && Tokens(text[:end]) <= limit {
			return text[:end]
		}
	}
	return cutAtWord(text, hard, limit)
}

// endsInWhole reports whether a sentence that ends in the cut text ends there in the whole text too: not in "3.|5".
func endsInWhole(text string, end int) bool {
	stop, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text[:end], closers))
	return endsThere(text, end, stop)
}

// cutAtWord cuts after the last word that fits, else after the last character.
func cutAtWord(text string, hard, limit int) string {
	for _, lastEnd := range []func(string, int, int) int{wordEnd, characterEnd} {
		for at := lastEnd(text, 0, hard); at > 0; at = lastEnd(text, 0, at-1) {
			if cut := strings.TrimSpace(text[:at]); cut != "" && Tokens(cut) <= limit {
				return cut
			}
		}
	}
	return Ellipsis
}

// NewestSentences drops whole sentences from the front of summary until at most room tokens are left. The last
// sentence always stays.
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

// ClipReserve is about how many tokens the note about omitted tokens takes.
const ClipReserve = 10

// Clip replaces the middle of text by a note ("[… 120 tokens omitted …]") so that at most limit tokens are left. It
// returns their number, too. A limit below ClipReserve leaves only the note, which may then exceed it. Of a far longer text only the ends
// are tokenized, because all of it would take long, and the note has an estimate.
func Clip(text string, limit int) (string, int) {
	text = validUTF8(text)
	for window := max(4*limit, 1<<10); window < len(text)/4; window *= 2 {
		if cut, n, ok := clipFar(text, window, limit); ok {
			return cut, n
		}
	}
	ends := tokenEnds(text)
	if len(ends) <= limit {
		return text, len(ends)
	}
	return clipTo(text, ends, limit, 0)
}

// clipFar clips a text by window bytes of each end. ok is false where these are not enough.
func clipFar(text string, window, limit int) (cut string, n int, ok bool) {
	tail := len(text) - window
	for !utf8.RuneStart(text[window]) {
		window--
	}
	for !utf8.RuneStart(text[tail]) {
		tail++
	}
	both := text[:window] + text[tail:]
	ends := tokenEnds(both)
	if head := sort.SearchInts(ends, window); min(head, len(ends)-head) <= limit/2+1 {
		return "", 0, false
	}
	cut, n = clipTo(both, ends, limit, len(ends)*(tail-window)/len(both))
	return cut, n, true
}

// clipTo clips a text of more tokens. So many are missing in its middle already.
func clipTo(text string, ends []int, limit, missing int) (string, int) {
	for keep := limit - ClipReserve; keep > 0; {
		cut := clipped(text, ends, keep, missing)
		n := Tokens(cut)
		if n <= limit {
			return cut, n
		}
		keep -= n - limit
	}
	note := omission(len(ends) + missing)
	return note, Tokens(note)
}

// clipped keeps about keep tokens of text, half from each end, cut at word ends where those are near.
func clipped(text string, ends []int, keep, missing int) string {
	half := (keep + 1) / 2
	head := characterEnd(text, 0, ends[half-1])
	if at := wordEnd(text, head*3/4, head); at > head*3/4 {
		head = at
	}
	tail := tailStart(text, ends[len(ends)-1-(keep-half)])
	omitted := sort.SearchInts(ends, tail+1) - sort.SearchInts(ends, head+1)
	parts := []string{strings.TrimSpace(text[:head]), omission(omitted + missing), strings.TrimSpace(text[tail:])}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// tailStart moves from to the next beginning of a word within the first quarter of the rest, else of a character.
func tailStart(text string, from int) int {
	for from < len(text) && characterEnd(text, from-1, from) != from {
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
