package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// chain is something of a person that changes: what they say at each step, what a model makes of it, and the words by
// which a model knows that two facts are about the same.
type chain struct {
	says, facts []string
	about       string
}

// stepDays is the time from one step to the next.
const stepDays = 60

// chainsOf returns the chains of the n-th person, one of each kind.
func chainsOf(n int) []chain {
	pick := func(from string, n int) string { all := strings.Fields(from); return all[n%len(all)] }
	const cities = "Lyon Porto Ghent Turin Graz Malmö Bergen Leipzig Utrecht Basel Gdansk"
	const things = "sailboat kayak motorcycle caravan piano telescope harpsichord tandem"
	const ailments = "migraine insomnia eczema sciatica tinnitus hayfever"
	const names = "Nimbus Quarry Larkspur Tessera Foxglove Halyard Meridian Juniper"
	var moved chain
	moved.about = "lives in"
	for step := range 4 {
		city := pick(cities, n*3+step)
		moved.says, moved.facts = append(moved.says, "I live in "+city+" now."), append(moved.facts, "The user lives in "+city+".")
	}
	thing, ailment := pick(things, n), pick(ailments, n)
	before, after := pick(names, n), pick(names, n+3)
	number := func(step int) string { return fmt.Sprintf("+49 30 55%04d", 1000+n*7+step*13) }
	return []chain{
		moved,
		{[]string{"I own a " + thing + ".", "I sold my " + thing + "."}, []string{"The user owns a " + thing + ".", "The user sold the " + thing + "."}, thing},
		{
			[]string{"I have " + ailment + ".", "I no longer have " + ailment + "."},
			[]string{"The user has " + ailment + ".", "The user no longer has " + ailment + "."},
			ailment,
		},
		{[]string{"My company is called " + before + ".", "My company is called " + after + " from now on."}, []string{"The user's company " +
			"is called " + before + ".", "The user's company is called " + after + "."}, "company is called"},
		{[]string{"My phone number is " + number(0) + ".", "My phone number is now " + number(1) + ".", "My phone number is now " + number(2) + "."},
			[]string{
				"The user's phone number is " + number(0) + ".",
				"The user's phone number is " + number(1) + ".",
				"The user's phone number is " + number(2) + ".",
			}, "phone number"},
	}
}

// followChanges tells chains of change, each step in a chat of its own months after the one before, and asks what was
// known when. The model decides as one that sees what contradicts what; it is shown only what the program found.
func followChanges(ctx context.Context, s *system, size int) ([]figure, error) {
	right, all := 0, 0
	var wrong []string
	for n := 0; all < size; n++ {
		p, err := s.person(ctx)
		if err != nil {
			return nil, err
		}
		chains := chainsOf(n)
		if err := tellChains(ctx, s, p, chains); err != nil {
			return nil, err
		}
		for _, c := range chains {
			all++
			why, err := p.judgeChain(ctx, c)
			switch {
			case err != nil:
				return nil, err
			case why == "":
				right++
			default:
				wrong = append(wrong, strings.Join(c.facts, " → ")+": "+why)
			}
		}
	}
	return []figure{exactly("chains: new there, old closed, as_of right", right, all, "mem0#4536: lost", wrong...)}, nil
}

// stepTime is when a step of a chain was said.
func stepTime(step int) time.Time {
	return time.Date(2026, 1, 10, 9, 0, 0, 0, time.UTC).AddDate(0, 0, stepDays*step)
}

func tellChains(ctx context.Context, s *system, p *person, chains []chain) error {
	table := map[string][]fact{}
	steps := 0
	for _, c := range chains {
		steps = max(steps, len(c.says))
		for step, says := range c.says {
			f := keep(c.facts[step], says)
			f.ValidFrom = new(stepTime(step).Format(time.DateOnly))
			table[says] = []fact{f}
		}
	}
	s.model.play(canned{extract: told(table), decide: supersede(chains)})
	for step := range steps {
		var messages []said
		for n, c := range chains {
			if step < len(c.says) {
				moment := stepTime(step).Add(time.Duration(n) * time.Minute)
				messages = append(messages, at(moment, fromUser, c.says[step]), at(moment, fromAssistant, "I see."))
			}
		}
		if err := p.tellAndLearn(ctx, messages...); err != nil {
			return err
		}
	}
	return nil
}

// supersede decides that a fact takes the place of the one about the same.
func supersede(chains []chain) func(*consolidation) []decision {
	return func(asked *consolidation) (decisions []decision) {
		for _, c := range asked.candidates {
			for _, one := range chains {
				if !slices.ContainsFunc(one.facts, func(f string) bool { return strings.Contains(c.text, f) }) {
					continue
				}
				at := slices.IndexFunc(asked.memories, func(m line) bool {
					return slices.ContainsFunc(one.facts, func(f string) bool { return strings.Contains(m.text, f) })
				})
				if at >= 0 {
					decisions = append(decisions, decision{Candidate: c.alias, Action: "DELETE", Memory: new(asked.memories[at].alias), Reason: "It changed."})
				}
			}
		}
		return decisions
	}
}

// judgeChain returns what is wrong with a chain, "" for nothing.
func (p *person) judgeChain(ctx context.Context, c chain) (string, error) {
	all, err := p.memories(ctx)
	if err != nil {
		return "", err
	}
	for step, content := range c.facts {
		n := slices.IndexFunc(all, func(m memory) bool { return m.Content == content })
		last := step == len(c.facts)-1
		switch {
		case n < 0:
			return fmt.Sprintf("%q is lost", content), nil
		case last && (all[n].Status != "active" || all[n].ValidTo != nil):
			return fmt.Sprintf("%q is %s", content, all[n].Status), nil
		case last:
		case all[n].Status != "superseded" || all[n].SupersededBy == nil || all[n].RetractedAt == nil:
			return fmt.Sprintf("%q is not closed", content), nil
		case all[n].ValidTo == nil || all[n].ValidTo.UTC().Format(time.DateOnly) != stepTime(step+1).Format(time.DateOnly):
			return fmt.Sprintf("%q is true until %v", content, all[n].ValidTo), nil
		}
	}
	return p.judgeAsOf(ctx, c)
}

// judgeAsOf asks what was true between the steps.
func (p *person) judgeAsOf(ctx context.Context, c chain) (string, error) {
	for step := -1; step < len(c.facts); step++ {
		then := stepTime(step).AddDate(0, 0, stepDays/2)
		var answer struct{ Memories []struct{ Content string } }
		query := url.Values{"as_of": {then.Format(time.RFC3339)}, "limit": {"100"}}
		if _, err := p.call(ctx, http.MethodGet, "/v1/memories?"+query.Encode(), nil, &answer); err != nil {
			return "", err
		}
		var found []string
		for _, m := range answer.Memories {
			if slices.Contains(c.facts, m.Content) {
				found = append(found, m.Content)
			}
		}
		want := []string(nil)
		if step >= 0 {
			want = c.facts[step : step+1]
		}
		if !slices.Equal(found, want) {
			return fmt.Sprintf("as of %s: %q, not %q", then.Format(time.DateOnly), found, want), nil
		}
	}
	return "", nil
}
