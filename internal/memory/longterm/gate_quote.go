package longterm

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// mostQuote is the longest quote that is kept, in characters.
const mostQuote = 200

// quoteIn returns the words of a message that a quote repeats, as the message has them, and whether there are such words: one
// run of them, or two of one line with words left out between, which the quote marks. Case, marks and spaces do not matter;
// everything else does. A model that bends the words proves nothing.
func quoteIn(message, quote string) (words string, found bool) {
	var parts [][]rune
	for part := range strings.SplitSeq(strings.NewReplacer("...", text.Ellipsis, "[…]", text.Ellipsis).Replace(quote), text.Ellipsis) {
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

// isPrefix reports whether the last letter is a word of its own that is written together with the next one, as Arabic
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
func clipQuote(quote string) string { return text.Shorten(text.OneLine(quote), mostQuote) }

// A user message can hold much that the user does not say: what an assistant wrote before, the memories that a prompt
// showed, the files with which an agent starts, the output of a tool. Such text is no evidence.

const (
	// leastEchoWords is how long a quote must be that is taken for a copy of what an assistant wrote. Shorter ones are
	// answers to its question.
	leastEchoWords = 6
	leastEchoRunes = 14 // in scripts without spaces
	leastShown     = 3  // words, of a memory that was shown
	// nearCopy is the least share of a text's 3-grams that a copy of it has in one place.
	nearCopy = .92
)

// repeats reports whether a quote stands in what an assistant or a tool wrote before the message, or in a memory that the
// prompts showed.
func repeats(in Input, message aliased, quote string) bool {
	plain := lang.Bare(quote)
	for _, shown := range in.Shown {
		if len(lang.WordsOf(shown)) >= leastShown && isCopy(plain, lang.Bare(shown)) {
			return true
		}
	}
	if !isLongEnough(plain) {
		return false
	}
	written := slices.Concat(in.Outputs, in.Recent, in.New)
	slices.SortStableFunc(written, func(a, b memory.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, m := range written {
		if m.Seq < message.Seq && isCopyWithin(plain, lang.Bare(m.Content)) {
			return m.Role != memory.RoleUser // the user's own words stay theirs when they are repeated
		}
	}
	return false
}

func isLongEnough(plain string) bool {
	if strings.ContainsFunc(plain, lang.Spaceless) {
		return len([]rune(plain)) >= leastEchoRunes
	}
	return strings.Count(plain, " ")+1 >= leastEchoWords
}

// isCopy reports whether two bare texts are the same text, or one holds the other.
func isCopy(quote, shown string) bool {
	return quote == shown || isLongEnough(shown) && strings.Contains(" "+quote+" ", " "+shown+" ") ||
		isNearCopy(quote, shown) && len(missing(shown, quote)) == 0
}

func isCopyWithin(quote, written string) bool {
	return strings.Contains(written, quote) || isNearCopy(quote, written)
}

// isNearCopy reports whether a text holds all words of a quote, and nearly all in one place. To be alike is not enough: who says
// "17" in the words of a memory that says "12" corrects it.
func isNearCopy(quote, written string) bool {
	return likeness(written, quote) >= nearCopy && len(missing(quote, written)) == 0
}

// missing returns the terms of a bare text that another does not have.
func missing(content, other string) []string {
	terms := lang.Terms(other)
	return slices.DeleteFunc(lang.Terms(content), func(term string) bool { return slices.Contains(terms, term) })
}

// isPasted reports whether the line of a message in which a quote stands looks like something that was pasted.
func isPasted(content, quote string) bool {
	lines := linesOf(content)
	from, to := placeOf(lines, quote)
	if isBootFile(lines) {
		return true
	}
	return slices.ContainsFunc(lines[from:to], func(l line) bool {
		return isMachineLine(l.text) || l.fenced || l.injected || isAboutUser(l.text, quote)
	})
}

// line is a line of a message, and what surrounds it.
type line struct {
	text string
	// fenced: within a code fence. injected: under a heading of a prompt, a list of memories or a system message.
	fenced, injected bool
}

func linesOf(content string) []line {
	var lines []line
	fenced, injected := false, false
	for start := 0; start < len(content); {
		end, next := text.LineSpan(content, start)
		current := strings.TrimSpace(content[start:end])
		start = next
		switch {
		case strings.HasPrefix(current, "```") || strings.HasPrefix(current, "~~~"):
			fenced = !fenced
		case opensInjection(current):
			injected = true
		case anyMatches(injectionCloses, current):
			lines = append(lines, line{current, fenced, true})
			injected = false
			continue
		case injected && current == "":
			injected = false
		}
		lines = append(lines, line{current, fenced, injected})
	}
	if len(lines) == 0 {
		return []line{{}}
	}
	return lines
}

// placeOf returns the line in which a quote stands, as a range; all of them where it cannot be told.
func placeOf(lines []line, quote string) (from, to int) {
	plain := lang.Bare(quote)
	for n := range lines {
		if held := lang.Bare(lines[n].text); held != "" && strings.Contains(held, plain) {
			return n, n + 1
		}
	}
	return 0, len(lines)
}

var (
	injectionOpens  = written("injection opens")
	injectionCloses = written("injection closes")
	injectionTitle  = framed(`^(?:#{1,6} |\*{2}|={2,} ?|-{2,} ?)?...(?: \([^)]*\))?\s*(?:\*{2}|={2,})?\s*:?(?:\*{2})?$`, "titles of memories")
)

// opensInjection reports whether a line begins what an agent put into the message.
func opensInjection(content string) bool {
	return anyMatches(injectionOpens, content) || prompt.LooksLikeHeading(content) || injectionTitle().MatchString(lang.Fold(content))
}

// Lines of the files with which an agent starts: bootNames tell the assistant who it is or name such a file, bootRules are
// others. Two lines among three and more, of which one names, make a message such a file. Rules of style alone do not.
var bootNames, bootRules = written("boot names"), written("boot rules")

func isBootFile(lines []line) bool {
	const few, two = 3, 2
	full, names, rules := 0, 0, 0
	for _, l := range lines {
		switch {
		case l.text == "":
			continue
		case anyMatches(bootNames, l.text):
			names++
		case anyMatches(bootRules, l.text):
			rules++
		}
		full++
	}
	return full >= few && names > 0 && names+rules >= two
}

// machineLines are the forms of lines that machines write.
var machineLines = written("machine lines")

// isMachineLine reports whether a line was written by a machine, or quoted from another text.
func isMachineLine(content string) bool {
	return anyMatches(machineLines, content) || strings.HasPrefix(content, ">") || text.LooksLikeLabel(content, true)
}

// aboutUser are beginnings of sentences about the user in the third person. People say "I".
var aboutUser = func() []expression {
	const start = `(?:^|[.!?;:。！？\n]\s*|^\W{0,6})(?:[-*•·]\s*|\d+[.)]\s*)?`
	var all []expression
	for _, s := range lang.Each("notes begin") {
		all = append(all, made(func() string {
			if lang.HasSpaces(s.Language) {
				return start + `(?:` + lang.Folded(s) + `) (?:\pL+|')`
			}
			return start + `(?:` + lang.Folded(s) + `)`
		}))
	}
	return all
}()

// isAboutUser reports whether the sentence of a line in which a quote stands speaks of the user as "the user".
func isAboutUser(content, quote string) bool {
	plain := lang.Bare(quote)
	found, about := false, false
	for _, sentence := range text.Sentences(content) {
		held, speaks := lang.Bare(sentence), anyMatches(aboutUser, lang.Fold(sentence))
		if strings.Contains(held, plain) || strings.Contains(plain, held) {
			if speaks {
				return true
			}
			found = true
		}
		about = about || speaks
	}
	return about && !found // the quote begins within one sentence and ends within another
}
