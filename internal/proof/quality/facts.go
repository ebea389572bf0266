package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// speakLanguages has a model that writes facts down in the user's language, one that does so when it is asked again, and one
// that writes English in any case.
func speakLanguages(s *scene, size int) []figure {
	var wrong, lost []string
	wanted := 0
	for _, row := range cases("languages", 4)[:size] {
		lang, says, fact, english := row[0], row[1], row[2], row[3]
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
					wrong = append(wrong, fmt.Sprintf("%s, %s: %s", lang, kind, m.Content))
				}
			}
			if kind == "stubborn" {
				continue
			}
			wanted++
			if !slices.ContainsFunc(stored, func(m memory) bool { return m.Content == fact && m.Status == "active" }) {
				lost = append(lost, fmt.Sprintf("%s, %s: %s", lang, kind, fact))
			}
		}
	}
	return []figure{
		informs("languages", float64(size)),
		none("facts in another language than the user's", "", wrong...),
		exactly("facts in the user's language, kept", wanted-len(lost), wanted, "", lost...),
	}
}

// event is something with a day, as people say it later: "I sold the old piano yesterday, lot 7."
type event struct {
	n    int
	what string
	says string
	when string
	days int // from the day of the message
}

// eventOf returns the n-th event. One that is yet to come is an appointment.
func eventOf(n int) event {
	days := []int{-1, 0, -2, -3, 1, -7}[n%6]
	when := []string{"yesterday", "today", "the day before yesterday", "three days ago", "tomorrow", "a week ago"}[n%6]
	what := []string{"harvested the honey", "sold the old piano", "visited the observatory", "repaired the sundial"}[n%4]
	if days > 0 {
		return event{n, "has the appointment for", fmt.Sprintf("Tomorrow I have the appointment for lot %d.", n), when, days}
	}
	return event{n, what, fmt.Sprintf("I %s %s, lot %d.", what, when, n), when, days}
}

// runLate extracts what was said 40 days before and more. The model takes the day that its input says, or the day of the
// extraction, or leaves the words as they are.
func runLate(s *scene, size int) []figure {
	const lateBy = 40
	wanted := 0
	var wrong, lost []string
	for n := range size {
		moment, e := time.Now().UTC().AddDate(0, 0, -lateBy-n%30).Truncate(time.Hour), eventOf(n)
		kind := []func(event, time.Time) people.Fact{event.dated, event.datedNow, event.undated}[n%3]
		s.play(canned{extract: func(later []people.Line) []people.Fact {
			day, err := time.Parse(time.DateOnly, later[0].Date[:min(len(later[0].Date), len(time.DateOnly))])
			if err != nil || !strings.Contains(later[0].Text, e.says) {
				return nil
			}
			f := kind(e, day)
			f.Evidence = []string{later[0].Alias}
			return []people.Fact{f}
		}})
		p := s.person()
		p.tellAndLearn(turn(moment, e.says, "I see.")...)
		stored := p.memories()
		day := moment.AddDate(0, 0, e.days).Format(time.DateOnly)
		for _, m := range stored {
			if !strings.Contains(m.Content, day) || m.ValidFrom == nil || m.ValidFrom.UTC().Format(time.DateOnly) != day {
				wrong = append(wrong, fmt.Sprintf("%s (said on %s): %s, since %v", e.says, moment.Format(time.DateOnly), m.Content, m.ValidFrom))
			}
		}
		if n%3 != 0 {
			continue
		}
		wanted++
		if !slices.ContainsFunc(stored, func(m memory) bool { return strings.Contains(m.Content, day) && m.Status == "active" }) {
			lost = append(lost, fmt.Sprintf("%s (said on %s)", e.says, moment.Format(time.DateOnly)))
		}
	}
	return []figure{
		none("dates relative, or of the wrong day", "mem0#4402", wrong...),
		exactly("dates absolute and right, kept", wanted-len(lost), wanted, "", lost...),
	}
}

// dated computes the date from the message's day.
func (e event) dated(day time.Time) people.Fact {
	on := day.AddDate(0, 0, e.days).Format(time.DateOnly)
	f := people.Keep(fmt.Sprintf("The user %s on %s, lot %d.", e.what, on, e.n), e.says)
	if e.days > 0 {
		f.Fact = fmt.Sprintf("The user %s lot %d on %s.", e.what, e.n, on)
	}
	f.ValidFrom = &on
	return f
}

// datedNow takes the day of the extraction for that of the message.
func (e event) datedNow(time.Time) people.Fact { return e.dated(time.Now().UTC()) }

// undated leaves the words as they are.
func (e event) undated(day time.Time) people.Fact {
	f := e.dated(day)
	f.Fact = fmt.Sprintf("The user %s %s, lot %d.", e.what, e.when, e.n)
	return f
}
