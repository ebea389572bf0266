package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// chain is something of a person that changes: what they say at each step, and what a model makes of it.
type chain struct{ says, facts []string }

const stepDays = 60

// blanks are filled with words by the number of the person and of the step.
var (
	blank  = regexp.MustCompile(`\{([a-z]+)(\d?)\}`)
	blanks = map[string][]string{
		"city":    strings.Fields("Lyon Porto Ghent Turin Graz Malmö Bergen Leipzig Utrecht Basel Gdansk"),
		"name":    strings.Fields("Nimbus Quarry Larkspur Tessera Foxglove Halyard Meridian Juniper"),
		"thing":   strings.Fields("sailboat kayak motorcycle caravan piano telescope harpsichord tandem"),
		"ailment": strings.Fields("migraine insomnia eczema sciatica tinnitus hayfever"),
	}
)

func fill(text string, n int) string {
	return blank.ReplaceAllStringFunc(text, func(found string) string {
		part := blank.FindStringSubmatch(found)
		step, _ := strconv.Atoi(part[2]) // 0 for none
		if part[1] == "phone" {
			return fmt.Sprintf("+49 30 55%04d", 1000+n*7+step*13)
		}
		words := blanks[part[1]]
		return words[(n+3*step)%len(words)]
	})
}

// chainsOf returns the chains of the n-th person, one of each kind.
func chainsOf(n int) []chain {
	chains := []chain{{}}
	for _, row := range cases("changes", 2) {
		if len(row) < 2 {
			chains = append(chains, chain{})
			continue
		}
		c := &chains[len(chains)-1]
		c.says, c.facts = append(c.says, fill(row[0], n)), append(c.facts, fill(row[1], n))
	}
	return chains
}

// followChanges tells chains of change, each step in a chat of its own months after the one before, and asks for the facts
// known at each time. The model decides as one that sees what contradicts what; it is shown only what the program found.
func followChanges(s *scene, size int) []figure {
	const right = "chains: new there, old closed, as_of right"
	told := 0
	for n := 0; told < size; n++ {
		p, chains := s.person(), chainsOf(n)
		tellChains(p, chains)
		for _, c := range chains {
			told++
			if why := p.judgeChain(c); why != "" {
				s.note(right, "%s: %s", strings.Join(c.facts, " → "), why)
			}
		}
	}
	return []figure{s.all(right, told, "mem0#4536: lost")}
}

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
func hear(chains []chain) func([]offline.Line) []offline.Fact {
	return func(later []offline.Line) (facts []offline.Fact) {
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
func supersede(chains []chain) func(offline.Line, []offline.Line) *offline.Decision {
	return func(c offline.Line, memories []offline.Line) *offline.Decision {
		for _, one := range chains {
			says := func(l offline.Line) bool {
				return slices.ContainsFunc(one.facts, func(f string) bool { return strings.Contains(l.Text, f) })
			}
			if at := slices.IndexFunc(memories, says); at >= 0 && says(c) {
				return &offline.Decision{Action: "DELETE", Memory: &memories[at].Alias, Reason: "It changed."}
			}
		}
		return nil
	}
}

// judgeChain returns the fault of a chain, "" for nothing: each step but the last is closed by the next one.
func (p *person) judgeChain(c chain) string {
	var found, want []string
	for _, m := range p.memories() {
		if slices.Contains(c.facts, m.Content) {
			until := "now"
			if m.ValidTo != nil {
				until = m.ValidTo.UTC().Format(time.DateOnly)
			}
			found = append(found, fmt.Sprintf("%s %s until %s, closed: %t", m.Content, m.Status, until, m.Closed))
		}
	}
	for step, fact := range c.facts {
		is := fmt.Sprintf("superseded until %s, closed: true", stepTime(step+1).Format(time.DateOnly))
		if step == len(c.facts)-1 {
			is = "active until now, closed: false"
		}
		want = append(want, fact+" "+is)
	}
	if !slices.Equal(found, want) {
		return fmt.Sprintf("%q, not %q", found, want)
	}
	return p.judgeAsOf(c)
}

// judgeAsOf asks for the truth between the steps.
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

// What a race may have lost, doubled, or left without a source.
const (
	lostFacts   = "facts lost"
	lostSources = "sources lost"
	duplicates  = "duplicates"
)

// raceWorkers extracts two chats of one user at the same time, in which the same facts are said, once in other words,
// and one fact each that only that chat has.
func raceWorkers(s *scene, size int) []figure {
	s.play(canned{extract: raceFacts, decide: sameAgain(truths), before: func(purpose, _ string) {
		if purpose == forExtract || purpose == forConsolidate {
			pause(32 * time.Millisecond) // so that the two meet at each step
		}
	}})
	s.atOnce(4, size, s.race)
	return []figure{informs("rounds", float64(size)), s.none(duplicates, "mem0#6243"), s.none(lostFacts, "mem0#6243"), s.none(lostSources, "")}
}

// raceFacts makes facts of a message: in other words where the message is marked.
func raceFacts(later []offline.Line) []offline.Fact {
	return facts(later[0], truths, func(int) bool { return strings.Contains(later[0].Text, "By the way") })
}

const (
	racing = 2 // chats
	shared = 3 // facts that both have
)

// race plays one round with some of the truths: the shared ones, and then one of each chat.
func (s *scene) race(n int) {
	p := s.person()
	var told []truth
	for i := range shared + racing {
		told = append(told, truths[(n*7+i)%len(truths)])
	}
	chats := make([]uuid.UUID, racing)
	for c := range chats {
		var messages []said
		for i, t := range slices.Concat(told[:shared], told[shared+c:shared+c+1]) {
			text := t.says
			if i == 1 && c == 1 {
				text = "By the way: " + text
			}
			messages = append(messages, turn(time.Now().Add(-time.Hour), text, fmt.Sprintf("I see (chat %d).", c))...)
		}
		chats[c] = p.tell(messages...)
	}
	s.atOnce(racing, racing, func(c int) { p.learn(chats[c]) })
	for i, t := range told {
		chats := 1
		if i < shared {
			chats = racing
		}
		p.judgeRace(fmt.Sprintf("round %d: %s", n, t.fact), t, chats)
	}
}

// judgeRace looks for the facts told, with a source in each chat that had it.
func (p *person) judgeRace(what string, t truth, chats int) {
	found, sources := 0, 0
	for _, m := range p.memories() {
		if truthOf(m.Content, []truth{t}) == 0 {
			found, sources = found+1, sources+m.Sources
		}
	}
	switch {
	case found == 0:
		p.s.note(lostFacts, "%s", what)
	case found > 1:
		p.s.note(duplicates, "%s", what)
	case sources != chats:
		p.s.note(lostSources, "%s has %d of %d", what, sources, chats)
	}
}

// pause waits up to a time, which chance decides.
func pause(most time.Duration) { time.Sleep(rand.N(most)) } //nolint:gosec // spreads races
