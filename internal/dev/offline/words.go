package offline

import (
	"hash/fnv"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
)

// hash seeds everything that varies between prompts.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails, by its documentation
	sum := h.Sum64()
	sum ^= sum >> 29 // FNV alone leaves the upper bits of short texts alike
	return sum * 0xbf58476d1ce4e5b9
}

// words returns the words of a text in lower case. Scripts without spaces give a word per character.
func words(text string) []string {
	var found []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), outsideWords) {
		word = strings.Trim(word, "'’")
		if first, _ := utf8.DecodeRuneInString(word); memorytext.Unspaced(first) {
			found = append(found, strings.Split(word, "")...)
		} else if word != "" {
			found = append(found, word)
		}
	}
	return found
}

func outsideWords(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\'' && r != '’'
}

// kin are words that ask for what other words state.
var kin = map[string]string{
	"call": "name", "called": "name", "move": "live", "moved": "live", "job": "work", "birthday": "born", "favorite": "favourite",
}

var endings = strings.Fields("'s ’s ies ing ed ly ic es s y e")

// stem cuts the commonest English endings, so that "lives" and "living" meet, and "allergy" and "allergic".
func stem(word string) string {
	if other, ok := kin[word]; ok {
		word = other
	}
	for _, ending := range endings {
		base, ok := strings.CutSuffix(word, ending)
		isRoot := ending == "y" && strings.ContainsAny(base[max(0, len(base)-1):], "aeiou") // "play"
		if ok && len(base) >= 3 && !isRoot {
			word = base
			break
		}
	}
	if n := len(word); n > 3 && word[n-1] == word[n-2] { // "runn" of "running"
		word = word[:n-1]
	}
	return word
}

// contentStems returns the stems of a text's content words, each once, in order.
func contentStems(text string) []string { return stemsWithout(stopWords, text) }

// stemsWithout returns the stems of a text's words but for some, each once, in order.
func stemsWithout(some map[string]bool, text string) []string {
	var stems []string
	seen := map[string]bool{}
	for _, word := range words(text) {
		if s := stem(word); !some[word] && !seen[s] {
			seen[s] = true
			stems = append(stems, s)
		}
	}
	return stems
}

// stopWords say nothing about what a sentence is about, among them the words of asking itself.
var stopWords = wordSet(`a about above after again all also am an and any are aren't as at be because been before being
	below between both but by can can't could couldn't did didn't do does doesn't doing don't down during each few for
	from further had has have having he he's her here hers him his how i i'd i'll i'm i've if in into is isn't it it's
	its just let's me more most my no nor not now of off on once one only or other our out over own please same she
	should so some such than that that's the their them then there these they this those through to too under until
	up us very was wasn't we we're were what what's when where which while who who's whom whose why will with won't
	would you you're your yours again ever exactly earlier before know known like mention mentioned recall remember
	remind said say tell told talk talked asked ask think yes ok okay thanks thank`)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

var listMarker = regexp.MustCompile(`^\s*(?:>\s+|[-*•]\s+|#{1,6}\s+|\d{1,3}[.)]\s+)+`)

// sentences splits a text at line ends and after sentence ends. List markers and quotation marks of
// lines are dropped, and so is what has no letter or digit.
func sentences(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		for _, sentence := range memorytext.Sentences(listMarker.ReplaceAllString(line, "")) {
			if len(words(sentence)) > 0 {
				found = append(found, strings.TrimSpace(sentence))
			}
		}
	}
	return found
}
