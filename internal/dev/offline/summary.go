package offline

import (
	"cmp"
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

var labels = []string{"", labelSaid, labelAsked, labelSuggested}

// statement is one statement of a summary.
type statement struct {
	label    string // one of labels
	text     string
	position int
	worth    float64
}

// emptySummary is the summary of turns without a single statement: a summary is never empty.
const emptySummary = "The user and the assistant exchanged a few words without content."

// summarize answers a fold, or shortens a text that is no fold.
func summarize(r *Request) string {
	limit := capOf(r)
	f, ok := parseFold(r.Text)
	if !ok {
		return compress(parseSummary(withoutDirectives(r.Text)), limit)
	}
	// The server takes a summary that suddenly loses most of its text for damaged, so one far over the cap
	// shrinks in steps.
	if had := countTokens(f.existing); had > 200 {
		limit = max(limit, had*9/20)
	}
	return compress(append(parseSummary(f.existing), turnStatements(f.turns)...), limit)
}

// parseSummary reads a summary back: ours by its labels and list lines, others by sentences.
func parseSummary(summary string) []statement {
	var found []statement
	label := ""
	for line := range strings.Lines(summary) {
		line = strings.TrimSpace(line)
		if slices.Contains(labels, line) {
			label = line
			continue
		}
		if !strings.HasPrefix(line, "- ") {
			label = ""
		}
		for _, sentence := range sentences(line) {
			found = appendStatements(found, label, sentence)
		}
	}
	return found
}

// turnStatements returns what the new turns say, without what carries no information or repeats the user.
func turnStatements(turns []utterance) []statement {
	var found []statement
	for _, u := range turns {
		for _, sentence := range sentences(withoutDirectives(u.text)) {
			label := labelSaid
			switch {
			case strings.Contains(sentence, "===") || slices.Contains(stock, sentence) || u.assistant && quotation.MatchString(sentence):
				continue
			case u.assistant:
				label = labelSuggested
			case isQuestion(sentence):
				label = labelAsked
			}
			found = appendStatements(found, label, sentence)
		}
	}
	return found
}

// appendStatements appends a sentence. One that is very long is divided, so that a part of it can be dropped, and each
// ends in a stop, so that readers who shorten the summary at sentence ends find one.
func appendStatements(to []statement, label, sentence string) []statement {
	for part := range slices.Chunk(strings.Fields(sentence), 40) {
		text := strings.Join(part, " ")
		if last, _ := utf8.DecodeLastRuneInString(text); unicode.IsLetter(last) || unicode.IsDigit(last) {
			text += "."
		}
		to = append(to, statement{label: label, text: text})
	}
	return to
}

// compress keeps the most informative statements that fit the limit in tokens, in their order.
func compress(all []statement, limit int) string {
	all = distinct(all)
	if len(all) == 0 {
		return emptySummary
	}
	for i := range all {
		all[i].position = i
		all[i].worth = worth(all[i]) + float64(i)/float64(2*len(all)) // of two alike the older one is dropped first
	}
	slices.SortStableFunc(all, func(a, b statement) int { return cmp.Compare(b.worth, a.worth) })
	fits := func(text string) bool {
		_, loops := repeatedGram(text)
		return !loops && countTokens(text) <= limit
	}
	kept := fitting(all, limit)
	for ; len(kept) > 0; kept = kept[:len(kept)-1] {
		if text := render(kept); fits(text) {
			return text
		}
	}
	for fields := strings.Fields(all[0].text); len(fields) > 0; fields = fields[:len(fields)/2] {
		if text := render([]statement{{label: all[0].label, text: strings.Join(fields, " ")}}); fits(text) {
			return text
		}
	}
	return emptySummary
}

// distinct drops statements with the same words; the newest stays.
func distinct(all []statement) []statement {
	seen := map[string]bool{}
	var kept []statement
	for _, s := range slices.Backward(all) {
		if key := s.label + strings.Join(words(s.text), " "); !seen[key] {
			seen[key] = true
			kept = append(kept, s)
		}
	}
	slices.Reverse(kept)
	return kept
}

// fitting returns the first statements that fit and do not repeat each other too often. It does not count the labels:
// the caller has to check the rendered text.
func fitting(ranked []statement, limit int) []statement {
	const fewestTokens = 6 // about what a statement takes
	var kept []statement
	said := ""
	for _, s := range ranked {
		if limit < fewestTokens {
			break
		}
		tokens := countTokens("\n- " + s.text)
		if _, loops := repeatedGram(said + " " + s.text); loops || tokens > limit {
			continue
		}
		limit -= tokens
		said += " " + s.text
		kept = append(kept, s)
	}
	return kept
}

// render writes statements as a summary: those without a label line by line, then a list for each label.
func render(kept []statement) string {
	kept = slices.SortedFunc(slices.Values(kept), func(a, b statement) int { return a.position - b.position })
	var lines []string
	for _, label := range labels {
		for _, s := range kept {
			if s.label != label {
				continue
			}
			if label != "" && !slices.Contains(lines, label) {
				lines = append(lines, label)
			}
			if label != "" {
				s.text = "- " + s.text
			}
			lines = append(lines, s.text)
		}
	}
	return strings.Join(lines, "\n")
}

// worth returns how much a statement is worth keeping, by its text and its label.
func worth(s statement) float64 {
	value := float64(informativeness(s.text))
	switch s.label {
	case labelSuggested:
		return 0.4 * value
	case "":
		return value + 1 // another model found it worth keeping
	}
	return value
}

// informativeness estimates how much of a sentence matters later. At most two numbers, names and lasting facts count,
// and the first person most: a pasted article is full of names and numbers, but what people say of themselves is what
// they come back to.
func informativeness(sentence string) int {
	numbers, names, facts, person := 0, 0, 0, 0
	for i, word := range strings.FieldsFunc(sentence, outsideWords) {
		first, _ := utf8.DecodeRuneInString(word)
		switch lower := strings.ToLower(word); {
		case firstPerson[lower]:
			person = 2
		case lasting[lower]:
			facts++
		case unicode.IsDigit(first):
			numbers++
		case i > 0 && unicode.IsUpper(first):
			names++
		}
	}
	value := person + min(numbers, 2) + min(names, 2) + min(facts, 2)
	if isQuestion(sentence) {
		value -= 2
	}
	return value
}

var (
	firstPerson = wordSet("i my me mine i'm i’m i've i’ve we our us")
	lasting     = wordSet("allergic allergy always birthday born called decided favourite live lives moved named never prefer work")
)

// gramWords and gramTimes: a text that has the same eight words more than three times is a loop.
const (
	gramWords = 8
	gramTimes = 3
)

// repeatedGram finds words that a text repeats too often.
func repeatedGram(text string) (string, bool) {
	all := words(text)
	times := map[string]int{}
	for i := 0; i+gramWords <= len(all); i++ {
		gram := strings.Join(all[i:i+gramWords], " ")
		if times[gram]++; times[gram] > gramTimes {
			return gram, true
		}
	}
	return "", false
}
