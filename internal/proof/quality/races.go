package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

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
func raceFacts(later []people.Line) []people.Fact {
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

// judgeRace looks for what was told, with a source in each chat that had it.
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
