package offline

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
)

// reply answers a main prompt: a question with a quotation, a statement with what it is mainly about. It depends on the
// text alone.
func reply(r *Request) string {
	known, current := parsePrompt(r.Text)
	seed := hash(r.Text)
	parts := []string{firstSentence(known, withoutDirectives(current))}
	for n := range seed / 7 % 4 { // so that replies differ in length
		parts = append(parts, stock[2+(seed/31+n)%uint64(len(stock)-2)])
	}
	return strings.Join(parts, " ")
}

func firstSentence(known []passage, current string) string {
	if isQuestion(current) {
		if about := aboutTheUser(known); about != "" && asksAboutUser.MatchString(current) {
			return inQuotes(passage{from: remembered, text: about})
		}
		found, ok := recall(known, current)
		if !ok {
			return nothing
		}
		return inQuotes(found)
	}
	said := sentences(current)
	if len(said) == 0 {
		return present
	}
	main := slices.MaxFunc(said, func(a, b string) int { return informativeness(a) - informativeness(b) })
	return inQuotes(passage{from: "Noted", text: main})
}

// inQuotes quotes a sentence without its quotation marks, and cut if it is long.
func inQuotes(p passage) string {
	const longest = 70 // tokens
	return fmt.Sprintf(`%s: "%s"`, p.from, memorytext.FitCap(strings.ReplaceAll(p.text, `"`, "'"), longest))
}

// quotation is a sentence of ours that repeats what the user or the prompt says.
var quotation = regexp.MustCompile(`^(?:From our conversation summary|From what I remember of you|From the topic that we came back to|From an earlier ` +
	`turn|Earlier you said|Earlier I said|Noted): "`)

var asksWithoutMark = regexp.MustCompile(
	`(?i)^\W*(?:what|who|whom|whose|when|where|which|why|how|what's|who's|where's|remind me|tell me|do you remember|do you know|do you recall)\b`,
)

// asksAboutUser matches a question for all that is remembered of the user.
var asksAboutUser = regexp.MustCompile(`(?i)\b(?:know|remember|learned|tell me) (?:about|of) me\b|\bwho am i\b`)

// aboutTheUser returns the memories of the prompt in one line.
func aboutTheUser(known []passage) string {
	for _, p := range known {
		if p.from == remembered {
			return strings.Join(strings.Fields(strings.ReplaceAll("\n"+p.text, "\n- ", " ")), " ")
		}
	}
	return ""
}

// isQuestion reports whether a text has a question mark or begins like a question.
func isQuestion(text string) bool {
	return strings.ContainsAny(text, "?？؟") || asksWithoutMark.MatchString(text)
}

const (
	nothing = "Nothing in what I was given answers that."
	present = "I am here."
)

// stock are sentences that carry no information: recall and folds ignore them.
var stock = []string{
	nothing,
	present,
	"I quote word for word instead of guessing, because I am the offline model and know nothing beyond this prompt.",
	"I will go by that from here on.",
	"Correct me whenever something about it changes.",
	"You can ask me about it later, also after many other messages.",
	"Go on with whatever comes next, and give me names, numbers and dates where they matter.",
}

// isStock reports whether a sentence of ours says nothing new: a stock one, or one that repeats what the prompt says.
func isStock(sentence string) bool {
	return slices.Contains(stock, sentence) || quotation.MatchString(sentence)
}

// recall finds the sentence that shares the most with the question: the sum of the weights of shared word stems, where
// a rare word weighs more (inverse sentence frequency). Of two alike the shorter one counts, then the later one.
func recall(known []passage, question string) (best passage, found bool) {
	const minShare = 0.2 // of the question's weight that an answer has to have
	all := quotable(known)
	stems := make([][]string, len(all))
	having := map[string]int{} // sentences by stem
	for n, sentence := range all {
		stems[n] = contentStems(sentence.text)
		for _, s := range stems[n] {
			having[s]++
		}
	}
	bestScore, total, shortest := 0.0, 0.0, 0
	asked := contentStems(question)
	rarity := func(s string) float64 { return math.Log1p(float64(len(all)) / float64(1+having[s])) }
	for _, s := range asked {
		total += rarity(s)
	}
	for n, sentence := range all {
		score := 0.0
		for _, s := range asked {
			if slices.Contains(stems[n], s) {
				score += rarity(s)
			}
		}
		score *= sentence.weight
		isBetter := score > bestScore || score == bestScore && len(stems[n]) <= shortest
		if score > 0 && score >= minShare*total && isBetter {
			best, bestScore, shortest = sentence, score, len(stems[n])
		}
	}
	return best, bestScore > 0
}

// quotable returns the sentences that state something.
func quotable(known []passage) []passage {
	var found []passage
	for _, p := range known {
		for _, sentence := range sentences(withoutDirectives(p.text)) {
			if !isQuestion(sentence) && !isStock(sentence) {
				found = append(found, passage{p.from, sentence, p.weight})
			}
		}
	}
	return found
}
