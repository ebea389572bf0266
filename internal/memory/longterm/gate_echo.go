package longterm

import (
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

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

// isEcho reports whether a quote from a user's message is a paste.
func isEcho(in Input, message aliased, quote string) bool {
	return isPasted(message.Content, quote) || repeats(in, message, quote)
}

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
	for _, m := range append(append([]Message{}, in.Recent...), in.New...) {
		if m.Seq < message.Seq && isCopyWithin(plain, lang.Bare(m.Content)) {
			return m.Role != memory.RoleUser // what the user said first is theirs, whoever repeated it
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
	for _, line := range lines[from:to] {
		if isMachineLine(line.text) || line.fenced || line.injected || isAboutUser(line.text, quote) {
			return true
		}
	}
	return false
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
