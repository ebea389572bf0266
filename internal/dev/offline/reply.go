package offline

import (
	"cmp"
	_ "embed" // what the model says of its own
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
)

//go:embed replies.txt
var replyLines string

// wish is something that the model knows how to answer, and by which words it knows it.
type wish struct {
	of, language string
	asked        *regexp.Regexp
}

// replies are the model's own texts, by what they are for and their language.
var wishes, replies = parseReplies(replyLines)

func parseReplies(lines string) (wishes []wish, replies map[[2]string]string) {
	replies = map[[2]string]string{}
	for line := range strings.Lines(lines) {
		head, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " | ")
		switch name := strings.Fields(head); {
		case len(name) != 3 || name[0] == "#":
		case name[2] == "said":
			replies[[2]string{name[0], name[1]}] = strings.ReplaceAll(text, `\n`, "\n")
		case name[2] == "asked":
			wishes = append(wishes, wish{name[0], name[1], regexp.MustCompile(`(?i)^[\s¿¡]*(?:` + text + `)[\s.!?]*$`)})
		}
	}
	return wishes, replies
}

// reply answers a main prompt in the language of its message: a question with what the prompt knows, a statement with what
// was understood. It depends on the text alone. The first reply of a chat says whose it is.
func reply(r *Request) string {
	known, current := parsePrompt(r.Text)
	current = strings.TrimSpace(withoutDirectives(current))
	language := languageOf(current)
	for _, p := range slices.Backward(known) {
		if language == "" && p.from == "Earlier you said" {
			language = languageOf(p.text)
		}
	}
	language = cmp.Or(language, "en")
	said, offline := answer(known, current, language), replies[[2]string{"offline", language}]
	if said != offline && !slices.ContainsFunc(known, func(p passage) bool { return p.weight < 1 }) {
		said += "\n\n" + offline
	}
	return said
}

func answer(known []passage, current, language string) string {
	if said, ok := wished(known, current, language); ok {
		return said
	}
	if said := each(known, current, language); said != "" {
		return said
	}
	facts := factsIn(Line{Text: current})
	asked := isQuestion(current)
	if asked || len(facts) == 0 && wants.MatchString(current) {
		found, ok := recall(known, current)
		switch {
		case !ok && !asked:
			return replies[[2]string{"beyond", language}]
		case !ok && toUs.MatchString(current):
			return replies[[2]string{"offline", language}]
		case !ok:
			return replies[[2]string{"nothing", language}]
		}
		if told := toldBy(found.text, language); told != "" {
			return told
		}
		return inQuotes(found, language)
	}
	said := sentences(current)
	if len(facts) == 0 && isSmallTalk(current) {
		return replies[[2]string{"present", language}]
	}
	filler := replies[[2]string{[]string{"noted", "later"}[hash(current)%2], language}]
	var understood []string
	for _, fact := range facts {
		understood = append(understood, secondPerson(fact.of.in(language)))
	}
	if len(understood) > 0 {
		return joined(understood) + " " + filler
	}
	main := slices.MaxFunc(said, func(a, b string) int { return informativeness(a) - informativeness(b) })
	return inQuotes(passage{from: "Noted", text: main}, language) + " " + filler
}

// each answers several questions in one: "What is my name, and where do I live?"
func each(known []passage, current, language string) string {
	var all []string
	for _, part := range conjunction.Split(current, -1) {
		if said, ok := wished(known, part, language); ok && asksWithoutMark.MatchString(part) {
			all = append(all, said)
		}
	}
	return joined(all)
}

var conjunction = regexp.MustCompile(`(?i),? (?:and|und) `)

// wished answers what replies.txt knows by its form, first in the language of the message: "plan" is a word of both.
func wished(known []passage, current, language string) (said string, ok bool) {
	foreign := func(w wish) bool { return w.language != language }
	for _, w := range slices.Concat(slices.DeleteFunc(slices.Clone(wishes), foreign), wishes) {
		found := w.asked.FindStringSubmatch(current)
		if found == nil {
			continue
		}
		switch w.of {
		case "greeting", "compare", "plan", "weigh":
			return fill(replies[[2]string{w.of, w.language}], w.asked.SubexpNames(), found, known, language), true
		case "me":
			said = aboutTheUser(known, w.language)
		default:
			said = latest(known, w.of, w.language)
		}
		if said != "" {
			return said, true
		}
	}
	return "", false
}

// fill writes the things that were asked for into a text, each with a sentence that the prompt has about it.
func fill(text string, names, found []string, known []passage, language string) string {
	for n, name := range names {
		if name == "" || found[n] == "" {
			continue
		}
		thing := strings.Trim(found[n], " .!?")
		about := "–"
		if best, ok := recall(known, thing); ok {
			about = best.text
			if told := toldBy(best.text, language); told != "" {
				about = told
			}
		}
		text = strings.NewReplacer("{"+name+"}", thing, "{known "+name+"}", strings.ReplaceAll(about, "|", "/")).Replace(text)
	}
	return text
}

// aboutTheUser says all memories of the prompt.
func aboutTheUser(known []passage, language string) string {
	var all []string
	for _, p := range known {
		if p.from == remembered {
			for _, memory := range sentences(p.text) {
				told := toldBy(memory, language)
				if told == "" {
					told = secondPerson(memory)
				}
				all = append(all, told)
			}
		}
	}
	return joined(all)
}

// latest says what the user or a memory said last of an aspect; "" where none did.
func latest(known []passage, of, language string) (said string) {
	for _, p := range known {
		for _, sentence := range sentences(p.text) {
			for _, c := range claimsIn(sentence) {
				if c.of == of && p.weight == 1 {
					said = secondPerson(c.in(language))
				}
			}
		}
	}
	return said
}

// toldBy says a sentence of the user or of a memory to the user; "" where the model does not understand it.
func toldBy(sentence, language string) string {
	var all []string
	for _, c := range claimsIn(sentence) {
		all = append(all, secondPerson(c.in(language)))
	}
	return joined(all)
}

func claimsIn(sentence string) (all []claim) {
	for _, clause := range clausesOf(sentence) {
		bare, _ := bareOf(openers.ReplaceAllString(clause, ""), time.Unix(0, 0)) // the date itself is not said
		if c, ok := claimIn(bare); ok {
			all = append(all, c)
		}
	}
	return all
}

// inQuotes quotes a sentence without its quotation marks, and cut if it is long.
func inQuotes(p passage, language string) string {
	const longest = 70 // tokens
	from := cmp.Or(replies[[2]string{strings.ReplaceAll(p.from, " ", "-"), language}], p.from)
	return fmt.Sprintf(`%s: "%s"`, from, memorytext.FitCap(strings.ReplaceAll(p.text, `"`, "'"), longest))
}

// quotation is a sentence of ours that repeats what the user or the prompt says.
var quotation = regexp.MustCompile(`^(?:From our conversation summary|From what I remember of you|From the topic that we came back to|From an earlier ` +
	`turn|Earlier you said|Earlier I said|Noted|Notiert|Vorher hast du gesagt|Vorher habe ich gesagt|Von früher` +
	`|Aus der Zusammenfassung unseres Gesprächs|Aus dem Thema, auf das wir zurückgekommen sind): "`)

// addressed is a sentence to the user: of ours it repeats what the user said.
var addressed = regexp.MustCompile(`^(?:You|Your|Du|Dein) `)

// asksWithoutMark is how questions begin: with their word, or with a verb before its subject.
var asksWithoutMark = regexp.MustCompile(`(?i)^\W*(?:(?:what|who|where|when|how)(?:'?s)?|whom|whose|which|why|remind me|tell me|was|wer|wen|wem|wo|wann` +
	`|welche[rsn]?|warum|wie|erzähl mir|\pL+st du|(?:soll|kann|muss|darf|hab|habe|bin) ich` +
	`|(?:am|is|are|was|were|do|does|did|can|could|will|would|should|have|has) (?:i|you|he|she|it|we|they|my|your|the|this|that|there))\b`)

var (
	// wants asks for something to be done: "recommend me a bow". What it tells, as "call me Ada" does, comes first.
	wants = regexp.MustCompile(`(?i)^\W*(?:please |bitte )?(?:\pL+ (?:me|us|mir|uns)|` + strings.ReplaceAll(doings, " ", "|") + `)\s`)
	// toUs is about the model itself, or asks it for more than it knows.
	toUs = regexp.MustCompile(`(?i)\b(?:you|your|du|dir|dich|dein|me|mir)\b`)
)

// isSmallTalk reports whether a text has nothing to keep, by its length: "lol ok", but not "Anna, 12 March".
func isSmallTalk(text string) bool {
	return len(words(text)) <= 2 && len(contentStems(text)) <= 1 && !strings.ContainsAny(text, "0123456789")
}

// isQuestion reports whether a text has a question mark or begins like a question.
func isQuestion(text string) bool {
	return strings.ContainsAny(text, "?？؟") || asksWithoutMark.MatchString(text)
}

// stock are the sentences of replies.txt, which carry no information: recall and folds ignore them.
var stock = func() map[string]bool {
	all := map[string]bool{}
	for _, text := range replies {
		for _, sentence := range sentences(text) {
			all[sentence] = true
		}
	}
	return all
}()

// isStock reports whether a sentence of ours says nothing new: a stock one, or one that repeats what the prompt says.
func isStock(sentence string, ours bool) bool {
	return stock[sentence] || quotation.MatchString(sentence) || ours && addressed.MatchString(sentence)
}

// recall finds the sentence that shares the most with the question: the sum of the weights of shared word stems, where
// a rare word weighs more (inverse sentence frequency). Of two alike the shorter one counts, then the later one.
func recall(known []passage, question string) (best passage, found bool) {
	const minShare = 0.2 // of the question's weight that an answer has to have
	all := quotable(known)
	stems := make([][]string, len(all))
	having := map[string]int{} // sentences by stem
	for n, sentence := range all {
		stems[n] = contentStems(sentence.text)
		for _, s := range stems[n] {
			having[s]++
		}
	}
	bestScore, total, shortest := 0.0, 0.0, 0
	asked := contentStems(question)
	rarity := func(s string) float64 { return math.Log1p(float64(len(all)) / float64(1+having[s])) }
	for _, s := range asked {
		total += rarity(s)
	}
	for n, sentence := range all {
		score := 0.0
		for _, s := range asked {
			if slices.Contains(stems[n], s) {
				score += rarity(s)
			}
		}
		score *= sentence.weight
		isBetter := score > bestScore || score == bestScore && len(stems[n]) <= shortest
		if score > 0 && score >= minShare*total && isBetter {
			best, bestScore, shortest = sentence, score, len(stems[n])
		}
	}
	return best, bestScore > 0
}

// quotable returns the sentences that state something.
func quotable(known []passage) []passage {
	var found []passage
	for _, p := range known {
		for _, sentence := range sentences(withoutDirectives(p.text)) {
			if !isQuestion(sentence) && !isStock(sentence, p.weight < 1) {
				found = append(found, passage{p.from, sentence, p.weight})
			}
		}
	}
	return found
}
