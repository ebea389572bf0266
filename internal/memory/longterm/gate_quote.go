package longterm

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

const (
	// mostQuote is the longest quote that is kept, in characters.
	mostQuote = 200
	// omissions are what a model writes where it left words out.
	omissions = "…"
)

// quoteIn returns the words of a message that a quote repeats, as the message has them, and whether there are such words: one
// run of them, or two of one line with words left out between, which the quote marks. Case, marks and spaces do not matter;
// everything else does. A model that bends the words proves nothing.
func quoteIn(message, quote string) (words string, found bool) {
	var parts [][]rune
	for part := range strings.SplitSeq(strings.NewReplacer("...", omissions, "[…]", omissions).Replace(quote), omissions) {
		if letters, _ := spellingOf(part); len(letters) > 0 {
			parts = append(parts, letters)
		}
	}
	if len(parts) == 0 || len(parts) > 2 {
		return "", false
	}
	for line := range strings.Lines(message) {
		letters, places := spellingOf(line)
		from, to, ok := runOf(letters, places, parts[0], 0)
		if ok && len(parts) == 2 {
			_, to, ok = runOf(letters, places, parts[1], to)
		}
		if ok {
			return strings.TrimSpace(line[places[from].start:places[to-1].end]), true
		}
	}
	return "", false
}

// place is where a letter stands in its text, in bytes, and whether a word begins or ends with it.
type place struct {
	start, end   int
	first, final bool
}

// spellingOf returns the folded letters, digits and marks of a text, and where each stands in it.
func spellingOf(content string) (letters []rune, places []place) {
	inWord := false
	for at, r := range content {
		end := at + utf8.RuneLen(r)
		folded := []rune(strings.ReplaceAll(lang.Bare(string(r)), " ", ""))
		isAccent := len(folded) == 0 && (unicode.IsMark(r) || unicode.Is(unicode.Cf, r)) // of the letter before
		if isAccent && inWord {
			places[len(places)-1].end = end
			continue
		}
		if len(folded) == 0 {
			if len(places) > 0 {
				places[len(places)-1].final = true
			}
			inWord = false
			continue
		}
		alone := lang.Spaceless(r)
		for n, letter := range folded {
			begins := n == 0 && (!inWord || alone || isPrefix(places, letters))
			places = append(places, place{at, end, begins, alone && n == len(folded)-1})
			letters = append(letters, letter)
		}
		inWord = !alone
	}
	if len(places) > 0 {
		places[len(places)-1].final = true
	}
	return letters, places
}

// isPrefix reports whether what was read last is a word of its own that is written together with the next one, as Arabic
// writes "and", "for" and "in".
func isPrefix(places []place, letters []rune) bool {
	last := len(places) - 1
	return places[last].first && strings.ContainsRune("وفبلك", letters[last])
}

// runOf returns where part stands in letters from a place on: whole words.
func runOf(letters []rune, places []place, part []rune, after int) (from, to int, ok bool) {
	for from = after; from+len(part) <= len(letters); from++ {
		to = from + len(part)
		if places[from].first && places[to-1].final && slices.Equal(letters[from:to], part) {
			return from, to, true
		}
	}
	return 0, 0, false
}

// likeness returns the share of a quote's 3-grams that a message holds within a stretch of twice its length.
func likeness(message, quote string) float64 {
	grams := gramsOf([]rune(quote))
	wanted := map[string]bool{}
	for _, g := range grams {
		wanted[g] = true
	}
	if len(wanted) == 0 {
		return 0
	}
	held := gramsOf([]rune(message))
	width := 2*len(grams) + 10
	inside, distinct, most := map[string]int{}, 0, 0
	for n, g := range held {
		if wanted[g] {
			if inside[g]++; inside[g] == 1 {
				distinct++
			}
		}
		if n >= width && wanted[held[n-width]] {
			if inside[held[n-width]]--; inside[held[n-width]] == 0 {
				distinct--
			}
		}
		most = max(most, distinct)
	}
	return float64(most) / float64(len(wanted))
}

func gramsOf(runes []rune) []string {
	var grams []string
	for n := 3; n <= len(runes); n++ {
		grams = append(grams, string(runes[n-3:n]))
	}
	return grams
}

// clipQuote returns at most mostQuote characters of a quote, on one line.
func clipQuote(quote string) string {
	quote = strings.Join(strings.Fields(quote), " ")
	if utf8.RuneCountInString(quote) <= mostQuote {
		return quote
	}
	return strings.TrimSpace(string([]rune(quote)[:mostQuote-1])) + omissions
}
