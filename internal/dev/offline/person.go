package offline

import (
	"regexp"
	"strings"
)

// in writes a claim as a memory in a language, if sayings.txt has its aspect there.
func (c claim) in(language string) string {
	german := func(told string) bool { return strings.HasPrefix(told, "Der ") }
	for _, s := range sayings {
		if s.of == c.of && s.ended == c.ended && german(s.told) == (language == "de") && german(s.told) != german(c.told) {
			c.saying = s
			break
		}
	}
	return c.memory()
}

var (
	ofTheUser = regexp.MustCompile(`^The user's `)
	theUser   = regexp.MustCompile(`^(The user|Der Nutzer|Die Nutzerin) (no longer )?(\pL+)`)
	// irregular are the verbs that no rule of secondPerson fits.
	irregular = map[string]string{
		"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go", "sold": "sold",
		"ist": "bist", "hat": "hast", "mag": "magst", "heißt": "heißt", "spricht": "sprichst",
	}
)

// secondPerson says a memory to the user it is of: "The user lives in Porto." is "You live in Porto."
func secondPerson(memory string) string {
	memory = ofTheUser.ReplaceAllString(memory, "Your ")
	found := theUser.FindStringSubmatch(memory)
	if found == nil {
		return memory
	}
	subject, verb := "You", irregular[found[3]]
	german := found[1] != "The user"
	if german {
		subject = "Du"
	}
	switch stem, studies := strings.CutSuffix(found[3], "ies"); {
	case verb != "":
	case german:
		verb = strings.TrimSuffix(found[3], "t") + "st"
	case studies:
		verb = stem + "y"
	default:
		verb = strings.TrimSuffix(found[3], "s")
	}
	return subject + " " + found[2] + verb + memory[len(found[0]):]
}

// joined makes one sentence of those that begin with the same "You": "You are vegetarian and live in Porto."
func joined(all []string) string {
	var sentences []string
	for n := 0; n < len(all); n++ {
		subject, _, _ := strings.Cut(all[n], " ")
		said := []string{strings.TrimSuffix(all[n], ".")}
		for (subject == "You" || subject == "Du") && n+1 < len(all) && strings.HasPrefix(all[n+1], subject+" ") {
			n++
			said = append(said, strings.TrimSuffix(strings.TrimPrefix(all[n], subject+" "), "."))
		}
		and := map[bool]string{true: " und ", false: " and "}[subject == "Du"]
		last := len(said) - 1
		if last > 0 {
			said = []string{strings.Join(said[:last], ", ") + and + said[last]}
		}
		sentences = append(sentences, said[0]+".")
	}
	return strings.Join(sentences, " ")
}
