package longterm

import (
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/lang"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// What a memory may not do is tell the assistant what to do. How the user likes answers to be written is the one thing
// that it may say to it: style. The patterns are for folded text.

// defiance are words of orders that no style needs, whoever they are said to.
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
// follows the words with which somebody wants it kept, and what follows a condition.
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

// passing is what will not matter tomorrow: what somebody feels or does at this moment.
var passing = spoken("passing")

// isPassing reports whether a fact is plainly of the moment, whatever the model says of its horizon.
func isPassing(fact string) bool {
	plain := strings.TrimRight(lang.Fold(fact), " .!。")
	return slices.ContainsFunc(passing, func(pattern expression) bool {
		place := pattern().FindStringIndex(plain)
		return place != nil && place[1] == len(plain)
	})
}
