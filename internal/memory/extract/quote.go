package extract

import (
	"strings"
	"unicode/utf8"
)

const (
	// mostQuote is the longest quote that is kept, in characters.
	mostQuote = 200
	// leastLikeness is the least share of a quote's 3-grams that a message must hold in one place.
	leastLikeness = .6
	// omissions are what a model writes where it left words out.
	omissions = "…"
)

// quotes reports whether a quote is in a message: word for word apart from case, marks and spaces, in parts where it
// leaves words out, or at least alike.
func quotes(message, quote string) bool {
	whole := bare(message)
	parts := strings.Split(strings.NewReplacer("...", omissions, "[…]", omissions).Replace(quote), omissions)
	rest, found := whole, 0
	for _, part := range parts {
		part = bare(part)
		if part == "" {
			continue
		}
		at := indexOfWords(rest, part)
		if at < 0 {
			return likeness(whole, bare(quote)) >= leastLikeness
		}
		rest, found = rest[at+len(part):], found+1
	}
	return found > 0
}

// indexOfWords returns where part is in content; a short one only as whole words, so that "no" is not in "know".
func indexOfWords(content, part string) int {
	const short = 8 // bytes
	if len(part) > short || strings.ContainsFunc(part, isSpaceless) {
		return strings.Index(content, part)
	}
	return strings.Index(" "+content+" ", " "+part+" ")
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
