package brief

import (
	"regexp"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// phrasing are the phrases of the gate in one language (lang/data/refusals.txt): regular expressions for a whole sentence
// as sentenceOf writes it: lower case, words one space apart, no punctuation. Only what a summary of a conversation never
// says of itself belongs there: that somebody cannot eat gluten, or plays a song called "I'm Sorry", is worth remembering.
type phrasing struct {
	// sorry are apologies. A sentence of nothing else is a refusal.
	sorry string
	// aside are words that may stand before, between or after apologies.
	aside string
	// unable are the words with which somebody says "I cannot". After an apology they are a refusal.
	unable string
	// declines are sentences that decline the task, with or without an apology. In some languages the verb of the task
	// follows "I cannot" and is a section of its own; in the others the whole sentence is described.
	declines string
	// empty are whole answers that say that there is no summary.
	empty string
	// talk are beginnings of sentences about the task or the summary itself.
	talk string
	// joined languages do not put a space after each of these words.
	joined bool
}

// phrasings reads the phrases of all languages. In them {few} stands for up to six words, {several} for up to four.
func phrasings() []phrasing {
	sections := map[string]string{}
	var languages []string
	for _, section := range lang.Sections("refusals") {
		language, _, _ := strings.Cut(section.Name, " ")
		if !slices.Contains(languages, language) {
			languages = append(languages, language)
		}
		sections[section.Name] = section.Pattern()
	}
	var all []phrasing
	for _, language := range languages {
		gaps := strings.NewReplacer("{few}", `(?: \S+){0,6} `, "{several}", `(?:\S+ ){0,4}`)
		task := gaps.Replace(sections[language+" task"])
		read := func(name string) string {
			return strings.ReplaceAll(gaps.Replace(sections[language+" "+name]), "{task}", task)
		}
		all = append(all, phrasing{
			sorry: read("sorry"), aside: read("aside"), unable: read("unable"), declines: read("declines"),
			empty: read("empty"), talk: read("talk"), joined: sections[language+" joined"] != "",
		})
	}
	return all
}

// phraseMatcher are the phrases of all languages as expressions for one sentence.
type phraseMatcher struct{ refusal, empty, talk *regexp.Regexp }

var phrases = compilePhrases()

func compilePhrases() phraseMatcher {
	var refusals, empties, talks []string
	for _, p := range phrasings() {
		gap, end := ` `, `(?: |$)`
		if p.joined {
			gap, end = ` ?`, ``
		}
		apology := `(?:` + p.sorry + `)`
		lead := `(?:(?:` + p.sorry + `|` + p.aside + `)` + gap + `)`
		refusals = append(refusals,
			`(?:(?:`+p.aside+`)`+gap+`)*`+apology+`(?:`+gap+`(?:`+p.sorry+`|`+p.aside+`))*$`,
			lead+`*(?:`+p.declines+`)`+end,
			apology+gap+lead+`*(?:`+p.unable+`)`+end)
		empties = append(empties, p.empty)
		talks = append(talks, `(?:`+p.talk+`)`)
	}
	return phraseMatcher{
		refusal: regexp.MustCompile(`^(?:` + strings.Join(refusals, `|`) + `)`),
		empty:   regexp.MustCompile(`^(?:` + strings.Join(empties, `|`) + `)$`),
		talk:    regexp.MustCompile(`^(?:` + strings.Join(talks, `|`) + `)`),
	}
}
