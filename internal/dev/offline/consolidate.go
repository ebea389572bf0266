package offline

import (
	"regexp"
	"slices"
	"strings"
)

// Decision is what becomes of one candidate, in the form of the schema decisions.
type Decision struct {
	Candidate string  `json:"candidate"`
	Action    string  `json:"action"`
	Memory    *string `json:"memory"`
	Merged    *string `json:"merged"`
	Reason    string  `json:"reason"`
}

// consolidate answers which memories the candidates repeat, complete or contradict.
func consolidate(r *Request) object {
	var candidates, memories []aliasedLine
	for _, line := range aliased(r.Text, "CM") {
		line.text, _, _ = strings.Cut(line.text, "\n\n") // what comes after an empty line is another part
		line.text = strings.TrimSpace(line.text)
		if line.alias[0] == 'C' {
			candidates = append(candidates, line)
		} else {
			memories = append(memories, line)
		}
	}
	changed := map[string]bool{}
	decisions := []Decision{}
	for _, c := range candidates {
		decisions = append(decisions, decide(c, memories, changed))
	}
	return object{"decisions": decisions}
}

// The actions of a decision.
const (
	actionAdd    = "ADD"
	actionUpdate = "UPDATE"
	actionDelete = "DELETE"
	actionNoop   = "NOOP"
)

// decide compares a candidate with the memories that no other candidate has changed: what is known is not kept again,
// what is contradicted goes, what is less than the candidate becomes it.
func decide(c aliasedLine, memories []aliasedLine, changed map[string]bool) Decision {
	for _, action := range []string{actionNoop, actionDelete, actionUpdate} {
		for _, m := range memories {
			if changed[m.alias] || comparison(c.text, m.text) != action {
				continue
			}
			d := Decision{Candidate: c.alias, Action: action, Memory: &m.alias, Reason: "By what both say."}
			changed[m.alias] = action != actionNoop
			if action == actionUpdate {
				d.Merged = &c.text
			}
			return d
		}
	}
	return Decision{Candidate: c.alias, Action: actionAdd, Reason: "Nothing known says this."}
}

// comparison returns the action that a candidate means for one memory; ADD where it changes nothing about it.
func comparison(candidate, memory string) string {
	said, readSaid := claimIn(candidate)
	known, readKnown := claimIn(memory)
	if !readSaid || !readKnown {
		if negation.MatchString(candidate) != negation.MatchString(memory) {
			return actionAdd
		}
		return byWords(contentStems(candidate), contentStems(memory))
	}
	if said.subject() != known.subject() {
		return actionAdd
	}
	action := byWords(thingStems(said.thing), thingStems(known.thing))
	switch {
	case said.ended != known.ended && action != actionAdd:
		return actionDelete // "no longer plays the cello", and the other way round
	case !said.ended && !known.ended && action == actionAdd && aspects[said.of].single:
		return actionDelete // another home
	}
	return action
}

var negation = regexp.MustCompile(`(?i)\b(?:no|not|never|none)\b|n['’]t\b`)

// byWords compares what two texts say by their words alone.
func byWords(candidate, memory []string) string {
	has := func(all, some []string) bool {
		return len(some) > 0 && !slices.ContainsFunc(some, func(word string) bool { return !slices.Contains(all, word) })
	}
	switch {
	case has(memory, candidate):
		return actionNoop
	case has(candidate, memory):
		return actionUpdate
	}
	return actionAdd
}
