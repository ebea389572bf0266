package offline

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
)

// emptySummary is the summary of turns without a single statement: a summary is never empty.
const emptySummary = "The user and the assistant exchanged a few words without content."

// recency is the extra worth of the newest statement over the oldest: of two equally informative ones the older is
// dropped first.
const recency = 0.5

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

// compress keeps the most informative statements that fit the limit in tokens, in their order.
func compress(all []statement, limit int) string {
	all = distinct(all)
	if len(all) == 0 {
		return emptySummary
	}
	for i := range all {
		all[i].text = withoutLoop(all[i].text)
		all[i].position = i
		all[i].worth = worth(all[i]) + recency*float64(i)/float64(len(all))
	}
	slices.SortStableFunc(all, func(a, b statement) int { return cmp.Compare(b.worth, a.worth) })
	kept := fitting(all, limit)
	if len(kept) == 0 {
		return shorten(all[0], limit)
	}
	for len(kept) > 1 {
		text := render(inOrder(kept))
		over := countTokens(text) > limit
		gram, loops := repeatedGram(text)
		if !over && !loops {
			break
		}
		kept = dropWorst(kept, gram)
	}
	text := render(inOrder(kept))
	if countTokens(text) > limit {
		return shorten(kept[0], limit)
	}
	return text
}

// distinct drops statements with the same words; the newest stays.
func distinct(all []statement) []statement {
	last := map[string]int{}
	keys := make([]string, len(all))
	for i, e := range all {
		stems := contentStems(e.text)
		if len(stems) < 2 {
			stems = words(e.text)
		}
		slices.Sort(stems)
		keys[i] = e.label + strings.Join(stems, " ")
		last[keys[i]] = i
	}
	var kept []statement
	for i, e := range all {
		if last[keys[i]] == i {
			kept = append(kept, e)
		}
	}
	return kept
}

// worth returns how much a statement is worth keeping, by its text and its label.
func worth(s statement) float64 {
	value := informativeness(s.text)
	switch s.label {
	case labelSuggested:
		return 0.4 * value
	case "":
		return value + 1 // another model found it worth keeping
	}
	return value
}

// minStatementTokens is about the fewest tokens that a statement takes in a summary.
const minStatementTokens = 6

// fitting returns the first statements that fit. It does not count the labels: the caller has to check the rendered text.
func fitting(ranked []statement, limit int) []statement {
	var kept []statement
	used := 0
	for _, s := range ranked {
		if used+minStatementTokens > limit {
			break
		}
		tokens := countTokens("\n- " + s.text)
		if used+tokens <= limit {
			used += tokens
			kept = append(kept, s)
		}
	}
	return kept
}

// inOrder returns the statements in their order of time.
func inOrder(kept []statement) []statement {
	return slices.SortedFunc(slices.Values(kept), func(a, b statement) int { return a.position - b.position })
}

// dropWorst drops the statement of lowest rank: of those with the repeated words, if there are any.
func dropWorst(kept []statement, gram string) []statement {
	worst := len(kept) - 1
	if gram != "" {
		for n, s := range slices.Backward(kept) {
			if strings.Contains(" "+strings.Join(words(s.text), " ")+" ", " "+gram+" ") {
				worst = n
				break
			}
		}
	}
	return slices.Delete(kept, worst, worst+1)
}

// shorten cuts one statement at a word so that it fits; it keeps at least one word.
func shorten(e statement, limit int) string {
	fields := strings.Fields(e.text)
	longest := sort.Search(len(fields), func(n int) bool { return countTokens(shortened(e, fields[:n+1])) > limit })
	text := shortened(e, fields[:min(max(longest, 1), len(fields))])
	if countTokens(text) > limit {
		return emptySummary // a single endless word
	}
	return text
}

func shortened(e statement, fields []string) string {
	return statement{label: e.label, text: sentenceOf(fields)}.labelled()
}

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

// withoutLoop cuts a sentence that repeats itself to its beginning.
func withoutLoop(sentence string) string {
	if _, loops := repeatedGram(sentence); !loops {
		return sentence
	}
	const longest = gramWords + gramTimes - 1 // so long, not even one word over and over is too much
	fields := strings.Fields(sentence)
	sentence = strings.Join(fields[:min(len(fields), longest)], " ")
	if _, loops := repeatedGram(sentence); loops {
		return clip(sentence, longest) // a script without spaces: characters are words
	}
	return sentence
}

// keyWords mark decisions, preferences, constraints and plans.
var keyWords = wordSet(`allergic allergy always anniversary agreed avoid because birthday booked born bought budget called
	cancelled cannot chose constraint daughter deadline decided decision diagnosed dislike doctor due favorite favourite
	father friend goal hate husband injured injury job live lives love married meeting mother moved must named need never
	partner plan planning prefer prefers promised school sister brother son started studying switched teacher wants want
	wife work works`)

// informativeness estimates how much of a sentence matters later: numbers, names, the first
// person, the words of decisions; less for questions, for very short and for very long ones.
func informativeness(sentence string) float64 {
	raw := rawWords(sentence)
	numbers, names, keys := 0, 0, 0
	for i, word := range raw {
		switch lower := strings.ToLower(word); {
		case word[0] >= '0' && word[0] <= '9':
			numbers++
		case keyWords[lower]:
			keys++
		case i > 0 && word != lower && !strings.HasPrefix(word, "I'") && word != "I":
			names++
		}
	}
	// At most two of a kind count, and the first person most: a pasted article is full of names and
	// numbers, but what people say of themselves is what they come back to.
	value := 0.8*float64(min(numbers, 2)) + 0.7*float64(min(names, 2)) + float64(min(keys, 2))
	if firstPerson(words(sentence)) {
		value += 2
	}
	if isQuestion(sentence) {
		value -= 1.5
	}
	if len(raw) < 4 {
		value--
	}
	return value - 0.05*math.Max(0, float64(len(raw)-20))
}
