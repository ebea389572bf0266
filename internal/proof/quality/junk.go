package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// What agents' transcripts repeat: each is told by words of the message that brings it.
const (
	recited    = "As you told me earlier"
	pasted     = "WHAT YOU REMEMBER ABOUT THIS USER"
	smallReply = "Okay, thanks"
)

// replayJunk plays sessions of an agent's user: a few facts, said now and again, among boot files, dumps of tools,
// heartbeats, recited memories. The model proposes all of it, and profiles that nobody told.
func replayJunk(s *scene, size int) []figure {
	p := s.person()
	known := truths[:max(4, min(len(truths), size/30))]
	s.play(canned{extract: proposeAll(known), decide: sameAgain(known)})
	const perChat = 24
	began := time.Now().AddDate(0, 0, -size/perChat-1)
	messages := 0
	for chat := 0; messages < size; chat++ {
		session := junkSession(chat, perChat, known, began.AddDate(0, 0, chat))
		p.tellAndLearn(session...)
		messages += len(session)
	}
	return judgeJunk(s, p, known, messages)
}

// junkSession is one chat. Every fact is said in one session, and said again in two later ones.
func junkSession(chat, length int, known []truth, on time.Time) (session []said) {
	say := func(kind string, n int) {
		t := known[(chat*3+n)%len(known)]
		fill := strings.NewReplacer("{chat}", fmt.Sprint(chat), "{n}", fmt.Sprint(n), "{says}", t.says, "{fact}", t.fact,
			"{is}", strings.TrimPrefix(t.fact, "The user"))
		for _, row := range cases("sessions", 4) {
			if row[0] == kind {
				messages := turn(on.Add(time.Duration(len(session))*time.Minute), fill.Replace(row[2]), fill.Replace(row[3]))
				messages[0].Role = row[1]
				messages[1].At = messages[1].At.Add(time.Minute)
				session = append(session, messages...)
			}
		}
	}
	say("boot", 0)
	const kinds = 6
	for n := 0; len(session) < length; n++ {
		say(fmt.Sprint(n%kinds), n)
	}
	return session
}

// proposeAll is a model that keeps whatever it reads, with the message in which it stands as evidence.
func proposeAll(known []truth) func([]people.Line) []offline.Fact {
	junk := cases("junk", 3)
	return func(later []people.Line) (proposed []offline.Fact) {
		one := later[0]
		first, _, _ := strings.Cut(one.Text, "\n")
		mark := ""
		for _, row := range junk {
			if mark == "" && strings.Contains(one.Text, row[0]) {
				mark = row[0]
			}
			if mark == row[0] {
				proposed = append(proposed, people.Keep(row[1], cmp.Or(row[2], first), one.Alias))
			}
		}
		recites := strings.Contains(one.Text, recited)
		nextOfUser := "U1"
		if n := slices.IndexFunc(later, func(m people.Line) bool { return m.Alias[0] == 'U' }); n >= 0 {
			nextOfUser = later[n].Alias
		}
		if mark == pasted || recites { // the known, by this message and by the user's next one
			for _, t := range known {
				if is := strings.TrimPrefix(t.fact, "The user"); strings.Contains(one.Text, is) {
					f := people.Keep(t.again, t.fact, one.Alias)
					if recites {
						f.Quote, f.Evidence = strings.TrimPrefix(one.Text, recited+", "), append(f.Evidence, nextOfUser)
					}
					proposed = append(proposed, f)
				}
			}
		}
		switch {
		case mark != "" || recites:
			return proposed
		case one.Alias[0] == 'A':
			return []offline.Fact{people.Keep("The user's services are healthy: "+first, first, one.Alias)}
		}
		return facts(one, known, func(n int) bool { return (len(one.Text)+len(one.Date)+n)%2 == 0 })
	}
}

func judgeJunk(s *scene, p *person, known []truth, messages int) []figure {
	const junk, doubled = "junk among what is stored", "near-duplicates among what is stored"
	const lost, echoes = "facts that the user said, kept", "sources that are echoes"
	stored := p.memories()
	times := make([]int, len(known))
	for _, m := range stored {
		t := truthOf(m.Content, known)
		if t < 0 {
			s.note(junk, "%s: %s", m.Status, m.Content)
		} else if times[t]++; times[t] > 1 {
			s.note(doubled, "%s", m.Content)
		}
	}
	for n, times := range times {
		if times == 0 {
			s.note(lost, "%s", known[n].fact)
		}
	}
	for _, e := range rows[struct{ Memory, Quote, Content string }](s, `select y.content as memory, coalesce(s.quote, '') as quote, m.content
		from public.memory_sources s join public.messages m on m.id = s.message_id join public.memories y on y.id = s.memory_id
		where s.user_id = $1 and (m.role <> 'user' or m.content like $2 or m.content like $3)`, p.ID, pasted+"%", smallReply+"%") {
		s.note(echoes, "%q, by %q in %q", e.Memory, e.Quote, e.Content)
	}
	return []figure{
		informs("messages replayed", float64(messages)),
		informs("proposals of the model", float64(s.number(`select coalesce(sum(candidates + coalesce((select sum(value::int)
			from jsonb_each_text(dropped)), 0)), 0)::int from public.memory_extractions where user_id = $1`, p.ID))),
		s.share(junk, len(stored), "<", 5, "mem0#4573: 97.8 %"),
		s.share(doubled, len(stored), "<", 2, "mem0#4573: 668 copies of one"),
		s.none(echoes, ""),
		s.all(lost, len(known), ""),
	}
}
