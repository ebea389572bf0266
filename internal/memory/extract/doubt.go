package extract

import (
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// A quote proves that words were said, not that they say what the fact says: "I am not allergic to walnuts, my sister is"
// holds every word of "The user is allergic to walnuts". So the clauses in which the quote stands are read for what changes
// their sense. These are rules for doubt, not for truth: what is in doubt is asked of the user.

// senses are the words of one language that change what a clause says. See lang's doubts.txt.
type senses struct {
	negative, past, mood, self, others, ends, known expression
	people                                          map[string]bool
	peopleWithin                                    expression // of scripts without spaces
}

// sensesOf are those of each language. What is missing matches nothing.
var sensesOf = func() map[string]senses {
	all := map[string]senses{}
	for _, section := range lang.Sections("doubts") {
		code, kind, _ := strings.Cut(section.Name, " ")
		s, pattern := all[code], section.Pattern()
		match := phrases
		if code == spaceless {
			match = anywhere
		}
		switch kind {
		case "negative":
			s.negative = match(pattern)
		case "past":
			s.past = match(pattern)
		case "mood":
			s.mood = match(pattern)
		case "self":
			s.self = match(pattern)
		case "others":
			s.others = match(pattern)
		case "clause ends":
			s.ends = match(pattern)
		case "known":
			s.known = express(pattern)
		case "people":
			s.people, s.peopleWithin = setOf(strings.Join(section.Words(), " ")), nil
			if code == spaceless {
				s.people, s.peopleWithin = nil, anywhere(pattern)
			}
		}
		all[code] = s
	}
	return all
}()

// spaceless is the code of the scripts without spaces, which share no words and so need no language.
const spaceless = "east"

// sensesFor returns the words by which a text in a language is read; English ones where it cannot be told.
func sensesFor(content, language string) senses {
	if strings.ContainsFunc(content, isSpaceless) {
		return sensesOf[spaceless]
	}
	if s, ok := sensesOf[map[string]string{"no": "da", "uk": "ru"}[language]]; ok {
		return s
	}
	if s, ok := sensesOf[language]; ok {
		return s
	}
	return sensesOf["en"]
}

// matches reports whether an expression matches a text; a missing one does not.
func (e expression) matches(plain string) bool { return e != nil && e().MatchString(plain) }

// begins reports whether a text begins with what an expression matches.
func (e expression) begins(plain string) bool {
	place := []int(nil)
	if e != nil {
		place = e().FindStringIndex(strings.TrimSpace(plain))
	}
	return place != nil && place[0] == 0
}

// wants is how a fact says that something is wished or planned.
var wants = phrases(`wants?|wishes|hopes?|plans?|intends?|would|dreams?|may|might|mochte|will|plant|veut|voudrait|souhaite|quiere|desea|vuole|vorrebbe` +
	`|quer|deseja|wil|vill|chce|хочет|istiyor`)

// ofUser is how a fact speaks of somebody or something of the user's.
var ofUser = express(`user'?s |\bmy |des nutzers|der nutzerin|de l'utilisat|del? (?:usuari|utente)|dell'utente|do (?:usuario|utilizador)` +
	`|van de gebruiker|anvandarens|brugerens|uzytkownika|пользователя|kullanicinin|用户的|ユーザーの|사용자의`)

// doubt returns why a quote may not say what a fact says; "" where nothing speaks against it.
func doubt(fact, language, message, quote string) Reason {
	words := sensesFor(fact, language)
	clause, asked := words.clauseWith(message, quote)
	told := fold(fact)
	denied := words.negative.matches(told)
	switch {
	case words.isAboutOthers(clause, told):
		return Subject
	case words.negative.matches(clause) != denied:
		return Polarity
	case words.past.matches(clause) && !words.past.matches(told) && !denied:
		return Past
	case asked || words.mood.matches(clause) && !words.mood.matches(told) && !wants().MatchString(told):
		return Mood
	}
	return ""
}

// isAboutOthers reports whether a clause speaks of somebody else, and the fact does not.
func (s senses) isAboutOthers(clause, fact string) bool {
	if s.self.matches(clause) || s.names(fact) {
		return false
	}
	return s.names(clause) || s.others.matches(clause) && !s.others.matches(fact) && !ofUser().MatchString(fact)
}

// names reports whether a folded text has a word for somebody.
func (s senses) names(plain string) bool {
	return s.peopleWithin.matches(plain) || slices.ContainsFunc(wordsOf(plain), func(word string) bool {
		return s.people[word] || s.people[strings.TrimSuffix(word, "s")]
	})
}

// clauseWith returns the clauses of a message in which a quote stands, folded, and whether they are no statement: they end in a
// question mark, or follow a clause such as "if I were rich".
func (s senses) clauseWith(message, quote string) (clause string, asked bool) {
	sentence := sentenceWith(message, quote)
	plain, inside := s.withoutOpeners(fold(sentence)), bare(quote)
	asks := strings.ContainsAny(sentence, "?？؟")
	var found []string
	clauses := s.clausesIn(plain)
	for at, part := range clauses {
		words := bare(part)
		if words != "" && (strings.Contains(words, inside) || strings.Contains(" "+inside+" ", " "+words+" ")) {
			isCondition := at > 0 && s.mood.begins(clauses[at-1])
			found, asked = append(found, part), asked || asks && at == len(clauses)-1 || isCondition
		}
	}
	if len(found) == 0 { // the quote begins within one clause and ends within another
		return plain, asks
	}
	return strings.Join(found, ", "), asked
}

// withoutOpeners cuts off the words with which somebody wants something known.
func (s senses) withoutOpeners(plain string) string {
	for s.known != nil {
		rest := s.known().ReplaceAllString(plain, "")
		if rest == plain {
			break
		}
		plain = rest
	}
	return plain
}

var clauseMarks = express(`[,;:()–—，；：、]|\s-\s`)

// clausesIn divides a folded sentence at its marks, and at words with which another clause begins.
func (s senses) clausesIn(plain string) []string {
	var clauses []string
	for _, part := range clauseMarks().Split(plain, -1) {
		for s.ends != nil {
			at := s.ends().FindStringIndex(part)
			if at == nil || at[0] == 0 {
				break
			}
			clauses, part = append(clauses, part[:at[0]]), part[at[1]:]
		}
		clauses = append(clauses, part)
	}
	return clauses
}
