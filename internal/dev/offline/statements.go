package offline

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The speakers of a summary's statements; a summary that is not ours has statements of nobody.
const (
	bySaid      = "The user said:"
	byAsked     = "The user asked:"
	bySuggested = "The assistant suggested:"
)

var speakers = []string{bySaid, byAsked, bySuggested}

// entryRunes is the longest statement in characters that a fold takes over from a turn.
const entryRunes = 260

// statement is one statement of a summary and whose words it is.
type statement struct {
	by   string // one of speakers, "" for nobody
	text string
	// newLine tells that nobody's statement begins a line, which is how lists and headings survive.
	newLine bool
}

// labelled is the statement with its speaker.
func (e statement) labelled() string {
	if e.by == "" {
		return e.text
	}
	return e.by + " " + e.text
}

// parseSummary reads a summary back: ours by its headings and list lines, others by sentences.
func parseSummary(summary string) []statement {
	var found []statement
	by := ""
	for line := range strings.Lines(summary) {
		line = strings.TrimSpace(line)
		if i := slices.Index(speakers, line); i >= 0 {
			by = speakers[i]
			continue
		}
		if item, ok := strings.CutPrefix(line, "- "); ok && by != "" {
			found = append(found, statement{by: by, text: item})
			continue
		}
		by = ""
		if line != "" {
			found = append(found, proseStatements(line)...)
		}
	}
	return found
}

// proseStatements are the sentences of a line that is not ours, to the letter: nothing of them is
// dropped for its form, for another model may have chosen it.
func proseStatements(line string) []statement {
	by := ""
	for _, speaker := range speakers {
		if rest, ok := strings.CutPrefix(line, speaker+" "); ok {
			by, line = speaker, rest
		}
	}
	var found []statement
	for len(line) > 0 {
		end := sentenceEnd(line)
		for _, part := range chunks(strings.TrimSpace(line[:end])) {
			found = append(found, statement{by: by, text: part, newLine: len(found) == 0})
		}
		line = strings.TrimLeft(line[end:], " ")
	}
	return found
}

// chunks cuts a very long sentence into parts of 40 words, so that a part of it can be dropped.
func chunks(sentence string) []string {
	const size = 40
	fields := strings.Fields(sentence)
	if len(fields) <= size {
		return []string{sentence}
	}
	var parts []string
	for part := range slices.Chunk(fields, size) {
		parts = append(parts, strings.Join(part, " "))
	}
	return parts
}

// turnStatements are what the new turns say, fit for a summary.
func turnStatements(turns []utterance) []statement {
	var found []statement
	for _, u := range turns {
		for _, sentence := range sentences(withoutDirectives(u.text)) {
			if e, ok := turnStatement(sentence, u.assistant); ok {
				found = append(found, e)
			}
		}
	}
	return found
}

// turnStatement makes a statement of a sentence; false for what repeats the user or carries nothing.
func turnStatement(sentence string, assistant bool) (statement, bool) {
	if strings.Contains(sentence, "===") || isStock(sentence) {
		return statement{}, false
	}
	sentence = ended(withoutLoop(clip(sentence, entryRunes)))
	switch {
	case !assistant && isQuestion(sentence):
		return statement{by: byAsked, text: sentence}, true
	case !assistant:
		return statement{by: bySaid, text: sentence}, true
	case quotation.MatchString(sentence) && !strings.HasPrefix(sentence, "Source "):
		return statement{}, false // our own echo of what the user or the summary says
	}
	return statement{by: bySuggested, text: sentence}, true
}

// ended puts a full stop where a sentence has no end, so that readers who shorten the summary at
// sentence ends find one.
func ended(sentence string) string {
	last, _ := utf8.DecodeLastRuneInString(sentence)
	if unicode.IsLetter(last) || unicode.IsDigit(last) {
		return sentence + "."
	}
	return sentence
}

// render writes the statements as a summary: lists under their speakers, prose for nobody's.
func render(all []statement) string {
	var out strings.Builder
	for i, e := range all {
		follows := i > 0 && all[i-1].by == e.by
		switch {
		case i == 0:
		case follows && e.by == "" && !e.newLine:
			out.WriteString(" ")
		default:
			out.WriteString("\n")
		}
		if e.by != "" && !follows {
			out.WriteString(e.by + "\n")
		}
		if e.by != "" {
			out.WriteString("- ")
		}
		out.WriteString(e.text)
	}
	return out.String()
}
