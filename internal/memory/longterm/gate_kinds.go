package longterm

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// What a memory may not do is tell the assistant what to do. How the user likes answers to be written is the one thing
// that it may say to it: style. The patterns are for folded text.

// defiance are words of orders that no style needs, to any addressee.
var defiance = spoken("orders of defiance")

// imperatives are the verbs with which an order to the assistant begins.
var imperatives = made(func() string {
	return `^(?:(?:` + lang.Folded(lang.Each("before imperatives")...) + `) )*(?:` + words("imperatives", lang.Fold) + `)(?:$|[^\pL])`
})

// addresses are facts about what the assistant is to do.
var addresses = spoken("orders to the assistant")

// style is how answers are written. An order of nothing else is a preference.
var style = spoken("style")

// isOrder reports whether a fact tells the assistant what to do, beyond the style of its answers, or holds what could
// leave its section of a prompt.
func isOrder(fact string) bool {
	if markedUp().MatchString(fact) || leavesSection(fact) {
		return true
	}
	plain := lang.Fold(fact)
	return anyMatches(defiance, plain) || slices.ContainsFunc(clausesOf(plain), isCommand)
}

// clausesOf returns the parts of a folded text in which an order can begin: its sentences, what
// follows the words with which people want it kept, and what follows a condition.
func clausesOf(plain string) []string {
	var clauses []string
	for _, clause := range clauseEnds().Split(plain, -1) {
		clause = strings.Trim(clause, ` "'.-*•()`)
		for {
			rest := wrapper().ReplaceAllString(clause, "")
			if rest == clause {
				break
			}
			clause = strings.Trim(rest, ` "'.-*•()`)
		}
		clauses = append(clauses, clause)
		if condition().MatchString(clause) {
			clauses = append(clauses, strings.Split(clause, ", ")...)
		}
	}
	return clauses
}

var (
	clauseEnds = express(`[;.!?。！？]+(?:\s+|$)`)
	condition  = framed(`^...(?:$|[^\pL\pN])`, "order conditions")
	wrapper    = framed(`^...(?:[,:]? |$)`, "wish openers")
)

// isCommand reports whether a clause is an order to the assistant that is about more than style.
func isCommand(clause string) bool {
	if anyMatches(youDo, clause) {
		return true
	}
	if !imperatives().MatchString(clause) && !anyMatches(addresses, clause) {
		return false
	}
	return !anyMatches(style, clause) || anyMatches(actions, clause)
}

// youDo is an order in the second person.
var youDo = spoken("orders to you")

// actions are what an assistant does or touches beside writing answers.
var actions = spoken("actions")

var (
	markedUp = express(
		`!\[[^\]]*\]\(|\[[^\]]*\]\(\s*(?:https?:|javascript:|data:)|</?[a-zA-Z][\w-]*(?:\s[^>]*)?/?>|<\|[\w-]+\|>|\{\{|\}\}|\x60\x60\x60|\[/?(?:INST|SYS|SYSTEM)\]` +
			`|={3,}|javascript:|data:text/`,
	)
	roleMark = express(`(?i)^\W*(?:system|assistant|developer|tool|user|human)\s*[:>\]|]`)
)

// leavesSection reports whether a fact looks like a heading or a speaker label of a prompt.
func leavesSection(fact string) bool {
	return prompt.LooksLikePrompt(fact) || text.HasHiddenMarks(fact) || roleMark().MatchString(fact) ||
		opensInjection(fact) || headingWithin().MatchString(lang.Fold(fact))
}

// headingWithin finds a heading of ours in the middle of a line.
var headingWithin = framed("...", "headings of prompts")

// meta is talk about the conversation instead of the user. So is what the assistant did.
var meta = spoken("talk of the chat")

var questionMark = express(`[?？؟;]\s*["'”’»)]*$`)

var questionStart = spoken("question openers")

// isNoFact reports whether a text is a question, a refusal, talk about the conversation, or says nothing.
func isNoFact(fact string) bool {
	if strings.ContainsAny(fact, "?？؟") && questionMark().MatchString(fact) && !strings.HasSuffix(fact, ";") {
		return true
	}
	plain := strings.Trim(lang.Fold(fact), ` "'-*•`)
	if anyMatches(questionStart, plain) {
		return true
	}
	return anyMatches(meta, plain) || len(contentOf(fact)) == 0
}

// passing are feelings and actions of this moment, which will not matter tomorrow.
var passing = spoken("passing")

// isPassing reports whether a fact is plainly of the moment, also where the model gives it a longer horizon.
func isPassing(fact string) bool {
	plain := strings.TrimRight(lang.Fold(fact), " .!。")
	return slices.ContainsFunc(passing, func(pattern expression) bool {
		place := pattern().FindStringIndex(plain)
		return place != nil && place[1] == len(plain)
	})
}

// lasting are words of facts that hardly ever change and that a user would not want to say twice: health, names, family,
// birth dates and languages. They are folded.
var lasting = slices.Concat(
	[]expression{beginnings("lasting health"), beginnings("lasting family")}, spoken("lasting health phrases"), spoken("lasting family phrases"),
	spoken("lasting names"), spoken("lasting birth"), spoken("lasting languages"), spoken("lasting home"), spoken("lasting work"))

func beginnings(section string) expression {
	return made(func() string { return beginningOf(slices.Sorted(maps.Keys(wordSet(section)))) })
}

func beginningOf(stems []string) string {
	const shortStem = 4 // characters: a shorter stem is a word of its own
	var long, short []string
	for _, stem := range stems {
		if utf8.RuneCountInString(stem) <= shortStem {
			short = append(short, regexp.QuoteMeta(stem))
		} else {
			long = append(long, regexp.QuoteMeta(stem))
		}
	}
	return `(?:^|[^\pL\pN])(?:(?:` + strings.Join(long, "|") + `)|(?:` + strings.Join(append(short, "-"), "|") + `)(?:s|'s|e|en|n)?(?:$|[^\pL\pN]))`
}

// IsLasting reports whether a fact is of the kind that does not decay.
func IsLasting(fact string) bool {
	return anyMatches(lasting, lang.Fold(fact))
}

// isExcluded reports whether a text is about one of the subjects that the user does not want remembered: it has each word
// of the subject, in any form.
func isExcluded(subjects []string, texts ...string) bool {
	return slices.ContainsFunc(subjects, func(subject string) bool {
		wanted := lang.WordsOf(subject)
		return len(wanted) > 0 && slices.ContainsFunc(texts, func(content string) bool { return namesSubject(content, wanted) })
	})
}

func namesSubject(content string, wanted []string) bool {
	const ofCompound = 5
	words, whole := lang.WordsOf(content), lang.Bare(content)
	return !slices.ContainsFunc(wanted, func(want string) bool { // is missing
		if strings.ContainsFunc(want, lang.Spaceless) {
			return !strings.Contains(whole, want)
		}
		return !slices.ContainsFunc(words, func(word string) bool {
			return sameStem(want, word) || len(want) >= ofCompound && strings.Contains(word, want)
		})
	})
}
