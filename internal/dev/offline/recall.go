package offline

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// quote is a sentence of the prompt that may answer a question.
type quote struct {
	from   string // how the reply introduces it
	text   string
	weight float64
	stems  map[string]bool
}

// What the places of a prompt weigh: the user's own words most, ours least, for they repeat others.
const (
	weightUser      = 1.0
	weightBrief     = 1.0
	weightSource    = 1.0
	weightAssistant = 0.5
	// weightNewest is added to the newest sentence of the recent conversation, less to older ones, so
	// that of two facts alike the later one counts.
	weightNewest = 0.2
	// weightFirstPerson is the factor for a sentence in the first person, when the question is too.
	weightFirstPerson = 1.15
	// enough is the share of a question's weight that a sentence must have to count as an answer.
	enough = 0.2
)

// recall finds the sentence of the prompt that shares the most with the question: the sum of the
// weights of shared word stems, where a rare word weighs more (inverse sentence frequency).
func recall(p mainPrompt) (quote, bool) {
	asked := withKin(contentStems(p.current))
	quotes := quotable(p)
	weigh := rarity(quotes)
	total := 0.0
	for s := range asked {
		total += weigh(s)
	}
	personal := firstPerson(words(p.current))
	best, bestScore := quote{}, 0.0
	for _, q := range quotes {
		score := 0.0
		for s := range asked {
			if q.stems[s] {
				score += weigh(s)
			}
		}
		if score < enough*total {
			continue
		}
		score *= q.weight / (1 + 0.01*float64(len(q.stems)))
		if personal && firstPerson(words(q.text)) {
			score *= weightFirstPerson
		}
		if score > bestScore {
			best, bestScore = q, score
		}
	}
	return best, bestScore > 0
}

// rarity weighs word stems by how few sentences have them.
func rarity(quotes []quote) func(string) float64 {
	having := map[string]int{}
	for _, q := range quotes {
		for s := range q.stems {
			having[s]++
		}
	}
	return func(s string) float64 {
		weight := math.Log1p(float64(len(quotes)) / float64(1+having[s]))
		if strings.HasPrefix(s, kinMark) {
			return weight / 2
		}
		return weight
	}
}

func firstPerson(words []string) bool {
	for _, word := range words {
		switch word {
		case "i", "my", "me", "mine", "i'm", "i’m", "i've", "i’ve", "we", "our", "us":
			return true
		}
	}
	return false
}

// quotable are the sentences that may be quoted: statements, no questions, none of our own phrases.
func quotable(p mainPrompt) []quote {
	var found []quote
	add := func(from, text string, weight float64) {
		if text = withoutDirectives(text); !isQuestion(text) && !isStock(text) {
			found = append(found, quote{from, text, weight, withKin(contentStems(text))})
		}
	}
	for _, e := range parseSummary(p.background) {
		add("From our conversation summary", e.labelled(), weightBrief)
	}
	for n, u := range p.recent {
		newest := weightNewest * float64(n+1) / float64(len(p.recent))
		for _, sentence := range sentences(u.text) {
			if u.assistant {
				add("Earlier I said", unquoted(sentence), weightAssistant+newest)
			} else {
				add("Earlier you said", sentence, weightUser+newest)
			}
		}
	}
	for n, source := range p.sources {
		for _, sentence := range sentences(source) {
			add(fmt.Sprintf("Source [%d] says", n+1), sentence, weightSource)
		}
	}
	return found
}

var quotation = regexp.MustCompile(`^(?:From our conversation summary|Earlier you said|Earlier I said|Source \[\d+\] says|Noted|Understood|Got it): "(.*)"$`)

// unquoted takes a quotation of ours apart, so that quotations are never nested.
func unquoted(sentence string) string {
	if found := quotation.FindStringSubmatch(sentence); found != nil {
		return found[1]
	}
	return sentence
}

// kinMark begins the pseudo stem of a family of words.
const kinMark = "~"

// kin are words that ask for and tell the same thing.
var kin = kinOf(
	"name call nickname",
	"live move home address city town",
	"job work profession employer career occupation",
	"birthday born age birth",
	"pet dog cat parrot hamster rabbit",
	"allergy allergic intolerant",
	"favourite favorite prefer love like enjoy",
	"partner wife husband spouse married girlfriend boyfriend",
)

func kinOf(families ...string) map[string]string {
	found := map[string]string{}
	for _, family := range families {
		members := strings.Fields(family)
		for _, member := range members {
			found[stem(member)] = kinMark + members[0]
		}
	}
	return found
}

// withKin is the set of stems and of the families they belong to.
func withKin(stems []string) map[string]bool {
	set := make(map[string]bool, len(stems))
	for _, s := range stems {
		set[s] = true
		if family, ok := kin[s]; ok {
			set[family] = true
		}
	}
	return set
}
