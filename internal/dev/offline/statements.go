package offline

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The labels of a summary's statements. Statements of a summary that is not ours have none.
const (
	labelSaid      = "The user said:"
	labelAsked     = "The user asked:"
	labelSuggested = "The assistant suggested:"
)

var labels = []string{labelSaid, labelAsked, labelSuggested}

// statementRunes is the longest statement in characters that a fold takes from a turn.
const statementRunes = 260

// statement is one statement of a summary and its label.
type statement struct {
	label string // one of labels; "" for none
	text  string
	// newLine is true for a statement without label that begins a line: lists and headings are preserved.
	newLine bool
	// position and worth are set when a summary is made of statements.
	position int
	worth    float64
}

// labelled returns the statement with its label.
func (e statement) labelled() string {
	if e.label == "" {
		return e.text
	}
	return e.label + " " + e.text
}

// parseSummary reads a summary back: ours by its headings and list lines, others by sentences.
func parseSummary(summary string) []statement {
	var found []statement
	label := ""
	for line := range strings.Lines(summary) {
		line = strings.TrimSpace(line)
		if i := slices.Index(labels, line); i >= 0 {
			label = labels[i]
			continue
		}
		if item, ok := strings.CutPrefix(line, "- "); ok && label != "" {
			found = append(found, statement{label: label, text: item})
			continue
		}
		label = ""
		if line != "" {
			found = append(found, proseStatements(line)...)
		}
	}
	return found
}

// proseStatements returns the sentences of a line that is not ours, unchanged: another model may have chosen its form.
func proseStatements(line string) []statement {
	label := ""
	for _, speaker := range labels {
		if rest, ok := strings.CutPrefix(line, speaker+" "); ok {
			label, line = speaker, rest
		}
	}
	var found []statement
	for len(line) > 0 {
		end := sentenceEnd(line)
		for _, part := range chunks(strings.TrimSpace(line[:end])) {
			found = append(found, statement{label: label, text: part, newLine: len(found) == 0})
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

// turnStatements returns the statements of the new turns.
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

// turnStatement makes a statement of a sentence. It returns false for one that repeats the user or carries no information.
func turnStatement(sentence string, assistant bool) (statement, bool) {
	if strings.Contains(sentence, "===") || isStock(sentence) {
		return statement{}, false
	}
	sentence = ended(withoutLoop(clip(sentence, statementRunes)))
	switch {
	case !assistant && isQuestion(sentence):
		return statement{label: labelAsked, text: sentence}, true
	case !assistant:
		return statement{label: labelSaid, text: sentence}, true
	case quotation.MatchString(sentence) && !strings.HasPrefix(sentence, "Source "):
		return statement{}, false // our own echo of what the user or the summary says
	}
	return statement{label: labelSuggested, text: sentence}, true
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

// render writes the statements as a summary: lists under their labels, prose without one.
func render(all []statement) string {
	var out strings.Builder
	for i, e := range all {
		follows := i > 0 && all[i-1].label == e.label
		switch {
		case i == 0:
		case follows && e.label == "" && !e.newLine:
			out.WriteString(" ")
		default:
			out.WriteString("\n")
		}
		if e.label != "" && !follows {
			out.WriteString(e.label + "\n")
		}
		if e.label != "" {
			out.WriteString("- ")
		}
		out.WriteString(e.text)
	}
	return out.String()
}
