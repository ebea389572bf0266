package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// losses are what a race has lost, doubled, or left without a source.
type losses struct{ facts, doubled, sources []string }

// raceWorkers extracts two chats of one user at the same time, in which the same facts are said, once in other words,
// and one fact each that only that chat has.
func raceWorkers(s *scene, size int) []figure {
	s.play(canned{extract: raceFacts, decide: sameAgain(truths), before: func(purpose, _ string) {
		if purpose == forExtract || purpose == forConsolidate {
			pause(32 * time.Millisecond) // so that the two meet at each step
		}
	}})
	var mu sync.Mutex
	var all losses
	s.atOnce(4, size, func(n int) {
		told, p := s.race(n)
		mu.Lock()
		defer mu.Unlock()
		all.judge(p, n, told)
	})
	return []figure{
		informs("rounds", float64(size)),
		none("duplicates", "mem0#6243", all.doubled...),
		none("facts lost", "mem0#6243", all.facts...),
		none("sources lost", "", all.sources...),
	}
}

// raceFacts makes facts of a message: of those that both chats have in other words where the message is marked.
func raceFacts(later []people.Line) (facts []people.Fact) {
	for _, t := range truths {
		if !strings.Contains(later[0].Text, t.says) {
			continue
		}
		text := t.fact
		if strings.Contains(later[0].Text, "By the way") {
			text = t.again
		}
		facts = append(facts, people.Keep(text, t.says, later[0].Alias))
	}
	return facts
}

const (
	racing = 2 // chats
	shared = 3 // facts that both have
)

// race plays one round. It returns what was told: the shared facts, and then one of each chat.
func (s *scene) race(n int) (told []truth, p *person) {
	p = s.person()
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
	return told, p
}

// judge looks for what was told, with a source in each chat that had it.
func (l *losses) judge(p *person, n int, told []truth) {
	stored := rows[struct {
		Content string
		Sources int
	}](p.s, `select m.content, (select count(*) from public.memory_sources s where s.memory_id = m.id)::int as sources
		from public.memories m where m.user_id = $1`, p.ID)
	for i, t := range told {
		found, of, want := 0, 0, 1
		for _, m := range stored {
			if truthOf(m.Content, []truth{t}) == 0 {
				found, of = found+1, of+m.Sources
			}
		}
		if i < shared {
			want = racing
		}
		switch {
		case found == 0:
			l.facts = append(l.facts, fmt.Sprintf("round %d: %s", n, t.fact))
		case found > 1:
			l.doubled = append(l.doubled, fmt.Sprintf("round %d: %s", n, t.fact))
		case of != want:
			l.sources = append(l.sources, fmt.Sprintf("round %d: %s has %d of %d", n, t.fact, of, want))
		}
	}
}

// pause waits up to a time, which chance decides.
func pause(most time.Duration) { time.Sleep(rand.N(most)) } //nolint:gosec // spreads races
