package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// speakLanguages has a model that writes facts down in the user's language, one that does so when it is asked again, and one
// that writes English in any case.
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
			s.play(canned{extract: func(later []people.Line) []people.Fact {
				if !strings.Contains(later[0].Text, says) {
					return nil
				}
				if first := calls.Add(1) == 1; kind == "stubborn" || kind == "second" && first {
					return []people.Fact{people.Keep(english, says, later[0].Alias)}
				}
				return []people.Fact{people.Keep(fact, says, later[0].Alias)}
			}})
			p := s.person()
			p.tellAndLearn(turn(time.Now().Add(-time.Hour), says, "♪")...)
			stored := p.memories()
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

// runLate extracts what was said 40 days before and more.
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
		s.play(canned{extract: func(later []people.Line) []people.Fact {
			on, err := time.Parse(time.DateOnly, later[0].Date[:min(len(later[0].Date), len(time.DateOnly))])
			if err != nil || !strings.Contains(later[0].Text, says) {
				return nil
			}
			text := event[2]
			switch kind {
			case datedNow:
				on = time.Now().UTC()
			case undated:
				text = event[3]
			}
			from := on.AddDate(0, 0, days).Format(time.DateOnly)
			f := people.Keep(strings.NewReplacer("{n}", fmt.Sprint(n), "{on}", from).Replace(text), says, later[0].Alias)
			f.ValidFrom = &from
			return []people.Fact{f}
		}})
		p := s.person()
		p.tellAndLearn(turn(moment, says, "I see.")...)
		stored := p.memories()
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
