package brief

import (
	"regexp"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// phrasing are the phrases of the gate in one language, as regular expressions for a whole sentence as sentenceOf writes it: lower
// case, words one space apart, no punctuation. They are the sections of lang's data that begin with "refusal". Only what a summary
// of a conversation never says of itself belongs there: that somebody cannot eat gluten, or plays a song called "I'm Sorry", is worth remembering.
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

// phrasings reads the phrases of all languages that have them.
func phrasings() []phrasing {
	var all []phrasing
	for _, sorry := range lang.Each("refusal sorry") {
		read := func(name string) string { return lang.Plain(lang.Get(sorry.Language, "refusal "+name)) }
		task := "(?:" + read("task") + ")"
		all = append(all, phrasing{
			sorry: read("sorry"), aside: read("aside"), unable: read("unable"), declines: strings.ReplaceAll(read("declines"), "{task}", task),
			empty: read("empty"), talk: read("talk"), joined: !lang.HasSpaces(sorry.Language),
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
