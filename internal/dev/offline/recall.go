package offline

import (
	"fmt"
	"math"
	"regexp"
	"slices"
)

// quote is a sentence of the prompt that may answer a question.
type quote struct {
	from   string // how the reply introduces it
	text   string
	stems  []string
	weight float64
}

// minShare is the share of a question's weight that a sentence must have to count as an answer.
const minShare = 0.2

// recall finds the sentence of the prompt that shares the most with the question: the sum of the weights of shared
// word stems, where a rare word weighs more (inverse sentence frequency). Of two alike the later one counts.
func recall(p mainPrompt) (quote, bool) {
	all := quotes(p)
	having := map[string]int{} // sentences by stem
	for _, q := range all {
		for _, s := range q.stems {
			having[s]++
		}
	}
	best, bestScore, total := quote{}, 0.0, 0.0
	asked := contentStems(p.current)
	rarity := func(s string) float64 { return math.Log1p(float64(len(all)) / float64(1+having[s])) }
	for _, s := range asked {
		total += rarity(s)
	}
	for _, q := range all {
		score := 0.0
		for _, s := range asked {
			if slices.Contains(q.stems, s) {
				score += rarity(s)
			}
		}
		if score *= q.weight; score > 0 && score >= max(bestScore, minShare*total) {
			best, bestScore = q, score
		}
	}
	return best, bestScore > 0
}

// quotes returns the sentences that may be quoted, the newest last: statements, not questions, stock phrases or
// quotations of ours. Our own replies weigh half, because they repeat the others.
func quotes(p mainPrompt) []quote {
	var found []quote
	add := func(from, text string, weight float64) {
		for _, sentence := range sentences(withoutDirectives(text)) {
			if !isQuestion(sentence) && !slices.Contains(stock, sentence) && !quotation.MatchString(sentence) {
				found = append(found, quote{from, sentence, contentStems(sentence), weight})
			}
		}
	}
	for n, source := range p.sources {
		add(fmt.Sprintf("Source [%d] says", n+1), source, 1)
	}
	for _, s := range parseSummary(p.background) {
		add("From our conversation summary", s.text, 1)
	}
	for _, memory := range p.memories {
		add("From what I remember of you", memory, 1)
	}
	for _, s := range parseSummary(p.topic) {
		add("From the topic that we came back to", s.text, 1)
	}
	for _, u := range p.recalled {
		weight := 1.0
		if u.assistant {
			weight = 0.5
		}
		add("From an earlier turn", u.text, weight)
	}
	for _, u := range p.recent {
		if u.assistant {
			add("Earlier I said", u.text, 0.5)
		} else {
			add("Earlier you said", u.text, 1)
		}
	}
	return found
}

// quotation is a sentence of ours that repeats what the user or the summary says.
var quotation = regexp.MustCompile(`^(?:From our conversation summary|From what I remember of you|From the topic that we came back to|From an earlier ` +
	`turn|Earlier you said|Earlier I said|Noted): "`)
