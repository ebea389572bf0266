package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// lateBy is how long before the extraction things were said.
const lateBy = 40

// when is how people say that something was on another day, and how a model that knows the day of the message writes it.
var when = []struct {
	says string
	days int // from the day of the message
}{{"yesterday", -1}, {"today", 0}, {"the day before yesterday", -2}, {"three days ago", -3}, {"tomorrow", 1}, {"a week ago", -7}}

var dateLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)`)

// runLate extracts what was said 40 days before. The model takes the day that its input says, or the day of the extraction, or
// leaves the words as they are.
func runLate(ctx context.Context, s *system, size int) ([]figure, error) {
	right, wanted := 0, 0
	var wrong, lost []string
	for n := range size {
		moment := time.Now().UTC().AddDate(0, 0, -lateBy-n%30).Truncate(time.Hour)
		how := when[n%len(when)]
		what := []string{"harvested the honey", "sold the old piano", "visited the observatory", "repaired the sundial"}[n%4]
		says := fmt.Sprintf("I %s %s, lot %d.", what, how.says, n)
		if how.days > 0 {
			says = fmt.Sprintf("%s I have the appointment for lot %d.", strings.ToUpper(how.says[:1])+how.says[1:], n)
			what = "has the appointment for"
		}
		kind := n % 3
		p, err := s.person(ctx)
		if err != nil {
			return nil, err
		}
		s.model.play(canned{extract: lateModel(kind, what, how.days, how.says, n, says)})
		if err := p.tellAndLearn(ctx, at(moment, fromUser, says), at(moment, fromAssistant, "I see.")); err != nil {
			return nil, err
		}
		stored, err := p.memories(ctx)
		if err != nil {
			return nil, err
		}
		day := moment.AddDate(0, 0, how.days).Format(time.DateOnly)
		for _, m := range stored {
			if !strings.Contains(m.Content, day) || m.ValidFrom == nil || m.ValidFrom.UTC().Format(time.DateOnly) != day {
				wrong = append(wrong, fmt.Sprintf("%s (said on %s): %s, since %v", says, moment.Format(time.DateOnly), m.Content, m.ValidFrom))
			}
		}
		if kind != 0 {
			continue
		}
		wanted++
		if slices.ContainsFunc(stored, func(m memory) bool { return strings.Contains(m.Content, day) && m.Status == "active" }) {
			right++
		} else {
			lost = append(lost, fmt.Sprintf("%s (said on %s)", says, moment.Format(time.DateOnly)))
		}
	}
	return []figure{
		none("dates relative, or of the wrong day", len(wrong), "mem0#4402", wrong...),
		exactly("dates absolute and right, kept", right, wanted, "", lost...),
	}, nil
}

// lateModel computes the date from the message's day, from today's, or not at all.
func lateModel(kind int, what string, days int, words string, n int, says string) func(*extraction) []fact {
	return func(asked *extraction) (facts []fact) {
		for _, one := range asked.messages {
			day := dateLine.FindString(one.date)
			if !strings.Contains(one.text, says) || day == "" {
				continue
			}
			moment, err := time.Parse(time.DateOnly, day)
			if err != nil {
				continue
			}
			if kind == 1 {
				moment = time.Now().UTC()
			}
			on := moment.AddDate(0, 0, days).Format(time.DateOnly)
			f := keep(fmt.Sprintf("The user %s lot %d on %s.", what, n, on), says)
			if days <= 0 {
				f.Fact = fmt.Sprintf("The user %s on %s, lot %d.", what, on, n)
			}
			if kind == 2 {
				f.Fact = fmt.Sprintf("The user %s %s, lot %d.", what, words, n)
			}
			f.ValidFrom = &on
			facts = append(facts, f.from(one.alias))
		}
		return facts
	}
}
