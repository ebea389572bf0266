package main

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// tellOne tells a message to a new person, of which the model makes a fact, and returns the memories.
func (s *scene) tellOne(moment time.Time, says, reply string, extract func(offline.Line) offline.Fact) []memory {
	s.play(canned{extract: func(later []offline.Line) []offline.Fact {
		if !strings.Contains(later[0].Text, says) {
			return nil
		}
		return []offline.Fact{extract(later[0])}
	}})
	p := s.person()
	p.tellAndLearn(turn(moment, says, reply)...)
	return p.memories()
}

// speakLanguages has models that write facts in the user's language, do so when they are asked again, or write English.
func speakLanguages(s *scene, size int) []figure {
	const wrong, kept = "facts in another language than the user's", "facts in the user's language, kept"
	wanted := 0
	for _, row := range cases("languages", 4)[:size] {
		says, fact, english := row[1], row[2], row[3]
		for _, kind := range []string{"right", "second", "stubborn"} {
			if english == "" && kind != "right" {
				continue
			}
			var calls atomic.Int32
			stored := s.tellOne(time.Now().Add(-time.Hour), says, "♪", func(one offline.Line) offline.Fact {
				text := fact
				if first := calls.Add(1) == 1; kind == "stubborn" || kind == "second" && first {
					text = english
				}
				return people.Keep(text, says, one.Alias)
			})
			for _, m := range stored {
				if m.Content != fact {
					s.note(wrong, "%s, %s: %s", row[0], kind, m.Content)
				}
			}
			if kind == "stubborn" {
				continue
			}
			if wanted++; !knows(stored, fact) {
				s.note(kept, "%s, %s: %s", row[0], kind, fact)
			}
		}
	}
	return []figure{informs("languages", float64(size)), s.none(wrong, ""), s.all(kept, wanted, "")}
}

// Models that are asked late: one takes the day that its input says, one that of the extraction, one leaves the words as they are.
const (
	dated = iota
	datedNow
	undated
)

// runLate extracts messages that are 40 days old and more.
func runLate(s *scene, size int) []figure {
	const wrong, kept = "dates relative, or of the wrong day", "dates absolute and right, kept"
	events := cases("events", 4)
	wanted := 0
	for n := range size {
		event, kind := events[n%len(events)], (n+n/len(events))%3 // each event meets each model
		days, err := strconv.Atoi(event[0])
		s.check(err)
		moment := time.Now().UTC().AddDate(0, 0, -40-n%30).Truncate(time.Hour)
		day := moment.AddDate(0, 0, days).Format(time.DateOnly)
		says := strings.ReplaceAll(event[1], "{n}", fmt.Sprint(n))
		stored := s.tellOne(moment, says, "I see.", func(one offline.Line) offline.Fact {
			on, err := time.Parse(time.DateOnly, one.Note[:min(len(one.Note), len(time.DateOnly))])
			s.check(err)
			text := event[2]
			switch kind {
			case datedNow:
				on = time.Now().UTC()
			case undated:
				text = event[3]
			}
			from := on.AddDate(0, 0, days).Format(time.DateOnly)
			f := people.Keep(strings.NewReplacer("{n}", fmt.Sprint(n), "{on}", from).Replace(text), says, one.Alias)
			f.ValidFrom = &from
			return f
		})
		for _, m := range stored {
			if !strings.Contains(m.Content, day) || m.ValidFrom == nil || m.ValidFrom.UTC().Format(time.DateOnly) != day {
				s.note(wrong, "%s (said on %s): %s, since %v", says, moment.Format(time.DateOnly), m.Content, m.ValidFrom)
			}
		}
		if kind != dated {
			continue
		}
		if wanted++; !knows(stored, day) {
			s.note(kept, "%s (said on %s)", says, moment.Format(time.DateOnly))
		}
	}
	return []figure{s.none(wrong, "mem0#4402"), s.all(kept, wanted, "")}
}

// The cases of suites are tables: a line is a case, with bars between its columns, and \n for line ends within them.
//
//	truths     a fact as a model writes it down, as the user says it, as a model writes it down when the user says it again
//	sessions   the kind of a step of a session with an agent, a role, what it says, and the reply
//	junk       a mark of messages, a fact that a bad model makes of them, and its quote; "" for the message's first line
//	changes    what a person says at one step of a chain, and the fact; an empty line ends a chain
//	payloads   "order", which nothing said in a conversation may turn into a memory, or "forge", which a memory may hold as
//	           long as it stays one line of its section; and the text
//	languages  a language, a fact as people say it, as it is to be remembered, and the same in English
//	events     days from the message to something with a day, as people say it, and as a model writes it down with the day
//	           and without
//	smalltalk  what says nothing that anything known could help with
//	advice     sentences of replies, with nothing to remember
//
//go:embed testdata
var testdata embed.FS

func cases(name string, columns int) (all [][]string) {
	content, _ := testdata.ReadFile("testdata/" + name + ".txt") // the test reads them all
	for line := range strings.Lines(string(content)) {
		row := strings.SplitN(strings.TrimRight(line, "\n"), "|", columns)
		for n := range row {
			row[n] = strings.ReplaceAll(row[n], `\n`, "\n")
		}
		all = append(all, row)
	}
	return all
}

// truth is something worth keeping: as a model writes it down, as the user says it, and as a model writes it down when
// the user says it again.
type truth struct{ fact, says, again string }

// truths are forty things of one person, each another facet.
var truths = func() (all []truth) {
	for _, row := range cases("truths", 3) {
		all = append(all, truth{row[0], row[1], row[2]})
	}
	return all
}()

// truthOf returns which of the known a memory says, -1 for none.
func truthOf(content string, known []truth) int {
	return slices.IndexFunc(known, func(t truth) bool { return strings.Contains(content, t.fact) || strings.Contains(content, t.again) })
}

// facts are what a good model makes of a message that says something known, sometimes in other words.
func facts(one offline.Line, known []truth, inOthers func(n int) bool) (all []offline.Fact) {
	for n, t := range known {
		if !strings.Contains(one.Text, t.says) {
			continue
		}
		text := t.fact
		if inOthers(n) {
			text = t.again
		}
		all = append(all, people.Keep(text, t.says, one.Alias))
	}
	return all
}

// sameAgain decides that the same in other words is nothing new.
func sameAgain(known []truth) func(offline.Line, []offline.Line) *offline.Decision {
	return func(c offline.Line, memories []offline.Line) *offline.Decision {
		for _, m := range memories {
			if t := truthOf(c.Text, known); t >= 0 && t == truthOf(m.Text, known) {
				return &offline.Decision{Action: "NOOP", Memory: &m.Alias, Reason: "It is known."}
			}
		}
		return nil
	}
}

// What agents' transcripts repeat: each is told by words of the message that brings it.
const (
	recited    = "As you told me earlier"
	pasted     = "WHAT YOU REMEMBER ABOUT THIS USER"
	smallReply = "Okay, thanks"
)

// replayJunk plays sessions of an agent's user: a few facts, said now and again, among boot files, dumps of tools,
// heartbeats, recited memories. The model proposes all of it, and profiles that no one told.
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

// proposeAll is a model that keeps all that it reads, with the message in which it stands as evidence.
func proposeAll(known []truth) func([]offline.Line) []offline.Fact {
	junk := cases("junk", 3)
	return func(later []offline.Line) (proposed []offline.Fact) {
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
		if n := slices.IndexFunc(later, func(m offline.Line) bool { return m.Alias[0] == 'U' }); n >= 0 {
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
		return facts(one, known, func(n int) bool { return (len(one.Text)+len(one.Note)+n)%2 == 0 })
	}
}

func judgeJunk(s *scene, p *person, known []truth, messages int) []figure {
	const junk, doubled = "junk among stored memories", "near-duplicates among stored memories"
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
