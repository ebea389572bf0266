package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// chain is something of a person that changes: what they say at each step, and what a model makes of it.
type chain struct{ says, facts []string }

// stepDays is the time from one step to the next.
const stepDays = 60

// chainsOf returns the chains of the n-th person, one of each kind.
func chainsOf(n int) []chain {
	words := []string{}
	for name, from := range map[string]string{
		"{city":    "Lyon Porto Ghent Turin Graz Malmö Bergen Leipzig Utrecht Basel Gdansk",
		"{name":    "Nimbus Quarry Larkspur Tessera Foxglove Halyard Meridian Juniper",
		"{thing":   "sailboat kayak motorcycle caravan piano telescope harpsichord tandem",
		"{ailment": "migraine insomnia eczema sciatica tinnitus hayfever",
	} {
		all := strings.Fields(from)
		pick := func(n int) string { return all[n%len(all)] }
		words = append(words, name+"}", pick(n))
		for step := range 4 {
			at := n*3 + step
			if name == "{name" {
				at = n + 3*step
			}
			words = append(words, fmt.Sprint(name, step, "}"), pick(at))
		}
	}
	for step := range 3 {
		words = append(words, fmt.Sprintf("{phone%d}", step), fmt.Sprintf("+49 30 55%04d", 1000+n*7+step*13))
	}
	fill := strings.NewReplacer(words...)
	chains := []chain{{}}
	for _, row := range cases("changes", 2) {
		if len(row) < 2 {
			chains = append(chains, chain{})
			continue
		}
		c := &chains[len(chains)-1]
		c.says, c.facts = append(c.says, fill.Replace(row[0])), append(c.facts, fill.Replace(row[1]))
	}
	return chains
}

// followChanges tells chains of change, each step in a chat of its own months after the one before, and asks what was
// known when. The model decides as one that sees what contradicts what; it is shown only what the program found.
func followChanges(s *scene, size int) []figure {
	all := 0
	var wrong []string
	for n := 0; all < size; n++ {
		p, chains := s.person(), chainsOf(n)
		tellChains(p, chains)
		for _, c := range chains {
			all++
			if why := p.judgeChain(c); why != "" {
				wrong = append(wrong, strings.Join(c.facts, " → ")+": "+why)
			}
		}
	}
	return []figure{exactly("chains: new there, old closed, as_of right", all-len(wrong), all, "mem0#4536: lost", wrong...)}
}

// stepTime is when a step of a chain was said.
func stepTime(step int) time.Time {
	return time.Date(2026, 1, 10, 9, 0, 0, 0, time.UTC).AddDate(0, 0, stepDays*step)
}

func tellChains(p *person, chains []chain) {
	p.s.play(canned{extract: hear(chains), decide: supersede(chains)})
	for step := 0; ; step++ {
		var messages []said
		for n, c := range chains {
			if step < len(c.says) {
				messages = append(messages, turn(stepTime(step).Add(time.Duration(n)*time.Minute), c.says[step], "I see.")...)
			}
		}
		if len(messages) == 0 {
			return
		}
		p.tellAndLearn(messages...)
	}
}

// hear makes a fact of each step, true since it was said.
func hear(chains []chain) func([]people.Line) []people.Fact {
	return func(later []people.Line) (facts []people.Fact) {
		for _, c := range chains {
			for step, says := range c.says {
				if strings.Contains(later[0].Text, says) {
					f := people.Keep(c.facts[step], says, later[0].Alias)
					f.ValidFrom = new(stepTime(step).Format(time.DateOnly))
					facts = append(facts, f)
				}
			}
		}
		return facts
	}
}

// supersede decides that a fact takes the place of the one about the same.
func supersede(chains []chain) func(people.Line, []people.Line) *people.Decision {
	return func(c people.Line, memories []people.Line) *people.Decision {
		for _, one := range chains {
			says := func(l people.Line) bool {
				return slices.ContainsFunc(one.facts, func(f string) bool { return strings.Contains(l.Text, f) })
			}
			if at := slices.IndexFunc(memories, says); at >= 0 && says(c) {
				return &people.Decision{Action: "DELETE", Memory: &memories[at].Alias, Reason: "It changed."}
			}
		}
		return nil
	}
}

// judgeChain returns what is wrong with a chain, "" for nothing.
func (p *person) judgeChain(c chain) string {
	all := p.memories()
	for step, content := range c.facts {
		n := slices.IndexFunc(all, func(m memory) bool { return m.Content == content })
		last := step == len(c.facts)-1
		switch {
		case n < 0:
			return fmt.Sprintf("%q is lost", content)
		case last && (all[n].Status != "active" || all[n].ValidTo != nil):
			return fmt.Sprintf("%q is %s", content, all[n].Status)
		case last:
		case all[n].Status != "superseded" || all[n].SupersededBy == nil || all[n].RetractedAt == nil:
			return fmt.Sprintf("%q is not closed", content)
		case all[n].ValidTo == nil || all[n].ValidTo.UTC().Format(time.DateOnly) != stepTime(step+1).Format(time.DateOnly):
			return fmt.Sprintf("%q is true until %v", content, all[n].ValidTo)
		}
	}
	return p.judgeAsOf(c)
}

// judgeAsOf asks what was true between the steps.
func (p *person) judgeAsOf(c chain) string {
	for step := -1; step < len(c.facts); step++ {
		then := stepTime(step).AddDate(0, 0, stepDays/2)
		var answer struct{ Memories []struct{ Content string } }
		query := url.Values{"as_of": {then.Format(time.RFC3339)}, "limit": {"100"}}
		p.call(http.MethodGet, "/v1/memories?"+query.Encode(), nil, &answer)
		var found []string
		for _, m := range answer.Memories {
			if slices.Contains(c.facts, m.Content) {
				found = append(found, m.Content)
			}
		}
		want := c.facts[max(step, 0) : step+1]
		if !slices.Equal(found, want) {
			return fmt.Sprintf("as of %s: %q, not %q", then.Format(time.DateOnly), found, want)
		}
	}
	return ""
}
