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
	said, question := cutQuestion(r.Text)
	question = strings.Join(strings.Fields(withoutDirectives(question)), " ")
	tongue := tongueOf(question + " " + said)
	if tongue == nil {
		return question
	}
	return tongue.resolve(parseUtterances(strings.Split(withoutDirectives(said), "\n")), question)
}

// questionOf returns the question of a rewriting's input.
func questionOf(text string) string {
	_, question := cutQuestion(text)
	return question
}

// cutQuestion divides the input of a rewriting at the last line that begins with the question's title. Without one all of
// it is the question.
func cutQuestion(text string) (said, question string) {
	lines := strings.Split(text, "\n")
	for i, line := range slices.Backward(lines) {
		if rest, ok := strings.CutPrefix(strings.TrimLeft(line, "=#* "), titleQuestion); ok {
			return strings.Join(lines[:i], "\n"), strings.TrimLeft(rest, ": ") + "\n" + strings.Join(lines[i+1:], "\n")
		}
	}
	return "", text
}

// tongue is how a language refers to what was named before. Each pattern has the word in a group.
type tongue struct {
	known map[string]bool // words by which the language is known
	thing *regexp.Regexp  // "it"
	place *regexp.Regexp  // "there"
	named *regexp.Regexp  // "my bow", the thing that a later "it" is
	at    *regexp.Regexp  // "to Lisbon", the place that a later "there" is
	in    string          // what says that something is at a place
}

// word matches one of some words between other characters than letters.
func word(list string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[^\pL\pN'’])(` + list + `)(?:$|[^\pL\pN])`)
}

// english is word for English, where "that" refers to something only before a verb and at the end.
var english = regexp.MustCompile(`(?i)(?:^|[^\pL\pN'’])(?:(it|they|them)(?:$|[^\pL\pN])|(that)(?:$|[?!.,]| (?:is|was|will|does|did|costs?|works?)\b))`)

const (
	aName = `(\p{Lu}[\pL'’-]+(?: \p{Lu}[\pL'’-]+)?)`
	aNoun = `[\pL'’-]{3,}`
)

// named matches a determiner and the noun after it.
func named(determiners, noun string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[^\pL\pN'’])((?i:` + determiners + `) ?` + noun + `)`)
}

func at(prepositions string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[^\pL\pN])(?i:` + prepositions + `) ` + aName)
}

// tongues are the languages that the rules know.
var tongues = []*tongue{
	{
		known: wordSet("the is it what how does do did my and are was which when where there you have"),
		thing: english,
		place: word(`there`),
		named: named(`my|our|the|a|an`, aNoun), at: at(`in|to|from|at`), in: "in",
	},
	{
		known: wordSet("der die das ist ein eine mein meine wie was wann und nicht ich dort er es wir habe kostet"),
		thing: word(`es|er|sie|ihn`),
		place: word(`dort|da`),
		named: named(`mein|meine|meinen|unser|unsere|der|die|das|den|ein|eine|einen`, `\p{Lu}[\pL-]{2,}`), at: at(`in|nach|aus`), in: "in",
	},
	{
		known: wordSet("le la les est mon ma une un quel quelle combien je et pas il ça cela quand où des du"),
		thing: word(`il|elle|ça|cela`),
		place: word(`là-bas|y`),
		named: named(`mon |ma |notre |le |la |l['’]|un |une `, aNoun), at: at(`à|de|en|vers`), in: "à",
	},
	{
		known: wordSet("el la los es mi una un qué cómo yo y no eso allí cuándo dónde de del está cuesta"),
		thing: word(`eso|esto|él|ella`),
		place: word(`allí|ahí|allá`),
		named: named(`mi|nuestro|nuestra|el|la|un|una`, aNoun), at: at(`en|a|de`), in: "en",
	},
	{
		known: wordSet("il lo la è mio mia una un quanto come io e non quello lì quando dove di del che costa ho"),
		thing: word(`quello|questo|esso|essa`),
		place: word(`lì|là`),
		named: named(`il mio |la mia |il nostro |la nostra |il |lo |la |l['’]|un |una `, aNoun), at: at(`a|in|da`), in: "a",
	},
	{
		known: wordSet("o os é meu minha uma um quanto como eu e não isso lá quando onde do da que custa tenho ele"),
		thing: word(`isso|isto|ele|ela`),
		place: word(`lá|ali|aí`),
		named: named(`o meu|a minha|meu|minha|nosso|nossa|o|a|um|uma`, aNoun), at: at(`em|para|de|no|na`), in: "em",
	},
}

// tongueOf returns the language whose common words a text has most of; nil where it has none.
func tongueOf(text string) *tongue {
	var best *tongue
	most := 0
	for _, t := range tongues {
		count := 0
		for _, word := range words(text) {
			if t.known[word] {
				count++
			}
		}
		if count > most {
			best, most = t, count
		}
	}
	return best
}

// resolve replaces the first word that refers to something by what was named last.
func (t *tongue) resolve(said []utterance, question string) string {
	for _, kind := range []struct{ refers, names *regexp.Regexp }{{t.place, t.at}, {t.thing, t.named}} {
		found := kind.refers.FindStringSubmatchIndex(question)
		if found == nil {
			continue
		}
		name := lastNamed(said, kind.names)
		if name == "" {
			continue
		}
		if kind.names == t.at {
			name = t.in + " " + name
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
