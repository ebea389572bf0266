package offline

import (
	"regexp"
	"slices"
	"strings"
)

// titleQuestion begins the last part of the input of a rewriting: the question.
const titleQuestion = "QUESTION"

// references are the words that refer to something, what names that, and how a question has it: the words themselves
// stay where the rules know no name, and so does a question that stands alone.
var references = []struct {
	word, name *regexp.Regexp
	as         string
}{
	{regexp.MustCompile(`(?i)\bthere\b`), regexp.MustCompile(`\b(?i:in|to|from|at) (\p{Lu}[\pL'’-]+(?: \p{Lu}[\pL'’-]+)?)`), "in "},
	{regexp.MustCompile(`(?i)\b(?:it|they|them)\b`), regexp.MustCompile(`\b((?i:my|our|the|an?) [\pL'’-]{3,})`), ""},
}

// rewrite returns the question so that it stands alone: a word like "it" or "there" becomes the thing named last, in the
// letters in which it was named.
func rewrite(r *Request) string {
	said := parseUtterances(withoutDirectives(sections(r.Text, titleQuestion)[""]))
	question := strings.Join(strings.Fields(withoutDirectives(questionOf(r.Text))), " ")
	for _, kind := range references {
		at := kind.word.FindStringIndex(question)
		name := lastNamed(said, kind.name)
		if at == nil || name == "" {
			continue
		}
		return question[:at[0]] + kind.as + name + question[at[1]:]
	}
	return question
}

// questionOf returns the question of a rewriting's input; without its title all of it is the question.
func questionOf(text string) string {
	if question, found := sections(text, titleQuestion)[titleQuestion]; found {
		return strings.TrimLeft(question, ": ")
	}
	return text
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
