package longterm

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// A quote proves that words were said, not that they say what the fact says: "I am not allergic to walnuts, my sister is" holds every word
// of "The user is allergic to walnuts". So the clauses of the quote have to be a plain statement; the user is asked for all else.

// senses are the words of one language that change what a clause says. What is missing matches nothing.
type senses struct {
	language string

	negative, past, mood, noMood, questions, self, me, others, ends, plain expression
	people, mine, beside                                                   expression // other persons, and "my" or "with my" before
}

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
		others: match("doubt others"), ends: match("doubt clause ends"), plain: match("doubt plain"),
		people: match("doubt people"),
		mine:   made(func() string { return `(?:` + cmp.Or(lang.Folded(read("doubt my")...), never) + `)` + who() }),
		beside: made(func() string {
			return strings.ReplaceAll(cmp.Or(patternOf(lang.FoldedAs, read("doubt beside")...), never), "{who}", who())
		}),
	}
}

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

func (e expression) matches(plain string) bool { return e().MatchString(plain) }

// begins reports whether a text begins with what an expression matches.
func (e expression) begins(plain string) bool {
	place := e().FindStringIndex(strings.TrimSpace(plain))
	return place != nil && place[0] == 0
}

// wants is how a fact says in any language that something is wished or planned, ofUser that a person or thing is the user's.
var wants, ofUser = spoken("doubt wishes"), spoken("of the user")

// doubt returns why a quote may not say what a fact says; "" where it is a plain statement of it.
func doubt(fact, language, message, quote string) Reason {
	language = cmp.Or(language, lang.Likely(message+" "+fact))
	words := sensesFor(fact, language)
	sentence := sentenceWith(message, quote)
	said := words.clauseWith(sentence, quote)
	told := lang.FoldAs(words.language, fact)
	var names []string
	if words.speaksOfSelf(said.text) || words.me.matches(said.text) {
		names = wordsIn(lang.FoldAs(words.language, strings.Join(namesIn(sentence, language), " ")))
	}
	denied := words.negative.matches(told)
	switch {
	case words.isAboutOthers(said.text, told):
		return Subject
	case words.negative.matches(said.text) != denied:
		return Polarity
	case words.past.matches(said.text) && !words.past.matches(told) && !denied:
		return Past
	case said.asked || words.mood.matches(said.text) && !words.mood.matches(told) && !anyMatches(wants, lang.Fold(fact)):
		return Mood
	case anyMatches(style, lang.Fold(fact)) && !words.self.matches(said.text) && (anyMatches(wants, lang.Fold(fact)) || imperatives.begins(said.text)):
		return "" // the assistant is asked for it
	case !words.isPlain(said.text, told, names), !words.isPlainBefore(said, told, names), words.takesBack(said, message, sentence):
		return Unclear
	}
	return ""
}

// isPlain reports whether clauses hold nothing but words of the fact and of any plain statement about oneself: what else governs it ("my
// mother thinks", "almost", "I pretend that") may change what it says. Behind a word of the fact something may be added that begins with
// a plain word, as "in Porto this autumn" does. A name changes nothing where the user speaks.
func (s senses) isPlain(clauses, fact string, names []string) bool {
	clauses = s.withoutTimes(clauses, fact)
	if s.language == "" {
		rest := s.plain().ReplaceAllString(s.ends().ReplaceAllString(s.people().ReplaceAllString(clauses, " "), " "), " ")
		return !strings.ContainsFunc(rest, func(r rune) bool { return unicode.IsLetter(r) && !strings.ContainsRune(fact, r) })
	}
	ofFact, isPlainWord := wordsIn(fact), s.plainWords(fact)
	begun, behindFact := false, false
	for clause := range strings.SplitSeq(clauses, ",") {
		for n, word := range wordsIn(clause) {
			isOfFact := !isPlainWord(word) && slices.ContainsFunc(ofFact, func(other string) bool { return isFormOf(word, other) })
			isStrange := !isOfFact && !isPlainWord(word) && !(n > 0 && slices.Contains(names, word))
			if isStrange && (!begun || behindFact) {
				return false
			}
			begun, behindFact = begun || isOfFact, isOfFact
		}
		behindFact = false
	}
	return true
}

// withoutTimes removes near times such as "tomorrow" if the fact has a number: it says which day that is.
func (s senses) withoutTimes(clauses, fact string) string {
	if !strings.ContainsFunc(fact, unicode.IsDigit) {
		return clauses
	}
	for _, near := range relative {
		if near.lang == "" || near.lang == s.language {
			clauses = near.pattern().ReplaceAllString(clauses, " ")
		}
	}
	return clauses
}

// isFormOf reports whether two folded words are forms of one, of which one may be a compound; Arabic verbs begin with the person.
func isFormOf(a, b string) bool {
	const ofCompound, ofVerb, ofStem = 5, 6, 4 // bytes, and letters of a stem
	_, first := utf8.DecodeRuneInString(a)
	isVerb := first < len(b) && a[first:] == b[first:] && len(a[first:]) >= ofVerb && unicode.Is(unicode.Arabic, []rune(a)[0])
	common, longest := beginAlike(a, b)
	isPart := min(len(a), len(b)) >= ofCompound && (strings.Contains(a, b) || strings.Contains(b, a))
	return isVerb || sameStem(a, b) || common >= ofStem && common*2 > longest || isPart
}

// isPlainBefore reports whether what stands before a plain clause leaves it plain: it has no strange words, or speaks of the user as well,
// or is joined to it ("and"). A colon may introduce anything, and a clause without the user may be about a person of the one before.
func (s senses) isPlainBefore(said clause, fact string, names []string) bool {
	before, isOwn := strings.TrimRight(said.before, " ,"), s.self.matches(said.text) || s.me.matches(said.text)
	last, isIntroduction := strings.CutSuffix(before, ":")
	last = last[strings.LastIndexAny(last, ",;")+1:]
	if s.mood.begins(last) || s.mood.matches(last) && !s.self.matches(said.text) { // "if I were rich", "I think about"
		return false
	}
	switch {
	case isIntroduction:
		before = last
	case s.ends.begins(said.text), s.ends.matches(before[strings.LastIndex(before, " ")+1:]):
		return true
	case s.self.matches(before):
		return isOwn || s.people.matches(fact) || !s.people.matches(before)
	}
	return s.language == "" || s.isPlain(before, fact, names)
}

// takesBack reports whether what follows a clause takes it back, as "yeah right" does, or a short sentence such as "Never!"
func (s senses) takesBack(said clause, message, sentence string) bool {
	if s.mood.matches(said.after) && !s.self.matches(said.after) {
		return true
	}
	const few = 3 // words
	_, behind, _ := strings.Cut(message, sentence)
	for _, next := range text.Sentences(behind) {
		plain := lang.FoldAs(s.language, next)
		return len(wordsIn(plain)) <= few && (s.mood.matches(plain) || s.negative.matches(plain))
	}
	return false
}

// plainWords returns which words change nothing. Those that were read before agree with the fact.
func (s senses) plainWords(fact string) func(word string) bool {
	all := []expression{s.plain, s.self, s.me, s.negative, s.people, s.others, s.ends}
	if s.mood.matches(fact) || anyMatches(wants, fact) {
		all = append(all, s.mood)
	}
	return func(word string) bool {
		return numberWords[word] > 0 || len(monthsIn(word)) > 0 || strings.ContainsFunc(word, unicode.IsDigit) ||
			slices.ContainsFunc(all, func(e expression) bool { return e.matches(word) })
	}
}

func wordsIn(plain string) []string {
	return strings.FieldsFunc(plain, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

// isAboutOthers reports whether a clause speaks of another person, and the fact does not.
func (s senses) isAboutOthers(clause, fact string) bool {
	if s.speaksOfSelf(clause) {
		return false
	}
	ofUsers := anyMatches(ofUser, lang.Fold(fact))
	clause = s.beside().ReplaceAllString(clause, " ")
	if named, told := len(s.people().FindAllString(clause, -1)), len(s.people().FindAllString(fact, -1)); named > 0 {
		return told == 0 || told < named && !ofUsers // "my sister is a teacher" is no fact of a teacher
	}
	return s.others.matches(clause) && !s.others.matches(fact) && !ofUsers
}

// speaksOfSelf reports whether the speaker of a clause speaks of themselves. "My sister" does not, also where it has the word for "I".
func (s senses) speaksOfSelf(clause string) bool {
	return s.self.matches(s.mine().ReplaceAllString(clause, " "))
}

type clause struct {
	text          string // folded
	before, after string // its neighbours
	asked         bool
}

// clauseWith returns the clauses of a sentence in which a quote stands.
func (s senses) clauseWith(sentence, quote string) clause {
	folded := lang.FoldAs(s.language, sentence)
	plain := withoutOpeners(folded)
	asks, isRequest := strings.ContainsAny(sentence, "?？؟"), plain != folded // "could you keep in mind that I …?"
	plain = s.noMood().ReplaceAllString(plain, " , ")
	inside := lang.Bare(lang.FoldAs(s.language, quote))
	before, _, isWhole := strings.Cut(lang.Bare(plain), inside)
	if !isWhole { // it holds words that were cut off
		return clause{text: plain, asked: asks && !isRequest}
	}
	from, to := lettersIn(before), lettersIn(before+inside)
	var found clause
	clauses, start := s.clausesIn(plain), 0
	for at, part := range clauses {
		end := start + lettersIn(part)
		switch {
		case end == start:
			continue
		case end <= from:
			found.before += part
		case start >= to:
			found.after = cmp.Or(found.after, part)
		default:
			found.text += part
			found.asked = found.asked || asks && (!isRequest && at == len(clauses)-1 || s.questions.begins(part))
		}
		start = end
	}
	found.text = strings.TrimSpace(found.text)
	return found
}

func lettersIn(content string) int { return len(strings.ReplaceAll(lang.Bare(content), " ", "")) }

// openers are the words with which people want something known or ask for it to be kept, at the beginning of a text. Whole phrases mean
// the same in any language, so that a text too short to tell its language has them, too.
var openers = func() (all []expression) {
	for _, s := range lang.Each("openers") {
		all = append(all, made(func() string {
			before, behind := lang.Get(s.Language, "doubt before openers"), lang.Get(s.Language, "openers end")
			if !lang.HasSpaces(s.Language) {
				return `^(?:` + lang.Folded(s) + `)[,、:]?\s*`
			}
			return `^(?:(?:` + lang.Folded(before) + `) )*(?:` + lang.Folded(s) + `|` + lang.FoldedAs(s) + `)[,:]?(?: (?:` + lang.Folded(behind) + `))*(?:\s+|$|\b)`
		}))
	}
	return all
}()

func withoutOpeners(plain string) string {
	for rest := plain; ; plain = rest {
		for _, opener := range openers {
			rest = opener().ReplaceAllString(rest, "")
		}
		if rest == plain {
			return plain
		}
	}
}

var clauseMarks = express(`[,;:()–—，；：、]|\s-\s|[.!?]\s`)

// clausesIn divides a folded sentence at its marks, and at words with which another clause begins.
func (s senses) clausesIn(plain string) []string {
	var clauses []string
	for part := range strings.SplitSeq(clauseMarks().ReplaceAllString(plain, "$0\x00"), "\x00") {
		for at := s.ends().FindStringIndex(part); at != nil && at[0] > 0; at = s.ends().FindStringIndex(part) {
			isOneWord := len(clauses) == 0 && len(strings.Fields(part[:at[0]])) == 1 && !strings.ContainsFunc(part[:at[0]], lang.Spaceless)
			if no := s.negative().FindStringIndex(part); isOneWord || no != nil && no[0] < at[0] && no[1] >= at[1] {
				break // "I and my wife", "anything but"
			}
			clauses, part = append(clauses, part[:at[1]]), part[at[1]:]
		}
		clauses = append(clauses, part)
	}
	return clauses
}
