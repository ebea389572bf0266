package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// raceWorkers extracts two chats of one user at the same time, in which the same facts are said, once in other words,
// and one fact each that only that chat has.
func raceWorkers(ctx context.Context, s *system, size int) ([]figure, error) {
	const atOnce = 4
	s.model.play(canned{
		extract: func(asked *extraction) (facts []fact) {
			for _, one := range asked.messages {
				facts = append(facts, raceFact(one)...)
			}
			return facts
		},
		decide: sameAgain(truths),
		before: func(purpose, _ string) {
			if purpose == forExtract || purpose == forConsolidate {
				time.Sleep(time.Duration(uuid.New()[0]) * time.Millisecond / 8) // so that the two meet at each step
			}
		},
	})
	var mu sync.Mutex
	var lost, doubled, sources []string
	var all errgroup.Group
	all.SetLimit(atOnce)
	for n := range size {
		all.Go(func() error {
			without, twice, unsourced, err := s.raceRound(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			lost, doubled, sources = append(lost, without...), append(doubled, twice...), append(sources, unsourced...)
			return err
		})
	}
	err := all.Wait()
	return []figure{
		informs("rounds", float64(size)),
		none("duplicates", len(doubled), "mem0#6243", doubled...),
		none("facts lost", len(lost), "mem0#6243", lost...),
		none("sources lost", len(sources), "", sources...),
	}, err
}

// raceFact makes a fact of a message: of those that both chats have in other words where the message is marked.
func raceFact(one line) (facts []fact) {
	for _, t := range truths {
		if strings.Contains(one.text, t.says) {
			text := t.fact
			if strings.Contains(one.text, "By the way") {
				text = t.again
			}
			facts = append(facts, keep(text, t.says).from(one.alias))
		}
	}
	return facts
}

// raceRound returns what is lost, what is there twice, and what lacks a source.
func (s *system) raceRound(ctx context.Context, n int) (lost, doubled, sources []string, err error) {
	p, err := s.person(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	const shared = 3
	both := make([]truth, shared+2) // the shared ones, then one of each chat
	for i := range both {
		both[i] = truths[(n*7+i)%len(truths)]
	}
	chats := make([]uuid.UUID, 2)
	for c := range chats {
		var messages []said
		now := time.Now().Add(-time.Hour)
		for i, t := range slices.Concat(both[:shared], both[shared+c:shared+c+1]) {
			text := t.says
			if i == 1 && c == 1 {
				text = "By the way: " + text
			}
			messages = append(messages, at(now, fromUser, text), at(now, fromAssistant, fmt.Sprintf("I see (chat %d).", c)))
		}
		if chats[c], err = p.tell(ctx, messages...); err != nil {
			return nil, nil, nil, err
		}
	}
	var race errgroup.Group
	for _, chat := range chats {
		race.Go(func() error { return p.learn(ctx, chat) })
	}
	if err := race.Wait(); err != nil {
		return nil, nil, nil, err
	}
	stored, err := rows[struct {
		Content string
		Sources int
	}](ctx, s, `select m.content, (select count(*) from public.memory_sources s where s.memory_id = m.id)::int as sources
		from public.memories m where m.user_id = $1`, p.id)
	for i, t := range both {
		found, of := 0, 0
		for _, m := range stored {
			if truthOf(m.Content, []truth{t}) == 0 {
				found, of = found+1, of+m.Sources
			}
		}
		want := 1
		if i < shared {
			want = len(chats)
		}
		switch {
		case found == 0:
			lost = append(lost, fmt.Sprintf("round %d: %s", n, t.fact))
		case found > 1:
			doubled = append(doubled, fmt.Sprintf("round %d: %s", n, t.fact))
		case of != want:
			sources = append(sources, fmt.Sprintf("round %d: %s has %d of %d", n, t.fact, of, want))
		}
	}
	return lost, doubled, sources, err
}

// pause waits up to a time, which chance decides.
func pause(ctx context.Context, most time.Duration) {
	_ = kit.Sleep(ctx, time.Duration(uuid.New()[1])*most/256)
}
