package offline

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// nothingSaid is the summary of turns without a single statement: a summary is never empty.
const nothingSaid = "The user and the assistant exchanged a few words without content."

// recency is what the newest statement is worth over the oldest: of two equally informative ones
// the older goes first.
const recency = 0.5

// summarize answers a fold, or shortens a text that is no fold.
func summarize(r *Request) string {
	limit := capOf(r)
	f, ok := parseFold(r.Text)
	if !ok {
		return compress(parseSummary(withoutDirectives(r.Text)), limit)
	}
	// A memory that suddenly loses most of itself is taken for damage, so a summary far over the cap
	// comes down in steps.
	if had := countTokens(f.existing); had > 200 {
		limit = max(limit, had*9/20)
	}
	return compress(append(parseSummary(f.existing), turnStatements(f.turns)...), limit)
}

// compress keeps the most informative statements that fit the limit in tokens, in their order.
func compress(all []statement, limit int) string {
	all = distinct(all)
	for i := range all {
		all[i].text = withoutLoop(all[i].text)
	}
	if len(all) == 0 {
		return nothingSaid
	}
	ranked := rank(all)
	kept := fitting(all, ranked, limit)
	if len(kept) == 0 {
		return shorten(all[ranked[0]], limit)
	}
	for len(kept) > 1 {
		text := render(pick(all, kept))
		over := countTokens(text) > limit
		gram, loops := repeatedGram(text)
		if !over && !loops {
			break
		}
		kept = dropWorst(all, kept, gram)
	}
	text := render(pick(all, kept))
	if countTokens(text) > limit {
		return shorten(all[kept[0]], limit)
	}
	return text
}

// distinct drops statements that say the same with the same words; the newest stays.
func distinct(all []statement) []statement {
	last := map[string]int{}
	keys := make([]string, len(all))
	for i, e := range all {
		stems := contentStems(e.text)
		if len(stems) < 2 {
			stems = words(e.text)
		}
		slices.Sort(stems)
		keys[i] = e.by + strings.Join(stems, " ")
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

// rank orders the indexes of the statements, the most worth keeping first.
func rank(all []statement) []int {
	worth := make([]float64, len(all))
	for i, e := range all {
		worth[i] = e.worth() + recency*float64(i)/float64(len(all))
	}
	ranked := make([]int, len(all))
	for i := range ranked {
		ranked[i] = i
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(worth[b], worth[a]) })
	return ranked
}

// worth is how much a statement is worth keeping, by what it says and who said it.
func (e statement) worth() float64 {
	value := informativeness(e.text)
	switch e.by {
	case bySuggested:
		return 0.4 * value
	case "":
		return value + 1 // another model found it worth keeping
	}
	return value
}

// leastStatement is about the fewest tokens that a statement takes in a summary.
const leastStatement = 6

// fitting takes statements by rank while they fit; the count leaves out the headings, so that the
// caller has to look again. The result is by rank, best first.
func fitting(all []statement, ranked []int, limit int) []int {
	var kept []int
	used := 0
	for _, i := range ranked {
		if used+leastStatement > limit {
			break
		}
		tokens := countTokens("\n- " + all[i].text)
		if used+tokens <= limit {
			used += tokens
			kept = append(kept, i)
		}
	}
	return kept
}

// pick gives the kept statements in their order of time.
func pick(all []statement, kept []int) []statement {
	var picked []statement
	for _, i := range slices.Sorted(slices.Values(kept)) {
		picked = append(picked, all[i])
	}
	return picked
}

// dropWorst drops the statement of lowest rank: of those with the repeated words, where there are.
func dropWorst(all []statement, kept []int, gram string) []int {
	worst := len(kept) - 1
	if gram != "" {
		for n, k := range slices.Backward(kept) {
			if strings.Contains(" "+strings.Join(words(all[k].text), " ")+" ", " "+gram+" ") {
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
	low, high := 1, len(fields)+1
	for low+1 < high {
		middle := (low + high) / 2
		if countTokens(shortened(e, fields[:middle])) <= limit {
			low = middle
		} else {
			high = middle
		}
	}
	text := shortened(e, fields[:min(low, len(fields))])
	if countTokens(text) > limit {
		return nothingSaid // a single endless word
	}
	return text
}

func shortened(e statement, fields []string) string {
	return statement{by: e.by, text: sentenceOf(fields)}.labelled()
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

// informativeness is how much a sentence seems to hold that matters later: numbers, names, the first
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
