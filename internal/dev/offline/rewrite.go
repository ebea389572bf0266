package offline

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// titleQuestion begins the last part of the input of a rewriting: the question.
const titleQuestion = "QUESTION"

// rewrite returns the question so that it stands alone: a word like "it" or "there" becomes what was named last. What
// the rules do not know stays as it is, and so does a question that stands alone.
func rewrite(r *Request) string {
	said := withoutDirectives(sections(r.Text, titleQuestion)[""])
	question := strings.Join(strings.Fields(withoutDirectives(questionOf(r.Text))), " ")
	return resolve(parseUtterances(said), question)
}

// questionOf returns the question of a rewriting's input; without its title all of it is the question.
func questionOf(text string) string {
	if question, found := sections(text, titleQuestion)[titleQuestion]; found {
		return strings.TrimLeft(question, ": ")
	}
	return text
}

var (
	// refersToThing is a word for something that was named before. "that" is one only before a verb and at the end.
	refersToThing = regexp.MustCompile(`(?i)(?:^|[^\pL\pN'’])(?:(it|they|them)(?:$|[^\pL\pN])` +
		`|(that)(?:$|[?!.,]| (?:is|was|will|does|did|costs?|works?)\b))`)
	refersToPlace = regexp.MustCompile(`(?i)(?:^|[^\pL\pN'’])(there)(?:$|[^\pL\pN])`)
	namesThing    = regexp.MustCompile(`(?:^|[^\pL\pN'’])((?i:my|our|the|a|an) [\pL'’-]{3,})`)
	namesPlace    = regexp.MustCompile(`(?:^|[^\pL\pN])(?i:in|to|from|at) (\p{Lu}[\pL'’-]+(?: \p{Lu}[\pL'’-]+)?)`)
)

// resolve replaces the first word that refers to something by what was named last.
func resolve(said []utterance, question string) string {
	for _, kind := range []struct{ refers, names *regexp.Regexp }{{refersToPlace, namesPlace}, {refersToThing, namesThing}} {
		found := kind.refers.FindStringSubmatchIndex(question)
		if found == nil {
			continue
		}
		name := lastNamed(said, kind.names)
		if name == "" {
			continue
		}
		if kind.names == namesPlace {
			name = "in " + name
		} else {
			name = changeFirst(name, unicode.ToLower) // it may have begun a sentence
		}
		from, to := groupOf(found)
		if from == 0 {
			name = changeFirst(name, unicode.ToUpper)
		}
		return question[:from] + name + question[to:]
	}
	return question
}

// groupOf returns the place of the group that matched.
func groupOf(found []int) (from, to int) {
	for i := 2; i < len(found); i += 2 {
		if found[i] >= 0 {
			return found[i], found[i+1]
		}
	}
	return found[0], found[1]
}

// lastNamed returns what a pattern names last. The user's own words come first, because "my" is the user's there.
func lastNamed(said []utterance, names *regexp.Regexp) string {
	for _, byAssistant := range []bool{false, true} {
		for _, u := range slices.Backward(said) {
			if all := names.FindAllStringSubmatch(u.text, -1); u.assistant == byAssistant && len(all) > 0 {
				return all[len(all)-1][1]
			}
		}
	}
	return ""
}

func changeFirst(text string, change func(rune) rune) string {
	runes := []rune(text)
	if len(runes) > 0 {
		runes[0] = change(runes[0])
	}
	return string(runes)
}
