package offline

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// candidate is a sentence of the prompt that may answer a question.
type candidate struct {
	from   string // how the reply introduces it
	text   string
	weight float64
	stems  map[string]bool
}

// Weights of the parts of a prompt. Our own replies weigh least, because they repeat the others.
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
	// minShare is the share of a question's weight that a sentence must have to count as an answer.
	minShare = 0.2
)

// recall finds the sentence of the prompt that shares the most with the question: the sum of the
// weights of shared word stems, where a rare word weighs more (inverse sentence frequency).
func recall(p mainPrompt) (candidate, bool) {
	asked := withFamilies(contentStems(p.current))
	all := candidates(p)
	weigh := rarity(all)
	total := 0.0
	for s := range asked {
		total += weigh(s)
	}
	personal := firstPerson(words(p.current))
	best, bestScore := candidate{}, 0.0
	for _, q := range all {
		score := 0.0
		for s := range asked {
			if q.stems[s] {
				score += weigh(s)
			}
		}
		if score < minShare*total {
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
func rarity(quotes []candidate) func(string) float64 {
	having := map[string]int{}
	for _, q := range quotes {
		for s := range q.stems {
			having[s]++
		}
	}
	return func(s string) float64 {
		weight := math.Log1p(float64(len(quotes)) / float64(1+having[s]))
		if strings.HasPrefix(s, familyMark) {
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

// candidates returns the sentences that may be quoted: statements, not questions and not our own stock phrases.
func candidates(p mainPrompt) []candidate {
	var found []candidate
	add := func(from, text string, weight float64) {
		if text = withoutDirectives(text); !isQuestion(text) && !isStock(text) {
			found = append(found, candidate{from, text, weight, withFamilies(contentStems(text))})
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

// unquoted returns the text inside a quotation of ours, so that quotations are never nested.
func unquoted(sentence string) string {
	if found := quotation.FindStringSubmatch(sentence); found != nil {
		return found[1]
	}
	return sentence
}

// familyMark begins the pseudo stem of a family of synonyms.
const familyMark = "~"

// synonyms maps word stems to their family: words that ask for and state the same thing.
var synonyms = synonymsOf(
	"name call nickname",
	"live move home address city town",
	"job work profession employer career occupation",
	"birthday born age birth",
	"pet dog cat parrot hamster rabbit",
	"allergy allergic intolerant",
	"favourite favorite prefer love like enjoy",
	"partner wife husband spouse married girlfriend boyfriend",
)

func synonymsOf(families ...string) map[string]string {
	found := map[string]string{}
	for _, family := range families {
		members := strings.Fields(family)
		for _, member := range members {
			found[stem(member)] = familyMark + members[0]
		}
	}
	return found
}

// withFamilies returns the set of the stems and of the families they belong to.
func withFamilies(stems []string) map[string]bool {
	set := make(map[string]bool, len(stems))
	for _, s := range stems {
		set[s] = true
		if family, ok := synonyms[s]; ok {
			set[family] = true
		}
	}
	return set
}
