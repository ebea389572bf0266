package extract

import (
	"cmp"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// A quote proves that words were said, not that they say what the fact says: "I am not allergic to walnuts, my sister is"
// holds every word of "The user is allergic to walnuts". So the clauses in which the quote stands are read for what changes
// their sense. These are rules for doubt, not for truth: what is in doubt is asked of the user.

// senses are the words of one language that change what a clause says. What is missing matches nothing.
type senses struct {
	language string

	negative, past, mood, noMood, questions, self, me, others, subjects, reported, ends expression
	people, mine, beside                                                                expression // somebody, and "my" or "with my" before
}

// sensesOf are those of each language.
var sensesOf = func() map[string]senses {
	all := map[string]senses{spaceless: sensesIn("", func(section string) []lang.Section {
		_, unspaced := bySpaces(section)
		return unspaced
	})}
	for _, s := range lang.Each("doubt negative") {
		if lang.HasSpaces(s.Language) {
			all[s.Language] = sensesIn(s.Language, func(section string) []lang.Section { return []lang.Section{lang.Get(s.Language, section)} })
		}
	}
	return all
}()

// sensesIn returns the senses of the sections that read finds.
func sensesIn(language string, read func(section string) []lang.Section) senses {
	match := func(section string) expression {
		return made(func() string { return cmp.Or(patternOf(lang.FoldedAs, read(section)...), never) })
	}
	who := func() string {
		var people []string
		for _, s := range read("doubt people") {
			people = append(people, cmp.Or(lang.FoldedAs(s), never))
		}
		return `(?:` + strings.Join(people, "|") + `)`
	}
	return senses{
		language: language,
		negative: match("doubt negative"), past: match("doubt past"), mood: match("doubt mood"), noMood: match("doubt no mood"),
		questions: match("doubt questions"), self: match("doubt self"), me: match("doubt me"),
		others: match("doubt others"), subjects: match("doubt subjects"), reported: match("doubt reported"), ends: match("doubt clause ends"),
		people: match("doubt people"),
		mine:   made(func() string { return `(?:` + cmp.Or(lang.Folded(read("doubt my")...), never) + `)` + who() }),
		beside: made(func() string {
			return strings.ReplaceAll(cmp.Or(patternOf(lang.FoldedAs, read("doubt beside")...), never), "{who}", who())
		}),
	}
}

// never matches nothing.
const never = `[^\s\S]`

// spaceless stands for the scripts without spaces, which share no words and so need no language.
const spaceless = "unspaced"

// sensesFor returns the words by which a text in a language is read; where it cannot be told, in the one that is likely.
func sensesFor(content, language string) senses {
	if strings.ContainsFunc(content, lang.Spaceless) {
		return sensesOf[spaceless]
	}
	if s, ok := sensesOf[cmp.Or(language, lang.Likely(content))]; ok {
		return s
	}
	return sensesOf["en"]
}

// matches reports whether an expression matches a text.
func (e expression) matches(plain string) bool { return e().MatchString(plain) }

// begins reports whether a text begins with what an expression matches.
func (e expression) begins(plain string) bool {
	place := e().FindStringIndex(strings.TrimSpace(plain))
	return place != nil && place[0] == 0
}

// wants is how a fact says in any language that something is wished or planned, ofUser that somebody or something is the user's.
var wants, ofUser = spoken("doubt wishes"), spoken("of the user")

// doubt returns why a quote may not say what a fact says; "" where nothing speaks against it.
func doubt(fact, language, message, quote string) Reason {
	language = cmp.Or(language, lang.Likely(message+" "+fact))
	words := sensesFor(fact, language)
	sentence := sentenceWith(message, quote)
	said := words.clauseWith(sentence, quote)
	told := lang.FoldAs(words.language, fact)
	denied := words.negative.matches(told)
	switch {
	case said.reported, words.isAboutOthers(said, told), words.isAboutName(sentence, said.text, fact, language):
		return Subject
	case words.negative.matches(said.text) != denied:
		return Polarity
	case (said.was || words.past.matches(said.text)) && !words.past.matches(told) && !denied:
		return Past
	case said.asked || words.mood.matches(said.text) && !words.mood.matches(told) && !anyMatches(wants, lang.Fold(fact)):
		return Mood
	}
	return ""
}

// isAboutOthers reports whether a clause speaks of somebody else, and the fact does not.
func (s senses) isAboutOthers(said clause, fact string) bool {
	if s.speaksOfSelf(said.text) {
		return false
	}
	ofUsers := anyMatches(ofUser, lang.Fold(fact))
	clause := s.beside().ReplaceAllString(said.text, " ")
	if named, told := s.countPeople(clause), s.countPeople(fact); named > 0 {
		return told == 0 || told < named && !ofUsers // "my sister is a teacher" is no fact of a teacher
	}
	if s.others.matches(clause) {
		return !s.others.matches(fact) && !ofUsers
	}
	return said.opens && s.hasOtherSubject(clause) && !ofUsers && !s.subjects.begins(strings.TrimSpace(withoutUser().ReplaceAllString(fact, "")))
}

// hasOtherSubject reports whether a clause has a subject of its own, such as "the guy upstairs", and no word for the user.
func (s senses) hasOtherSubject(clause string) bool {
	return s.subjects.begins(clause) && !s.me.matches(clause) && !s.self.matches(clause)
}

// withoutUser matches the user at the beginning of a fact.
var withoutUser = framed(`^...`, "notes begin")

// isAboutName reports whether a sentence begins with a name that the fact does not have, and its clause does not speak of the user.
func (s senses) isAboutName(sentence, clause, fact, language string) bool {
	name := firstName(sentence, language)
	return name != "" && !s.speaksOfSelf(clause) && !anyMatches(ofUser, lang.Fold(fact)) &&
		!slices.ContainsFunc(lang.WordsOf(fact), func(word string) bool { return sameName(lang.Fold(name), word, language) })
}

// speaksOfSelf reports whether somebody speaks of themselves in a clause. "My sister" does not, also where it has the word for "I".
func (s senses) speaksOfSelf(clause string) bool {
	return s.self.matches(s.mine().ReplaceAllString(clause, " "))
}

// countPeople counts the words for somebody in a folded text, each with an "s" behind it as well.
func (s senses) countPeople(plain string) int {
	count := len(s.people().FindAllString(plain, -1))
	for _, word := range lang.WordsOf(plain) {
		if one, ok := strings.CutSuffix(word, "s"); ok && s.people.matches(one) && !s.people.matches(word) {
			count++
		}
	}
	return count
}

// clause is what a quote stands in.
type clause struct {
	text string // folded
	// asked is no statement: a question, or what follows "if I were rich". was is what follows "when I was a child".
	asked, was bool
	opens      bool // it is the first of its sentence
	reported   bool // somebody else said it
}

// clauseWith returns the clauses of a sentence in which a quote stands.
func (s senses) clauseWith(sentence, quote string) clause {
	plain, isRequest := withoutOpeners(lang.FoldAs(s.language, sentence))
	plain, inside := s.noMood().ReplaceAllString(plain, " , "), lang.Bare(lang.FoldAs(s.language, quote))
	asks := strings.ContainsAny(sentence, "?？؟") && !isRequest
	var found clause
	clauses := s.clausesIn(plain)
	for at, part := range clauses {
		words := lang.Bare(part)
		if words == "" || !strings.Contains(words, inside) && !strings.Contains(" "+inside+" ", " "+words+" ") {
			continue
		}
		found.text += part + ", "
		found.asked = found.asked || asks && (at == len(clauses)-1 || s.questions.begins(part))
		if at == 0 {
			found.opens = true
		} else {
			s.readBefore(&found, clauses[at-1], part)
		}
	}
	if found.text == "" { // the quote begins within one clause and ends within another
		return clause{text: plain, asked: asks}
	}
	return found
}

// readBefore reads what the clause before says of the next one. Behind "if I were rich" it is imagined, and behind "I think about" where
// nobody says "I" again.
func (s senses) readBefore(found *clause, before, next string) {
	found.asked = found.asked || s.mood.begins(before) || s.mood.matches(before) && !s.self.matches(next)
	found.reported = found.reported || s.reported.matches(before) && !s.self.matches(before)
	found.was = found.was || s.past.begins(before)
}

// openers are the words with which somebody wants something known, at the beginning of a text, and requests those that ask for it.
// Whole phrases mean the same in any language, so that a text too short to tell its language has them, too.
var openers, requests = openersOf("openers"), openersOf("openers that ask")

func openersOf(section string) []expression {
	var all []expression
	for _, s := range lang.Each(section) {
		all = append(all, made(func() string {
			before, behind := lang.Get(s.Language, "doubt before openers"), lang.Get(s.Language, "openers end")
			if !lang.HasSpaces(s.Language) {
				return `^(?:` + lang.Folded(s) + `)[,、:]?\s*`
			}
			return `^(?:(?:` + lang.Folded(before) + `) )*(?:` + lang.Folded(s) + `|` + lang.FoldedAs(s) + `)[,:]?(?: (?:` + lang.Folded(behind) + `))*(?:\s+|$|\b)`
		}))
	}
	return all
}

// withoutOpeners cuts off a folded text's openers, and reports whether they ask.
func withoutOpeners(plain string) (rest string, asks bool) {
	for {
		rest = plain
		for _, opener := range openers {
			rest = opener().ReplaceAllString(rest, "")
		}
		for _, request := range requests {
			if request.matches(rest) {
				rest, asks = request().ReplaceAllString(rest, ""), true
			}
		}
		if rest == plain {
			return plain, asks
		}
		plain = rest
	}
}

var clauseMarks = express(`[,;:()–—，；：、]|\s-\s`)

// clausesIn divides a folded sentence at its marks, and at words with which another clause begins.
func (s senses) clausesIn(plain string) []string {
	var clauses []string
	for _, part := range clauseMarks().Split(plain, -1) {
		for at := s.ends().FindStringIndex(part); at != nil && at[0] > 0; at = s.ends().FindStringIndex(part) {
			isOneWord := len(strings.Fields(part[:at[0]])) == 1 && !strings.ContainsFunc(part[:at[0]], lang.Spaceless)
			if no := s.negative().FindStringIndex(part); isOneWord || no != nil && no[0] < at[0] && no[1] >= at[1] {
				break // "I and my wife", "anything but"
			}
			clauses, part = append(clauses, part[:at[0]]), part[at[1]:]
		}
		clauses = append(clauses, part)
	}
	return clauses
}
