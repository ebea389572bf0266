package offline

import (
	"cmp"
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

// Decide answers a consolidation: what is decided on each candidate beside the memories that it is shown with. nil adds it.
func Decide(text string, decide func(candidate Line, memories []Line) *Decision) string {
	var candidates, memories []Line
	for _, line := range ReadLines(text, "CM") {
		line.Text, _, _ = strings.Cut(line.Text, "\n\n") // what comes after an empty line is another part
		if line.Text = strings.TrimSpace(line.Text); line.Alias[0] == 'C' {
			candidates = append(candidates, line)
		} else {
			memories = append(memories, line)
		}
	}
	decisions := []Decision{}
	for _, c := range candidates {
		d := cmp.Or(decide(c, memories), &Decision{Action: actionAdd, Reason: "Nothing known says this."})
		d.Candidate = c.Alias
		decisions = append(decisions, *d)
	}
	return string(mustJSON(object{"decisions": decisions}))
}

// The actions of a decision.
const (
	actionAdd    = "ADD"
	actionUpdate = "UPDATE"
	actionDelete = "DELETE"
	actionNoop   = "NOOP"
)

// consolidate compares each candidate with the memories that no other candidate has changed: what is known is not kept again,
// what is contradicted goes, what is less than the candidate becomes it.
func consolidate(r *Request) string {
	changed := map[string]bool{}
	return Decide(r.Text, func(c Line, memories []Line) *Decision {
		for _, action := range []string{actionNoop, actionDelete, actionUpdate} {
			for _, m := range memories {
				if changed[m.Alias] || comparison(c.Text, m.Text) != action {
					continue
				}
				d := &Decision{Action: action, Memory: &m.Alias, Reason: "By what both say."}
				changed[m.Alias] = action != actionNoop
				if action == actionUpdate {
					d.Merged = &c.Text
				}
				return d
			}
		}
		return nil
	})
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
